"""Two recordings of a job that somebody else ran: what of the output is not what is due.

Fingerprints say which records have no equal on the other side; those alone are read again and
held against each other by `comparison`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from tickproof.conformance.errors import InvalidFile, RequestError
from tickproof.conformance.jobs import comparison
from tickproof.conformance.jobs.comparison import Claims, Kind, Level, canonical
from tickproof.conformance.jobs.due import Due
from tickproof.conformance.jobs.fingerprints import Hashing, combined, identity, normal
from tickproof.conformance.jobs.recording import Columns, Csv, Piece, Placed, Recording
from tickproof.conformance.report import machine
from tickproof.conformance.text import shown
from tickproof.generators.spill import (
    Spill,
    blocks,
    distinct,
    ordered,
    places,
    spilled,
    starts,
    taken,
)

#: Records of a side that are read again and compared exactly, the first that differ.
_EXACT: Final = 100_000
#: Sorted fingerprints are compared in this many slices, most of which are equal.
_SLICES: Final = 4_096
_WORKERS: Final = 8


@dataclass(frozen=True)
class Rules:
    """What the output is held to.

    identity: fields that say which output belongs to which input. key: fields that name what
    order is kept by. values: fields that have to be equal, None: those of both sides.
    complete: the output was recorded to its end. oracle: "FILE.py:FUNCTION".
    """

    identity: tuple[str, ...]
    key: tuple[str, ...] = ()
    values: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    delivery: str = "exactly-once"
    unordered: bool = False
    complete: bool = False
    oracle: str | None = None

    @property
    def ordered(self) -> bool:
        """Whether outputs of a key have to come in the order of its inputs."""
        return bool(self.key) and not self.unordered and self.delivery == "exactly-once"

    @property
    def level(self) -> Level:
        """The comparison that the output is held to."""
        if self.delivery == "at-least-once":
            return Level.VALUES
        return Level.SEQUENCE if self.ordered else Level.MULTISET

    @property
    def claims(self) -> Claims:
        """The same as claims of a job whose outputs are known."""
        return Claims("exactly-once", self.delivery, ordered=self.ordered, knows=True)


@dataclass(frozen=True)
class Difference:
    """One thing that is wrong, or missing so far, with the records on both sides."""

    kind: Kind
    identity: str
    expected: str
    actual: str
    due: tuple[Placed, ...] = ()
    got: tuple[Placed, ...] = ()


@dataclass
class Found:
    """What was found. missing: not in the output, which may have been recorded too early.

    unmatched: outputs of nothing in the input, whose begin is gone, as ``gone`` says. fields: those
    that were compared. beyond: records that differ and were not looked at.
    repeated_keys: some key has several outputs, so that there is an order.
    """

    records_in: int
    records_out: int
    fields: tuple[str, ...]
    differences: list[Difference] = field(default_factory=list)
    missing: list[Difference] = field(default_factory=list)
    unmatched: list[Difference] = field(default_factory=list)
    beyond: int = 0
    gone: str = ""
    repeated_keys: bool = True


@dataclass(frozen=True)
class _Side:
    """Fingerprints of one recording, in its order (uint64): whole rows, identities, keys."""

    recording: Recording
    rows: np.ndarray
    ids: np.ndarray
    keys: np.ndarray
    counts: Sequence[int]

    def picked(self, indices: np.ndarray) -> dict[int, Placed]:
        return self.recording.picked((int(one) for one in indices), self.counts)


@dataclass
class _Records:
    """Records of one identity, in their order; values: the fields to compare, as text."""

    indices: list[int] = field(default_factory=list)
    records: list[Placed] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def valued(self, value: str) -> tuple[Placed, ...]:
        """Return the records of a value."""
        return tuple(self.records[at].source for at, one in enumerate(self.values) if one == value)


def judged(given: Recording, output: Recording, rules: Rules, folder: Path) -> Found:
    """Return what is wrong with an output; raises InvalidFile, RequestError.

    folder: takes what an oracle makes of the input.
    """
    if rules.oracle is None:
        return _compared(given, output, rules)
    if not rules.key:
        raise RequestError("--oracle: expected together with --key, whose state it is given")
    if given.gone:
        raise InvalidFile(given.path, [f"an oracle needs the whole input; {given.gone}"])
    due = Due(given, rules.oracle, rules.key, folder)
    names = rules.identity or rules.key
    ordered_by = rules.key if {*rules.key} <= {*output.fields()} else names
    found = _compared(due, output, replace(rules, identity=names, key=ordered_by))
    found.records_in = due.inputs
    return found


def _compared(given: Recording, output: Recording, rules: Rules) -> Found:
    fields = _compared_fields(given, output, rules)
    hashing = Hashing()
    due = _fingerprints(given, rules, fields, hashing)
    if not len(due.rows) and not isinstance(given, Due):
        raise InvalidFile(given.path, ["expected records; there are none"])
    got = _fingerprints(output, rules, fields, hashing)
    found = Found(len(due.rows), len(got.rows), fields, gone=given.gone)
    odd = _differing(due.rows, got.rows, once=rules.delivery == "at-least-once")
    of_due, of_got = _members(due.rows, odd), _members(got.rows, odd)
    if len(odd):
        _explain(found, due, got, of_due, of_got, rules)
    if rules.ordered:
        found.repeated_keys, swapped = _out_of_order(due, got, of_due, of_got)
        found.differences += _swapped(due, got, swapped)
    return found


def _compared_fields(given: Recording, output: Recording, rules: Rules) -> tuple[str, ...]:
    """Return the fields to compare; raises RequestError for one that a side does not have."""
    sides = {one.name: one.fields() for one in (given, output)}
    asked = {"identity": rules.identity, "key": rules.key, "value": rules.values or ()}
    for option, names in asked.items():
        for name in names:
            for side, there in sides.items():
                if there and name not in there:
                    has = shown(", ".join(there), 200)
                    raise RequestError(
                        f"--{option} {shown(name, 80)}: {side} has no such field; it has {has}"
                    )
    values: Sequence[str] = sides[given.name] if rules.values is None else rules.values
    # An oracle says what is due, whether the output has it or not.
    known = values if isinstance(given, Due) else sides[output.name]
    asked_for = [name for name in values if name in known and name not in rules.ignore]
    if rules.ordered:  # an output of another key is out of any order
        asked_for += rules.key
    fields = tuple(name for name in dict.fromkeys(asked_for) if name not in rules.identity)
    used = (*rules.identity, *fields)
    _expect_types(given, output, used)
    _expect_types(output, given, used)
    return fields


def _expect_types(cells: Recording, other: Recording, fields: Sequence[str]) -> None:
    """Raise RequestError if cells of CSV would be compared with numbers."""
    if not isinstance(cells, Csv) or isinstance(other, Csv):
        return
    kinds = {bool: "boolean", int: "integer", float: "number"}
    asked: dict[str, str] = {}
    for record in other.sample():
        for name in fields:
            if name not in cells.types and (kind := kinds.get(type(record.value.get(name)))):
                asked[name] = "number" if "number" in (kind, asked.get(name)) else kind
    if asked:
        types = ",".join(f"{shown(name, 80)}={kind}" for name, kind in asked.items())
        raise RequestError(
            f"expected --types {types}, for cells of {cells.name} are text, and those of "
            f"{other.name} are not"
        )


def _fingerprints(
    recording: Recording, rules: Rules, fields: Sequence[str], hashing: Hashing
) -> _Side:
    """Read a recording once; raises InvalidFile for a record without identity or key."""
    needed = list(dict.fromkeys((*rules.identity, *rules.key, *fields)))
    own_keys = rules.ordered and set(rules.key) != set(rules.identity)
    by_python = Lock()  # such values are large: there are those of one piece at a time

    def hashed(columns: Columns) -> dict[str, np.ndarray]:
        return {name: hashing.column(name, column) for name, column in columns.items()}

    def of(piece: Piece) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        columns = piece.columns(needed)
        if columns is not None:
            each = hashed(columns)
        else:
            with by_python:
                each = hashed(piece.values(needed))
        for name in (*rules.identity, *rules.key):
            if not each[name].all() and (bare := _without(piece, name)):
                bare.expect([name], recording.path)
        ids = combined([each[name] for name in rules.identity], piece.count)
        rows = combined([ids, *(each[name] for name in fields)], piece.count)
        keys = combined([each[name] for name in rules.key], piece.count) if own_keys else ids
        return rows, ids, keys, piece.count

    rows, ids, keys, counts = Spill(np.uint64), Spill(np.uint64), Spill(np.uint64), list[int]()
    for one in _in_threads(of, recording.pieces(needed)):
        rows.append(one[0])
        ids.append(one[1])
        if own_keys:
            keys.append(one[2])
        counts.append(one[3])
    identities = ids.array()
    return _Side(
        recording, rows.array(), identities, keys.array() if own_keys else identities, counts
    )


def _without(piece: Piece, name: str) -> Placed | None:
    return next((one for one in piece.records() if one.value.get(name) is None), None)


def _in_threads(of: Callable[[Piece], Any], pieces: Iterator[Piece]) -> Iterator[Any]:
    """Yield a function of each piece, in order, a few of them at work at a time."""
    workers = min(_WORKERS, machine.usable_cpus())
    waiting: list[Any] = []
    with ThreadPoolExecutor(workers) as pool:
        for piece in pieces:
            waiting.append(pool.submit(of, piece))
            if len(waiting) > 2 * workers:
                yield waiting.pop(0).result()
        for one in waiting:
            yield one.result()


def _differing(due: np.ndarray, got: np.ndarray, *, once: bool) -> np.ndarray:
    """Return, sorted, the fingerprints that are not on both sides as often.

    once: how often does not matter.
    """
    one, other = ordered(due), ordered(got)
    edges = np.linspace(0, 2.0**64, _SLICES + 1)[1:-1].astype(np.uint64)
    pairs = zip(
        np.split(one, np.searchsorted(one, edges)),
        np.split(other, np.searchsorted(other, edges)),
        strict=True,
    )
    return spilled((_unlike(a, b, once) for a, b in pairs if not np.array_equal(a, b)), np.uint64)


def _unlike(one: np.ndarray, other: np.ndarray, once: bool) -> np.ndarray:
    """Return the values that are not in two sorted arrays as often."""
    values = np.unique(np.concatenate([one, other]))
    here, there = (
        np.searchsorted(side, values, "right") - np.searchsorted(side, values)
        for side in (one, other)
    )
    return values[(here > 0) != (there > 0) if once else here != there]


def _members(values: np.ndarray, of: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
    """Return a mask of the values, or of those at some places, that are in a sorted array."""
    mask = np.zeros(len(values if at is None else at), bool)
    if len(of):
        for some in blocks(len(mask)):
            these = values[some if at is None else at[some]]
            rank = np.argsort(these)  # a search of sorted values is much quicker
            these = these[rank]
            where = np.searchsorted(of, these)
            where[where == len(of)] = 0
            mask[some.start + rank] = of[where] == these
    return mask


def _explain(
    found: Found, due: _Side, got: _Side, of_due: np.ndarray, of_got: np.ndarray, rules: Rules
) -> None:
    """Add what is wrong with the records that have no equal."""
    in_due, in_got = places(of_due), places(of_got)
    ids = np.unique(due.ids[in_due[:_EXACT]])
    first = in_due[_first(_members(due.ids, ids, in_due))]
    strange = in_got[_first(~_members(got.ids, distinct(taken(due.ids, in_due)), in_got))]
    there = np.union1d(in_got[_first(_members(got.ids, ids, in_got))], strange)
    found.beyond = len(in_due) + len(in_got) - len(first) - len(there)
    dues, gots = (
        _by_id(one, found.fields, rules) for one in (due.picked(first), got.picked(there))
    )
    wrong = comparison.compared(
        rules.level if rules.level is not Level.SEQUENCE else Level.MULTISET,
        {id_: one.values for id_, one in dues.items()},
        {id_: one.values for id_, one in gots.items()},
        rules.claims,
    )
    unanswered = {id_: _unanswered(one.values, gots[id_].values) for id_, one in dues.items()}
    open_ = [dues[id_].indices[at] for id_, some in unanswered.items() for at in some]
    answered = np.setdiff1d(first, open_)
    later = _later(due, of_due, taken(got.ids, in_got), first, answered, rules)
    for one in wrong:
        mine, theirs = dues[one.key], gots[one.key]
        if one.kind is Kind.LOST:
            is_lost = {at: rules.complete or later(mine.indices[at]) for at in unanswered[one.key]}
            for some, into in ((True, found.differences), (False, found.missing)):
                if at := [place for place, lost in is_lost.items() if lost is some]:
                    inputs = tuple(mine.records[place].source for place in at)
                    into.append(Difference(one.kind, one.key, mine.values[at[0]], "", inputs))
            continue
        made = Difference(
            one.kind,
            one.key,
            one.expected,
            one.actual,
            mine.valued(one.expected or one.actual),
            theirs.valued(one.actual),
        )
        if one.kind is Kind.VALUE and not mine.values and due.recording.gone:
            found.unmatched.append(made)
        else:
            found.differences.append(made)


def _first(mask: np.ndarray) -> np.ndarray:
    """Return where a mask is true, the first times."""
    return places(mask)[:_EXACT]


def _by_id(
    picked: Mapping[int, Placed], fields: Sequence[str], rules: Rules
) -> defaultdict[str, _Records]:
    found: defaultdict[str, _Records] = defaultdict(_Records)
    for index, one in picked.items():
        records = found[identity(one.value, rules.identity)]
        records.indices.append(index)
        records.records.append(one)
        records.values.append(_value(one.value, fields))
    return found


def _value(value: Mapping[str, Any], fields: Sequence[str]) -> str:
    kept = {name: normal(value[name]) for name in fields if value.get(name) is not None}
    return canonical(kept)


def _unanswered(due: Sequence[str], got: Sequence[str]) -> list[int]:
    """Return the positions of the values in ``due`` that no output of the same identity answers.

    An output with another value answers the first one left over; a surplus repeat answers none.
    """
    left, known, found = Counter(got), {*due}, list[int]()
    for at, value in enumerate(due):
        if left[value]:
            left[value] -= 1
        else:
            found.append(at)
    return found[sum(count for value, count in left.items() if value not in known) :]


def _later(
    due: _Side,
    of_due: np.ndarray,
    of_others: np.ndarray,
    first: np.ndarray,
    answered: np.ndarray,
    rules: Rules,
) -> Callable[[int], bool]:
    """Return a function that says of one of ``first`` if a later record of its key is answered.

    Where a key keeps its order, a record before an answered one is certainly lost. of_others:
    identities of the outputs that have no equal. answered: those of ``first`` with an output.
    """
    if not rules.ordered:
        return lambda _: False
    keys, ids, others = np.unique(due.keys[first]), np.unique(due.ids[first]), distinct(of_others)
    last = np.full(len(keys), -1)
    for some in blocks(len(due.keys)):
        beyond = _members(due.ids[some], others) & ~_members(due.ids[some], ids)
        at = np.flatnonzero(_members(due.keys[some], keys) & (~of_due[some] | beyond))
        at += some.start
        np.maximum.at(last, np.searchsorted(keys, due.keys[at]), at)
    np.maximum.at(last, np.searchsorted(keys, due.keys[answered]), answered)

    def later(index: int) -> bool:
        return bool(last[np.searchsorted(keys, due.keys[index])] > index)

    return later


def _out_of_order(
    due: _Side, got: _Side, of_due: np.ndarray, of_got: np.ndarray
) -> tuple[bool, list[tuple[int, int]]]:
    """Return whether a key has several outputs, and index by index the first that differs of each.

    Only records that are there as often as due have a place in an order.
    """
    a, b = _by_key(due.keys, of_due), _by_key(got.keys, of_got)
    wrong = _unequal(due.rows, a, got.rows, b)
    if not len(wrong):
        return len(starts(taken(due.keys, a))) < len(a), []
    # By the whole of their keys: the sort above has only some bits of them.
    a, b = (_by_whole_key(side.keys, taken(at, wrong)) for side, at in ((due, a), (got, b)))
    wrong = _unequal(due.rows, a, got.rows, b)
    a, b = taken(a, wrong), taken(b, wrong)
    firsts = starts(taken(due.keys, a))
    return True, sorted(zip(a[firsts].tolist(), b[firsts].tolist(), strict=True))


def _unequal(one: np.ndarray, a: np.ndarray, other: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the positions where one[a] is not other[b]."""
    return spilled(
        (some.start + np.flatnonzero(one[a[some]] != other[b[some]]) for some in blocks(len(a))),
        np.int64,
    )


def _by_whole_key(keys: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return indices of records by key, those of a key as they come."""
    return taken(at, np.argsort(taken(keys, at), kind="stable"))


def _by_key(keys: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """Return the indices of records that are not odd by key, those of a key in their order.

    A sort of numbers is much quicker than one of indices: key above, index below.
    """
    bits = np.uint64(max(1, len(keys).bit_length()))
    mixed = spilled(
        (
            (keys[some] >> bits << bits | np.arange(some.start, some.stop, dtype=np.uint64))[
                ~odd[some]
            ]
            for some in blocks(len(keys))
        ),
        np.uint64,
    )
    mixed.sort()
    mixed &= (np.uint64(1) << bits) - np.uint64(1)
    return mixed.view(np.int64)


def _swapped(due: _Side, got: _Side, pairs: Sequence[tuple[int, int]]) -> list[Difference]:
    dues = due.picked(np.array([one for one, _ in pairs[:_EXACT]], np.int64))
    gots = got.picked(np.array([one for _, one in pairs[:_EXACT]], np.int64))
    found = []
    for a, b in pairs[:_EXACT]:
        one, other = dues[a].source, gots[b]
        found.append(Difference(Kind.ORDER, "", str(one), str(other), (one,), (other,)))
    return found
