"""Two recordings of a job that somebody else ran: what of the output is not what is due.

Fingerprints say which records have no equal on the other side; those alone are read again and
held against each other by `comparison`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from tickproof.conformance.errors import InvalidFile, RequestError
from tickproof.conformance.jobs import comparison, oracle, records, user_code
from tickproof.conformance.jobs.comparison import Claims, Kind, Level, canonical
from tickproof.conformance.jobs.fingerprints import Hashing, combined, normal
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

Places = Mapping[str, Sequence[Placed]]


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


def judged(given: Recording, output: Recording, rules: Rules) -> Found:
    """Return what is wrong with an output; raises InvalidFile, RequestError."""
    return (_by_oracle if rules.oracle else _by_identity)(given, output, rules)


# -- by identity ---------------------------------------------------------------------------------


def _by_identity(given: Recording, output: Recording, rules: Rules) -> Found:
    fields = _compared_fields(given, output, rules)
    hashing = Hashing()
    due = _fingerprints(given, rules, fields, hashing)
    if not len(due.rows):
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
    left = {*rules.identity, *rules.ignore}
    both = set(sides[output.name]) - left
    values = sides[given.name] if rules.values is None else rules.values
    fields = tuple(name for name in values if name in both)
    used = (*rules.identity, *rules.key, *fields)
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
                _expect_values(bare, [name], recording.path)
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
    dues, gots = due.picked(first), got.picked(there)
    places_due, places_got = _by_id(dues, rules), _by_id(gots, rules)
    wrong = comparison.compared(
        rules.level if rules.level is not Level.SEQUENCE else Level.MULTISET,
        _rows(places_due, found.fields),
        _rows(places_got, found.fields),
        rules.claims,
    )
    holes = _holes(due, of_due, got, in_got, first, rules)
    for one in wrong:
        mine, theirs = places_due.get(one.key, {}), places_got.get(one.key, {})
        made = Difference(
            one.kind,
            one.key,
            one.expected,
            one.actual,
            tuple(mine.values()),
            tuple(theirs.values()),
        )
        if one.kind is Kind.LOST and not rules.complete and not holes(max(mine)):
            found.missing.append(made)
        elif one.kind is Kind.VALUE and not mine and due.recording.gone:
            found.unmatched.append(made)
        else:
            found.differences.append(made)


def _first(mask: np.ndarray) -> np.ndarray:
    """Return where a mask is true, the first times."""
    return places(mask)[:_EXACT]


def _by_id(picked: Mapping[int, Placed], rules: Rules) -> dict[str, dict[int, Placed]]:
    found: dict[str, dict[int, Placed]] = defaultdict(dict)
    for index, one in picked.items():
        found[_identity(one.value, rules.identity)][index] = one
    return found


def _identity(value: Mapping[str, Any], names: Sequence[str]) -> str:
    parts = [normal(value.get(name)) for name in names]
    return canonical(parts[0] if len(parts) == 1 else parts)


def _rows(
    picked: Mapping[str, Mapping[int, Placed]], fields: Sequence[str]
) -> dict[str, list[str]]:
    return {
        key: [_value(one.value, fields) for one in some.values()] for key, some in picked.items()
    }


def _value(value: Mapping[str, Any], fields: Sequence[str]) -> str:
    kept = {name: normal(value[name]) for name in fields if value.get(name) is not None}
    return canonical(kept)


def _holes(
    due: _Side, of_due: np.ndarray, got: _Side, in_got: np.ndarray, first: np.ndarray, rules: Rules
) -> Callable[[int], bool]:
    """Return what tells whether a later record of the key of one of the first has an output.

    If a key keeps its order, a record before such a one is lost for certain.
    """
    if not rules.ordered:
        return lambda _: False
    keys, answers = np.unique(due.keys[first]), distinct(taken(got.ids, in_got))
    last = np.full(len(keys), -1)
    for some in blocks(len(due.keys)):
        answered = ~of_due[some] | _members(due.ids[some], answers)
        at = some.start + np.flatnonzero(_members(due.keys[some], keys) & answered)
        np.maximum.at(last, np.searchsorted(keys, due.keys[at]), at)

    def hole(index: int) -> bool:
        return bool(last[np.searchsorted(keys, due.keys[index])] > index)

    return hole


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
    return [
        Difference(Kind.ORDER, "", str(dues[a]), str(gots[b]), (dues[a],), (gots[b],))
        for a, b in pairs[:_EXACT]
    ]


# -- by an oracle --------------------------------------------------------------------------------


def _by_oracle(given: Recording, output: Recording, rules: Rules) -> Found:
    assert rules.oracle is not None
    if not rules.key:
        raise RequestError("--oracle: expected together with --key, whose state it is given")
    if given.gone:
        raise InvalidFile(given.path, [f"an oracle needs the whole input; {given.gone}"])
    file, _, function = rules.oracle.rpartition(":")
    path = Path(file)
    expect = user_code.function(path.parent, f"{path.name}:{function}")
    dues, inputs = _due(given, expect, path, rules)
    gots: Places = defaultdict(list)
    for one in _at_most(output):
        gots[_grouped_by(one, rules, output.path)].append(one)  # type: ignore[attr-defined]
    found = Found(inputs, sum(map(len, gots.values())), _fields(dues, rules))
    found.repeated_keys = any(len(one) > 1 for one in dues.values())
    wanted = {key: [_kept(value, rules) for _, value in some] for key, some in dues.items()}
    there = {key: [_kept(one.value, rules) for one in some] for key, some in gots.items()}
    for key, values in wanted.items():
        if not rules.complete and rules.ordered:
            end = _answered(values, there.get(key, ()))
            if end < len(values):
                found.missing.append(
                    Difference(Kind.LOST, key, values[end], "", (dues[key][end][0],))
                )
                del values[end:]
    for wrong in comparison.compared(rules.level, wanted, there, rules.claims):
        at = {value: n for n, value in reversed(list(enumerate(wanted.get(wrong.key, ()))))}
        to = {value: n for n, value in enumerate(there.get(wrong.key, ()))}
        first, last = at.get(wrong.expected or wrong.actual), to.get(wrong.actual)
        made = Difference(
            wrong.kind,
            wrong.key,
            wrong.expected,
            wrong.actual,
            () if first is None else (dues[wrong.key][first][0],),
            () if last is None else (gots[wrong.key][last],),
        )
        is_open = wrong.kind is Kind.LOST and not (rules.complete or rules.ordered)
        (found.missing if is_open else found.differences).append(made)
    return found


def _due(
    given: Recording, expect: oracle.Expect, path: Path, rules: Rules
) -> tuple[dict[str, list[tuple[Placed, dict[str, Any]]]], int]:
    """Return what the oracle says, with the record that each output answers, and their number."""
    inputs = list(_at_most(given))
    if not inputs:
        raise InvalidFile(given.path, ["expected records; there are none"])
    asked = []
    for number, one in enumerate(inputs, 1):
        _expect_values(one, rules.key, given.path)
        asked.append(records.Record(number, _identity(one.value, rules.key), 0, one.value, b""))
    found = defaultdict(list)
    for record, value in oracle.outputs(expect, path, asked):
        made = Placed(f"the oracle, at {record}", value)
        placed = inputs[record.number - 1]
        found[_grouped_by(made, rules, path)].append((placed, value))
    return found, len(inputs)


def _at_most(recording: Recording) -> Iterator[Placed]:
    for number, one in enumerate(recording.records()):
        if number == records.MOST:
            what = f"expected at most {records.MOST:,} records with --oracle"
            raise InvalidFile(recording.path, [what])
        yield one


def _grouped_by(one: Placed, rules: Rules, path: Path) -> str:
    """Return the identity of an output, that of its key if there is no other."""
    names = rules.identity or rules.key
    _expect_values(one, names, path)
    return _identity(one.value, names)


def _expect_values(one: Placed, names: Sequence[str], path: Path) -> None:
    for name in names:
        if one.value.get(name) is None:
            got = shown(canonical(one.value), 200)
            raise InvalidFile(path, [f"{one.where}: expected a value of {name!r}; got {got}"])


def _kept(value: Mapping[str, Any], rules: Rules) -> str:
    names = value if rules.values is None else rules.values
    return _value(value, [one for one in names if one not in rules.ignore])


def _fields(
    dues: Mapping[str, Sequence[tuple[Placed, dict[str, Any]]]], rules: Rules
) -> tuple[str, ...]:
    first = next((some[0][1] for some in dues.values()), {})
    return tuple(one for one in rules.values or first if one not in rules.ignore)


def _answered(due: Sequence[str], got: Sequence[str]) -> int:
    """Return how many outputs, the first of a key, are answered or passed over for certain."""
    there = set(got)
    last = max((at for at, one in enumerate(due, 1) if one in there), default=0)
    return max(last, min(len(due), len(got)))
