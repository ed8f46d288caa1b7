"""Wrong totals of app count: which values of the key are meant, and where the state stood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.checkers.count_diagnosis import Diagnosis, diagnose_total
from tickproof.conformance.explain.facts import Facts, counted, ranges
from tickproof.conformance.explain.recovery import Aftermath, Place
from tickproof.conformance.explain.relations import Relation, relations
from tickproof.conformance.explain.restored import Restored, restored
from tickproof.conformance.history import events
from tickproof.generators.layouts import COUNT_IN

#: Values of a key that a diagnosis looks at behind the total.
_TAIL: Final = 4096
#: Partitions that are told one by one.
_PARTITIONS: Final = 8


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


@dataclass(frozen=True)
class _Went:
    """How one partition went on after a fault. state: None where it cannot be told.

    outputs: positions of the outputs of its keys since then.
    """

    place: Place
    state: Restored | None
    outputs: np.ndarray

    @property
    def text(self) -> str:
        """Where it read on and with which totals: "from 5 with the totals of 8"."""
        head = f"partition {self.place.partition} from offset {self.place.base:,}"
        if self.state is None:
            return f"{head}, totals not told"
        if self.state.sound:
            return f"{head} with its totals"
        edge = self.state.low if self.state.low > self.state.base else self.state.high
        return f"{head} with the totals of offset {edge:,}"


def stands(facts: Facts, index: int, near: Aftermath | None) -> tuple[int, int, int] | None:
    """Return the record that a wrong total was made of, by its place among the outputs.

    Where records were counted twice or left out, its n is that of another record. None
    where that is not so, or where the order of the outputs does not tell.
    """
    for went in _went(facts, near) if near is not None else ():
        if went.state is None or went.state.sound:
            continue
        at = int(np.searchsorted(went.outputs, index))
        if at < min(went.state.run, len(went.outputs)) and int(went.outputs[at]) == index:
            return went.place.stream, went.place.partition, went.state.first + at
    return None


def shifted(facts: Facts, near: Aftermath | None) -> bool:
    """Whether some partition went on with totals of another offset than it read from."""
    found = _went(facts, near) if near is not None else []
    return any(went.state is not None and not went.state.sound for went in found)


def _states(facts: Facts, near: Aftermath) -> list[str]:
    """Compare, partition by partition, the state after a fault with the offset read from."""
    found = _went(facts, near)
    bad = [went for went in found if went.state is not None and not went.state.sound]
    if not bad:
        return []
    if all(went.state is not None and went.state.low == 0 for went in bad):
        place = bad[0].place
        others = f", and likewise in {counted(len(bad) - 1, 'other partition')}" * (len(bad) > 1)
        said = [
            f"After {facts.name(near)} it read partition {place.partition} on from offset "
            f"{place.base:,}, with totals that began at nothing{others}: the offset was restored "
            "and the state was not."
        ]
    else:
        said = [_two_cuts(facts, near, bad)]
    if 1 < len(found) <= _PARTITIONS and len(bad) < len(found):
        said.append(f"In all it read on: {'; '.join(went.text for went in found)}.")
    return said


def _two_cuts(facts: Facts, near: Aftermath, bad: list[_Went]) -> str:
    pairs = [(went.place, went.state) for went in bad if went.state is not None]
    place, state = max(pairs, key=lambda pair: abs(pair[1].low - pair[1].base))
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


def _went(facts: Facts, near: Aftermath) -> list[_Went]:
    """Return how each partition that was read after a fault went on."""
    key = f"{__name__} {near.number}"
    if key not in facts.history.cache:
        facts.history.cache[key] = _find(facts, near)
    return facts.history.cache[key]


def _find(facts: Facts, near: Aftermath) -> list[_Went]:
    history, log = facts.history, facts.log
    if history.params["emit"] != "every" or facts.matching is None:
        return []
    first = [
        e.connection for e in history.all(events.Connected)
        if near.fault.t_ns < e.t_ns < near.until_ns
    ]  # fmt: skip
    if not first:
        return []
    rows = log.arrivals
    rows = rows[
        (rows["t_ns"] >= near.fault.t_ns)
        & (rows["t_ns"] < near.until_ns)
        & (rows["connection"] >= min(first))
    ]
    index = _positions(rows["index"].astype(np.int64), rows["count"].astype(np.int64))
    out = np.array(log.payloads[index]) if len(index) else log.payloads[:0]
    numbers = [p["partition"] for p in history.partitions]
    found = []
    for place in near.places:
        if place.base is None:
            continue
        partition = np.array(history.inputs(COUNT_IN)[numbers.index(place.partition)])
        mine = np.isin(out["key"], np.unique(partition["key"]))
        state = restored(partition, out[mine], place.base)
        found.append(_Went(place, state, index[mine]))
    return found


def _positions(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the numbers of several stretches, one after the other."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - count), count) + np.arange(total)
