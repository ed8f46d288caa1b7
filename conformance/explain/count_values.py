"""Wrong totals of app count: which values of the key are meant, and where the state stood.

Every output after a restart says how many values of its key the engine had counted. So the
first one of each key bounds the offset to which the restored state belonged, and all of them
together leave few offsets or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tickproof.conformance.checkers.count_diagnosis import Diagnosis, diagnose_total
from tickproof.conformance.checkers.expected import Groups
from tickproof.conformance.checkers.matching import Place, place_of
from tickproof.conformance.explain import fault_sentences
from tickproof.conformance.explain.aftermath import Aftermath, PartitionAfter, Relation, relations
from tickproof.conformance.explain.facts import Facts, ranges
from tickproof.conformance.explain.words import diagnosis
from tickproof.conformance.history import events
from tickproof.conformance.text import counted
from tickproof.generators.layouts import COUNT_IN

#: Values of a key that a diagnosis looks at behind the total.
_TAIL: Final = 4096
#: Partitions that are told one by one.
_PARTITIONS: Final = 8
#: Outputs in the order of the input that find their place in it.
_ENOUGH: Final = 8
#: Wrong totals that have to agree on what explains them.
_SAMPLE: Final = 12
#: From this bit on a difference of one bit alone is no chance.
_HIGH_BIT: Final = 24
#: Outputs after the restart that are looked at.
_MOST: Final = 50_000


def said(facts: Facts, index: int) -> str:
    """Say what a wrong output holds, and what was due."""
    out = facts.log.payloads[index]
    m = facts.matching
    text = facts.app.words(out)
    if m is None or m.due is None or m.answers[index] < 0:
        held = int((m.due["key"] == out["key"]).sum()) if m is not None and m.due is not None else 0
        number = counted(held, "record") if held else "no record"
        return f"{text}, but the input holds {number} of this key{_one_bit(int(out['n']), held)}."
    due = int(m.due[m.answers[index]]["total"])
    return f"{text}; the total due is {due}{_other_bit(int(out['total']), due)}."


def _one_bit(n: int, most: int) -> str:
    """Say that a count is one that may be, but for one bit, "" where it is not."""
    bit = max(n.bit_length() - 1, 0)
    rest = n ^ (1 << bit)
    return f": n is {rest} but for one bit, 2^{bit}" if 0 < rest <= most < 1 << bit else ""


def _other_bit(came: int, due: int) -> str:
    """Say that two totals differ in one bit, so high that no value of the input may be it."""
    bits = (came ^ due) & (1 << 64) - 1
    alone = bits.bit_count() == 1 and bits >= 1 << _HIGH_BIT
    return f", which differs in one bit, 2^{bits.bit_length() - 1}" if alone else ""


def tell(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Name the values that the first wrong total lacks or has twice, and the state behind it."""
    found = _states(facts, near) if near is not None else []
    return found or _values(facts, index, near)


