"""Wrong totals of app count: which values of the key are meant, and where the state stood."""

from __future__ import annotations

from typing import Final

import numpy as np

from conformance.checkers.count_diagnosis import Diagnosis, diagnose_total
from conformance.explain.facts import Facts, counted, ranges
from conformance.explain.recovery import Aftermath, Place
from conformance.explain.relations import Relation, relations
from conformance.explain.restored import Restored, restored
from generators.layouts import COUNT_IN

#: Values of a key that a diagnosis looks at behind the total.
_TAIL: Final = 4096


def said(facts: Facts, index: int) -> str:
    """Say what a wrong output holds, and what was due."""
    out = facts.log.payloads[index]
    m = facts.matching
    text = f"key {int(out['key'])}, n={int(out['n'])}, total={int(out['total'])}"
    if m is None or m.due is None or m.answers[index] < 0:
        held = int((m.due["key"] == out["key"]).sum()) if m is not None and m.due is not None else 0
        return f"{text}, but the input holds {counted(held, 'record')} of this key."
    return f"{text}; the total due is {int(m.due[m.answers[index]]['total'])}."


def tell(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Name the values that the first wrong total lacks or has twice, and the state behind it."""
    found = _states(facts, near) if near is not None else []
    return found or _values(facts, index, near)


def _values(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Say which values turn the total due into the one that came, and where they lie."""
    out, m = facts.log.payloads[index], facts.matching
    if m is None or m.answers[index] < 0 or m.due is None:
        return []
    n = int(out["n"])
    rows = np.flatnonzero(m.due["key"] == out["key"])[: n + _TAIL]
    stream, partition, offset = m.place(int(rows[0]))
    offsets = offset + rows - rows[0]  # all records of a key are in one partition
    values = facts.history.inputs(COUNT_IN, stream)
    numbers = [p["partition"] for p in facts.history.partitions if p["stream"] == stream]
    of_key = np.array(values[numbers.index(partition)]["value"][offsets])
    why = diagnose_total(of_key, n, int(out["total"]))
    if why.kind in ("none", "rounded"):
        return [f"The total is {why.text}."]
    meant = offsets[why.first - 1 : why.last]
    where = np.stack([np.full(len(meant), stream), np.full(len(meant), partition), meant], 1)
    return [_meant(facts, why, where, offsets, near)]


def _meant(
    facts: Facts, why: Diagnosis, where: np.ndarray, offsets: np.ndarray, near: Aftermath | None
) -> str:
    """Say what the diagnosis means, in offsets, and what the fault was to them."""
    at = ranges(where) if len(where) else "no record"
    if why.kind == "other":
        return f"It is the true total of this key at {ranges(where[-1:])}: {why.text}."
    if why.kind in ("again", "tail"):
        text = f"It is the sum of this key's values from {ranges(where[:1])} on"
        before = offsets[why.first - 2]
        place = _place(near, where[0])
        if place is not None and place.base is not None and before < place.base <= where[0, 2]:
            return (
                f"{text}, and that is the first of them at or after offset {place.base:,}, from "
                f"which the engine read on after {facts.name(near)}: what it knew of the key "
                "before was lost."
            )  # fmt: skip
        return f"{text}: what came before was lost."
    verb = "has twice" if why.kind == "twice" else "lacks"
    text = f"It {verb} exactly the value{'s'[: len(where) > 1]} of this key at {at}"
    if near is None:
        return f"{text}."
    words: dict[Relation, str] = {
        "given-up": "released before {} and not fetched again",
        "left": "fetched before {} and not again",
        "again": "fetched before {} and again after it",
        "never": "never fetched",
    }
    shared = [
        kind for kind, number in relations(facts, where, near).items() if number == len(where)
    ]
    if shared and shared[0] in words:
        return f"{text}, {words[shared[0]].format(facts.name(near))}."
    stream, partition, offset = where[0].tolist()
    return f"{text}, {facts.journey((stream, partition, offset), near)}."


def _place(near: Aftermath | None, where: np.ndarray) -> Place | None:
    """Return a partition around a fault."""
    if near is None:
        return None
    address = (int(where[0]), int(where[1]))
    return next((p for p in near.places if (p.stream, p.partition) == address), None)


def _states(facts: Facts, near: Aftermath) -> list[str]:
    """Compare, partition by partition, the state after a fault with the offset read from."""
    found = [(p, s) for p in near.places if (s := _state(facts, near, p)) is not None]
    bad = [(place, state) for place, state in found if not state.sound]
    if not bad:
        return []
    if all(state.low == 0 for _, state in bad):
        place, state = bad[0]
        others = f", and likewise in {counted(len(bad) - 1, 'other partition')}" * (len(bad) > 1)
        return [
            f"After {facts.name(near)} it read partition {place.partition} on from offset "
            f"{state.base:,}, with totals that began at nothing{others}: the offset was restored "
            "and the state was not."
        ]
    return [_two_cuts(facts, near, bad)]


def _two_cuts(facts: Facts, near: Aftermath, bad: list[tuple[Place, Restored]]) -> str:
    place, state = max(bad, key=lambda pair: abs(pair[1].low - pair[1].base))
    ahead = state.low > state.base
    edge = state.low if ahead else state.high
    low, high = sorted((state.base, edge))
    what = "went into the totals twice" if ahead else "are in no total"
    others = f" (so too in {counted(len(bad) - 1, 'other partition')})" if len(bad) > 1 else ""
    return (
        f"After {facts.name(near)} it read partition {place.partition} on from offset "
        f"{state.base:,} with the totals of offset {edge:,}: offsets {low:,} to {high - 1:,} "
        f"{what}{others}. State and offset are of two cuts."
    )


def _state(facts: Facts, near: Aftermath, place: Place) -> Restored | None:
    """Find the state from which one partition went on after a fault."""
    history, log = facts.history, facts.log
    if history.params["emit"] != "every" or place.base is None or facts.matching is None:
        return None
    first = [
        e["connection"] for e in history.all("connected")
        if near.fault.t_ns < e["t_ns"] < near.until_ns
    ]  # fmt: skip
    if not first:
        return None
    rows = log.arrivals
    rows = rows[
        (rows["t_ns"] >= near.fault.t_ns)
        & (rows["t_ns"] < near.until_ns)
        & (rows["connection"] >= min(first))
    ]
    numbers = [p["partition"] for p in history.partitions]
    partition = history.inputs(COUNT_IN)[numbers.index(place.partition)]
    index = _positions(rows["index"].astype(np.int64), rows["count"].astype(np.int64))
    out = np.array(log.payloads[index]) if len(index) else log.payloads[:0]
    out = out[np.isin(out["key"], np.unique(partition["key"]))]
    return restored(np.array(partition), out, place.base)


def _positions(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the numbers of several stretches, one after the other."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - count), count) + np.arange(total)