def _values(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Say which values turn the total due into the one that came, and where they lie."""
    m = facts.matching
    if m is None or m.answers[index] < 0 or m.due is None:
        return []
    where, why = _of_total(facts, index)
    is_ = diagnosis(why, int(facts.log.payloads[index]["n"]))
    wrong = _until_next(facts, np.flatnonzero(m.wrong & (m.answers >= 0)), near)
    some = wrong[np.linspace(0, len(wrong) - 1, min(len(wrong), _SAMPLE)).astype(np.int64)]
    others = [_of_total(facts, one) for one in some.tolist()]
    # One sum may fit by chance: a mistake, and its cause, have to fit most wrong totals.
    if why.kind == "none" or not _most(other.kind == why.kind for _, other in others):
        return []
    if why.kind in ("rounded", "cut"):
        return [f"The total is {is_}."]
    if why.kind == "other":
        at = ranges(where[why.last - 1 : why.last]) or "no record"
        return [f"The wrong total is the true total of this key at {at}: {is_}."]
    cause = _cause(facts, why, where, near)
    if not _most(_cause(facts, other, rows, near) == cause for rows, other in others):
        near = None
    return [_meant(facts, why, where, cause, near)]


def _most(fits: Iterable[bool]) -> bool:
    """Tell whether at least half of some are true."""
    found = list(fits)
    return 2 * sum(found) >= len(found)


def _until_next(facts: Facts, index: np.ndarray, near: Aftermath | None) -> np.ndarray:
    """Return those of some outputs that came before the fault that follows ``near``."""
    return index if near is None else index[facts.log.t_ns(index) < near.until_ns]


def _cause(
    facts: Facts, why: Diagnosis, of_key: np.ndarray, near: Aftermath | None
) -> Relation | Literal["", "behind"]:
    """Return what a fault was to all records that a diagnosis means, "" for several things.

    behind: they are those of the key that were read after it, and records before them were not.
    of_key: PLACES of the records of the key.
    """
    where = of_key[why.first - 1 : why.last]
    if near is None or not len(where):
        return ""
    if why.kind in ("again", "tail"):
        base = _base(near, place_of(where[0]))
        before, first = of_key["offset"][why.first - 2], where["offset"][0]
        return "behind" if base is not None and before < base <= first else ""
    found = relations(facts.history, where, near).items()
    return next((kind for kind, number in found if number == len(where)), "")


def _of_total(facts: Facts, index: int) -> tuple[np.ndarray, Diagnosis]:
    """Return the PLACES of the records of an output's key, and what its total would be right to."""
    out, m = facts.log.payloads[index], facts.matching
    assert m is not None and m.due is not None
    n = int(out["n"])
    rows = np.flatnonzero(m.due["key"] == out["key"])[: n + _TAIL]
    where = m.places(rows)
    stream, partition, _ = place_of(where[0])  # all records of a key are in one partition
    values = facts.history.inputs(COUNT_IN, stream)
    numbers = [p.partition for p in facts.history.partitions if p.stream == stream]
    of_key = np.array(values[numbers.index(partition)]["value"][where["offset"]])
    return where, diagnose_total(of_key, n, int(out["total"]))


def _meant(
    facts: Facts,
    why: Diagnosis,
    of_key: np.ndarray,
    cause: Relation | Literal["", "behind"],
    near: Aftermath | None,
) -> str:
    """Say what the diagnosis means, in offsets, and what the fault was to them.

    of_key: PLACES of the records of the key. near: None if the cause is not that of the others.
    """
    where = of_key[why.first - 1 : why.last]
    at = ranges(where) or "no record"
    if why.kind in ("again", "tail"):
        text = f"The wrong total is the sum of this key's values from {ranges(where[:1])} on"
        if near is not None and cause == "behind":
            return (
                f"{text}, and that is the first of them at or after offset "
                f"{_base(near, place_of(where[0])):,}, from which the engine read on after "
                f"{facts.name(near)}: what it knew of the key before was lost."
                f"{fault_sentences.hidden(facts, near)}"
            )
        return f"{text}: what came before was lost."
    verb = "counts twice" if why.kind == "twice" else "lacks"
    text = f"The wrong total {verb} exactly the value{'s'[: len(where) > 1]} of this key at {at}"
    if near is None:
        return f"{text}."
    words: dict[str, str] = {
        "given-up": "released before {} and not fetched again",
        "left": "fetched before {} and not again",
        "again": "fetched before {} and again after it",
        "never": "never fetched",
    }
    if cause in words:
        return f"{text}, {words[cause].format(facts.name(near))}."
    return f"{text}, {facts.journey(place_of(where[0]), near)}."


def _base(near: Aftermath | None, place: Place) -> int | None:
    """Return the offset from which the partition of a record was read on after a fault."""
    partitions = near.places if near is not None else ()
    address = (place.stream, place.partition)
    return next((p.base for p in partitions if (p.stream, p.partition) == address), None)


@dataclass(frozen=True)
class _Went:
    """How one partition went on after a fault. state: None where the outputs do not show it.

    outputs: positions of the outputs of its keys since then.
    """

    place: PartitionAfter
    state: Restored | None
    outputs: np.ndarray

    @property
    def text(self) -> str:
        """Where it read on and with which totals: "from 5 with the totals of 8"."""
        head = f"partition {self.place.partition} from offset {self.place.base:,}"
        if self.state is None:
            return f"{head}, totals unknown"
        if self.state.sound:
            return f"{head} with its totals"
        edge = self.state.low if self.state.low > self.state.base else self.state.high
        return f"{head} with the totals of offset {edge:,}"


def stands(facts: Facts, index: int, near: Aftermath | None) -> Place | None:
    """Return the record that a wrong total was made of, by its place among the outputs.

    Where records were counted twice or left out, its n is that of another record. None
    where that is not so, or where the order of the outputs does not tell.
    """
    for went in _went(facts, near) if near is not None else ():
        if went.state is None or went.state.sound:
            continue
        at = int(np.searchsorted(went.outputs, index))
        if at < min(went.state.run, len(went.outputs)) and int(went.outputs[at]) == index:
            return Place(went.place.stream, went.place.partition, went.state.first + at)
    return None


def shifted(facts: Facts, near: Aftermath | None) -> bool:
    """Whether some partition went on with totals of another offset than it read from."""
    found = _went(facts, near) if near is not None else []
    return any(went.state is not None and not went.state.sound for went in found)


def _states(facts: Facts, near: Aftermath) -> list[str]:
    """Compare, partition by partition, the state after a fault with the offset read from."""
    found = _went(facts, near)
    bad = [went for went in found if went.state is not None and not went.state.sound]
    if not bad or not _explain_most(facts, found, bad, near):
        return []
    if all(went.state is not None and went.state.low == 0 for went in bad):
        place = bad[0].place
        others = f", and likewise in {counted(len(bad) - 1, 'other partition')}" * (len(bad) > 1)
        other = _of_another(facts, near, place)
        why = "" if other else ": the offset was restored and the state was not"
        said = [
            f"After {facts.name(near)} it resumed partition {place.partition} at offset "
            f"{place.base:,}{other}, with totals that began at zero{others}{why}."
        ]
    else:
        said = [_two_cuts(facts, near, bad)]
    if 1 < len(found) <= _PARTITIONS and len(bad) < len(found):
        said.append(f"In all it resumed: {'; '.join(went.text for went in found)}.")
    return said


def _of_another(facts: Facts, near: Aftermath, place: PartitionAfter) -> str:
    """Name the one partition that had released the offset at which another one resumed."""
    rows = facts.history.releases
    rows = rows[(rows["t_ns"] < near.fault.t_ns) & (rows["stream"] == place.stream)]
    by = np.unique(rows["partition"][rows["offset"] == place.base]).tolist()
    if not place.base or len(by) != 1 or by == [place.partition]:
        return ""
    other = facts.partition(place.stream, by[0])
    return f", which {other} had released before and this one never"


def _explain_most(
    facts: Facts, found: Sequence[_Went], bad: Sequence[_Went], near: Aftermath
) -> bool:
    """Tell whether the states of ``bad`` give most of the wrong outputs as they came."""
    m = facts.matching
    assert m is not None
    looked = np.concatenate([went.outputs[:_MOST] for went in found])
    wrong = _until_next(facts, looked[m.wrong[looked]], near)
    given = [
        went.outputs[: went.state.run][went.state.fits] for went in bad if went.state is not None
    ]
    return _most(np.isin(wrong, np.concatenate(given)).tolist())


def _two_cuts(facts: Facts, near: Aftermath, bad: list[_Went]) -> str:
    pairs = [(went.place, went.state) for went in bad if went.state is not None]
    place, state = max(pairs, key=lambda pair: abs(pair[1].low - pair[1].base))
    ahead = state.low > state.base
    edge = state.low if ahead else state.high
    low, high = sorted((state.base, edge))
    what = "went into the totals twice" if ahead else "are in no total"
    others = f" (so too in {counted(len(bad) - 1, 'other partition')})" if len(bad) > 1 else ""
    return (
        f"After {facts.name(near)} it resumed partition {place.partition} at offset "
        f"{state.base:,} with the totals of offset {edge:,}: offsets {low:,} to {high - 1:,} "
        f"{what}{others}. State and offset come from two different cuts."
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
        e.connection
        for e in history.all(events.Connected)
        if near.fault.t_ns < e.t_ns < near.until_ns
    ]
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
    numbers = [p.partition for p in history.partitions]
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


# -- the state of a restarted engine ---------------------------------------------------------


@dataclass(frozen=True)
class Restored:
    """State of offset ``low`` to ``high`` (no record of a judged key lies between).

    base: the offset from which the engine read on. keys: how many of them agree. first: the
    offset of the record that the first output answers. run: how many outputs in a row answer
    the records from there on, one each. fits: which of them are as the state gives them.
    """

    base: int
    low: int
    high: int
    keys: int
    first: int
    run: int
    fits: np.ndarray

    @property
    def sound(self) -> bool:
        """Whether the state is that of the offset."""
        return self.low <= self.base <= self.high


def restored(partition: np.ndarray, out: np.ndarray, base: int) -> Restored | None:
    """Find the state that fits the outputs of one partition after a restart.

    partition: its COUNT_IN records. out: COUNT_OUT records of its keys in arrival order,
    sent by the restarted engine, which gives one output a record and read from ``base``
    on. None where they stand in another order than the input, or fit no single state.
    """
    out = out[:_MOST]
    at = _aligned(partition["key"][base:], out["key"])
    if at is None:
        return None
    run = min(len(out), len(partition) - base - at)
    same = partition["key"][base + at : base + at + run] == out["key"][:run]
    run = run if same.all() else int(np.argmin(same))
    key, first = np.unique(out["key"][:run], return_index=True)
    offset = base + at + first
    kept = np.isin(partition["key"], key)
    rows = np.flatnonzero(kept)
    some = partition[kept]
    groups = Groups.of(some["key"])
    order, start, count = groups.order, groups.start, groups.count
    sums = np.concatenate(([0], np.cumsum(some["value"][order], dtype=np.int64)))
    rows = rows[order]
    # In the rows of each key: how many lie before the base, and where its first output stands.
    group = np.repeat(np.arange(len(key)), count)
    before = np.bincount(group[rows < base], minlength=len(key))
    until = np.bincount(group[rows <= offset[group]], minlength=len(key))
    held = out["n"][first].astype(np.int64) - (until - before)
    if (held < 0).any() or (held > count).any():
        return None
    total = sums[start + held] - sums[start] + sums[start + until] - sums[start + before]
    if (total != out["total"][first]).any():
        return None
    # What the state gives for each further output of the run: its key, and which one of it.
    row = np.searchsorted(key, out["key"][:run])
    reach = until[row] + Groups.of(out["key"][:run]).ranks()
    gives = sums[start + held][row] - sums[start][row]
    gives += sums[start[row] + reach] - sums[start + before][row]
    fits = (out["n"][:run].astype(np.int64) == held[row] + reach - before[row]) & (
        out["total"][:run] == gives
    )
    last = np.where(held > 0, rows[np.maximum(start + held - 1, 0)], -1)
    more = np.minimum(start + held, len(rows) - 1)
    following = np.where(held < count, rows[more], len(partition))
    low, high = int(last.max()) + 1, int(following.min())
    return Restored(base, low, high, len(key), base + at, run, fits) if low <= high else None


def _aligned(keys: np.ndarray, out: np.ndarray) -> int | None:
    """Return the only place at which ``keys`` goes on like ``out``, None for none or more."""
    if len(out) < _ENOUGH:
        return None
    places = np.flatnonzero(keys == out[0])
    for step in range(1, min(len(out), 256)):
        places = places[places + step < len(keys)]
        places = places[keys[places + step] == out[step]]
        if step >= _ENOUGH and len(places) <= 1:
            break
    return int(places[0]) if len(places) == 1 else None
