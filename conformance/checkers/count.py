"""The count app: every output is a true point of its key's prefix sums, and none is missing.

Keys are hashed into buckets of a bounded number of records; one byte a record says
which. In a bucket, input comes in pieces with the keys' state carried from piece to
piece, so that even one hot key needs no more memory than many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from tickproof.conformance.checkers.arrays import drop_pages, first_positions, gather, mix, pieces
from tickproof.conformance.checkers.causality import AHEAD, FirstFetches, ahead
from tickproof.conformance.checkers.count_diagnosis import diagnose_total, values_of
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.checkers.delivery import place
from tickproof.conformance.checkers.expected import Groups, find
from tickproof.conformance.checkers.findings import (
    Finding,
    Findings,
    MissingPoint,
    Point,
    PointAgain,
    StrangePoint,
    Where,
    WrongTotal,
)
from tickproof.conformance.history.outputs import OutputLog

_MAX_BUCKETS: Final = 256
_HIGHEST: Final = 2**64 - 1
#: Values of a key behind a wrong total that a diagnosis may need.
TAIL: Final = 4096
#: Values that are kept whole.
_FEW: Final = 8


def check_count(
    inputs: Sequence[np.ndarray],
    outputs: OutputLog,
    emit: str,
    step_back_after: int | None = None,
    *,
    fetches: FirstFetches | None = None,
    bucket_rows: int = 3 << 17,
) -> Findings:
    """Judge the output of app count. ``inputs``: COUNT_IN partitions; ``outputs``: COUNT_OUT.

    ``emit``: "every" or "some". ``step_back_after``: a time (monotonic ns) after which a
    key may go back to an earlier n, or None where it never may. ``fetches``: when records were
    fetched first, None: not compared. Kinds: ``ahead-of-fetch``, ``unknown-key``,
    ``beyond-input``, ``wrong-total``, ``lost``, ``duplicate``, ``retracted``,
    ``step-back``, and for "every" ``skipped-order``. ValueError for another ``emit``.
    """
    counterexamples = Counterexamples()
    keys = collect_count(
        inputs,
        outputs,
        emit,
        step_back_after,
        counterexamples,
        fetches=fetches,
        bucket_rows=bucket_rows,
    )
    records = sum(map(len, inputs))
    return count_findings(counterexamples, inputs, outputs, emit, records=records, keys=keys)


def collect_count(
    inputs: Sequence[np.ndarray],
    outputs: OutputLog,
    emit: str,
    step_back_after: int | None,
    counterexamples: Counterexamples,
    *,
    offsets: Sequence[np.ndarray] | None = None,
    fetches: FirstFetches | None = None,
    bucket_rows: int = 3 << 17,
) -> int:
    """Note what is wrong with the output of app count; return how many keys there are.

    As check_count. Where ``inputs`` hold some keys only, ``offsets`` are the places of
    their records in the whole partitions, ascending.
    """
    if emit not in ("every", "some"):
        raise ValueError(f"emit: expected 'every' or 'some', got {emit!r}")
    records = max(sum(map(len, inputs)), len(outputs))
    buckets = min(_MAX_BUCKETS, -(-records * 4 // (bucket_rows * 3))) or 1
    run = _Run(
        inputs,
        offsets,
        outputs,
        [_buckets_of(partition, buckets) for partition in inputs],
        _buckets_of(outputs.payloads, buckets),
        emit == "every",
        step_back_after,
        fetches,
        bucket_rows,
    )
    return sum(_check_bucket(run, bucket, counterexamples) for bucket in range(buckets))


def count_findings(
    counterexamples: Counterexamples,
    inputs: Sequence[np.ndarray],
    outputs: OutputLog,
    emit: str,
    *,
    records: int,
    keys: int,
) -> Findings:
    """Return counterexamples as findings; ``records``, ``keys``: of the whole input.

    ``inputs`` must hold all records of the keys that have counterexamples.
    """
    found = counterexamples.findings(
        lambda example: _finding(inputs, outputs, emit == "every", example)
    )
    found.checked = records + len(outputs)
    found.facts |= {"inputs": records, "outputs": len(outputs), "keys": keys}
    return found


@dataclass(frozen=True)
class _Run:
    inputs: Sequence[np.ndarray]
    offsets: Sequence[np.ndarray] | None
    outputs: OutputLog
    input_buckets: list[np.ndarray]
    output_buckets: np.ndarray
    every: bool
    step_back_after: int | None
    fetches: FirstFetches | None
    bucket_rows: int

    def input_of(self, bucket: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (at, records) of a bucket in log order; at = offset * partitions + partition."""
        at: list[np.ndarray] = []
        records: list[np.ndarray] = []
        room = self.bucket_rows
        for partition, array in enumerate(self.inputs):
            for rows in _positions(self.input_buckets[partition], bucket, self.bucket_rows):
                if len(rows) > room and at:
                    yield np.concatenate(at), np.concatenate(records)
                    at, records, room = [], [], self.bucket_rows
                offsets = rows if self.offsets is None else self.offsets[partition][rows]
                at.append(offsets * len(self.inputs) + partition)
                records.append(gather(array, rows))
                room -= len(rows)
        if at:
            yield np.concatenate(at), np.concatenate(records)

    def output_of(
        self, bucket: int, spans: dict[int, tuple[int, int]], low: int, high: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (positions, records) of a bucket in arrival order, where n meets low to high.

        ``spans`` remembers the lowest and highest n of each batch: one hot key has many
        pieces of input, and each of them meets few batches.
        """
        for number, positions in enumerate(
            _positions(self.output_buckets, bucket, self.bucket_rows)
        ):
            if high < _HIGHEST:
                if number not in spans:
                    n = gather(self.outputs.payloads["n"], positions)
                    spans[number] = int(n.min()), int(n.max())
                if spans[number][0] > high or spans[number][1] < low:
                    continue
            yield positions, gather(self.outputs.payloads, positions)


def _buckets_of(array: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each record's key, one byte a record."""
    found = np.zeros(len(array), np.uint8)
    if buckets > 1:
        for start, piece in pieces(array):
            high = mix(piece["key"].copy()) >> np.uint64(48)
            found[start : start + len(piece)] = (high * np.uint64(buckets)) >> np.uint64(16)
    drop_pages(array)
    return found


def _positions(buckets: np.ndarray, bucket: int, rows: int) -> Iterator[np.ndarray]:
    """Yield the positions of one bucket, ascending, in batches of about ``rows`` at most."""
    batch: list[np.ndarray] = []
    size = 0
    for start in range(0, len(buckets), rows):
        some = start + np.flatnonzero(buckets[start : start + rows] == bucket)
        if batch and size + len(some) > rows:
            yield np.concatenate(batch)
            batch, size = [], 0
        batch.append(some)
        size += len(some)
    if size:
        yield np.concatenate(batch)


@dataclass
class _Keys:
    """State of each key of a bucket so far; parallel arrays, keys ascending."""

    key: np.ndarray
    n: np.ndarray
    total: np.ndarray
    last_at: np.ndarray
    last_seen: np.ndarray
    arrived_n: np.ndarray  # n of the newest output
    highest_n: np.ndarray  # highest n of any output

    @classmethod
    def none(cls) -> _Keys:
        zero = np.empty(0, np.int64)
        return cls(np.empty(0, np.uint64), zero, zero, zero, np.empty(0, bool), zero, zero)

    def with_keys(self, keys: np.ndarray) -> _Keys:
        """Return the state with room for further keys (ascending, distinct)."""
        if np.array_equal(keys, self.key):
            return self
        every = np.union1d(self.key, keys)
        old = np.searchsorted(every, self.key)
        grown = _Keys(every, *(np.zeros(len(every), a.dtype) for a in self._columns()))
        for column, before in zip(grown._columns(), self._columns(), strict=True):
            column[old] = before
        return grown

    def _columns(self) -> list[np.ndarray]:
        return [getattr(self, column.name) for column in fields(self)[1:]]


@dataclass(frozen=True)
class _Points:
    """The true points (key, n, total) of one piece of input, sorted by key and n."""

    groups: Groups
    before: np.ndarray  # of each key: values before this piece
    total: np.ndarray  # of each point
    at: np.ndarray
    first: np.ndarray  # of each point: its first output, -1 if none yet


def _extend(state: _Keys, at: np.ndarray, records: np.ndarray) -> tuple[_Keys, _Points]:
    """Take one piece of input into the state; return it and the points of the piece."""
    groups = Groups.of(records["key"])
    state = state.with_keys(groups.keys)
    row = np.searchsorted(state.key, groups.keys)
    total = groups.totals(records["value"], state.total[row])
    before = state.n[row]
    end = groups.start + groups.count - 1
    state.n[row] = before + groups.count
    state.total[row] = total[end]
    state.last_at[row] = at[groups.order[end]]
    first = np.full(len(records), -1, np.int64)
    return state, _Points(groups, before, total, at[groups.order], first)


def _check_bucket(run: _Run, bucket: int, counterexamples: Counterexamples) -> int:
    """Judge the keys of one bucket; return how many there are."""
    state = _Keys.none()
    pieces_of_input = run.input_of(bucket)
    piece = next(pieces_of_input, None)
    spans: dict[int, tuple[int, int]] = {}
    if piece is None:  # every output here has a key that never came
        for positions, records in run.output_of(bucket, spans, 0, _HIGHEST):
            _judge_keys(run, state, positions, records, counterexamples)
    while piece is not None:
        state, points = _extend(state, *piece)
        piece = next(pieces_of_input, None)
        low, high = int(points.before.min()), int((points.before + points.groups.count).max())
        if piece is None:
            low, high = 0, _HIGHEST
        for positions, records in run.output_of(bucket, spans, low, high):
            _judge_points(run, points, positions, records, counterexamples)
            if piece is None:
                _judge_keys(run, state, positions, records, counterexamples)
        if run.every:
            gone = points.first < 0
            groups = points.groups
            key = np.repeat(groups.keys, groups.count)[gone]
            n = np.arange(len(gone)) - np.repeat(groups.start - points.before - 1, groups.count)
            counterexamples.note(
                "lost", points.at[gone], key=key, n=n[gone], total=points.total[gone]
            )
    if not run.every:
        gone = ~state.last_seen
        counterexamples.note(
            "lost",
            state.last_at[gone],
            key=state.key[gone],
            n=state.n[gone],
            total=state.total[gone],
        )
    return len(state.key)


def _n_of(records: np.ndarray) -> np.ndarray:
    """Return n as int64; what no log can reach is cut to a number that none can."""
    return np.minimum(records["n"], np.uint64(1 << 62)).astype(np.int64)


def _judge_points(
    run: _Run,
    points: _Points,
    positions: np.ndarray,
    records: np.ndarray,
    counterexamples: Counterexamples,
) -> None:
    """Compare outputs with the points of one piece; outputs of other points are passed over."""
    point = points.groups.points(records["key"], records["n"], points.before)
    here = np.flatnonzero(point >= 0)
    positions, records, point = positions[here], records[here], point[here]
    wrong = records["total"] != points.total[point]
    counterexamples.note(
        "wrong-total", positions[wrong], record=records[wrong], total=points.total[point[wrong]]
    )
    if run.fetches is not None:
        fetched = run.fetches.of_places(points.at[point[~wrong]])
        run.fetches.note(counterexamples, run.outputs, positions[~wrong], fetched)
    again = first_positions(point, positions, points.first)
    origin = points.first[point[again]]
    same = gather(run.outputs.payloads, origin)["total"] == records["total"][again]
    for kind, mask in (("duplicate", same), ("retracted", ~same)):
        counterexamples.note(
            kind, positions[again][mask], record=records[again][mask], first=origin[mask]
        )


def _judge_keys(
    run: _Run,
    state: _Keys,
    positions: np.ndarray,
    records: np.ndarray,
    counterexamples: Counterexamples,
) -> None:
    """Judge keys, bounds and order of outputs, once the state holds all of the input."""
    row, known = find(state.key, records["key"])
    counterexamples.note("unknown-key", positions[~known], record=records[~known])
    n = _n_of(records)
    reach = np.zeros(len(records), np.int64)
    reach[known] = state.n[row[known]]
    beyond = known & ((n == 0) | (n > reach))
    counterexamples.note(
        "beyond-input", positions[beyond], record=records[beyond], reach=reach[beyond]
    )
    good = np.flatnonzero(known & ~beyond)
    state.last_seen[row[good[n[good] == reach[good]]]] = True
    order = good[np.argsort(row[good], kind="stable")]
    if not len(order):
        return
    row, n, positions, records = row[order], n[order], positions[order], records[order]
    head = np.concatenate(([True], row[1:] != row[:-1]))
    before = np.where(head, state.arrived_n[row], np.concatenate(([0], n[:-1])))
    # Highest so far by key: a key's ordinal above its n makes one running maximum serve all.
    group = np.cumsum(head) << 40
    carried = np.where(head, np.maximum(n, state.highest_n[row]), n)
    highest = np.maximum.accumulate(group + carried) - group
    so_far = np.where(head, state.highest_n[row], np.concatenate(([0], highest[:-1])))
    tail = np.concatenate((head[1:], [True]))
    state.arrived_n[row[tail]], state.highest_n[row[tail]] = n[tail], highest[tail]
    back = np.flatnonzero(n < before)
    if run.step_back_after is not None:
        back = back[run.outputs.t_ns(positions[back]) <= run.step_back_after]
    counterexamples.note("step-back", positions[back], record=records[back], before=before[back])
    if run.every:
        skip = n > so_far + 1
        counterexamples.note(
            "skipped-order", positions[skip], record=records[skip], before=so_far[skip]
        )


def _finding(
    inputs: Sequence[np.ndarray], outputs: OutputLog, every: bool, example: Counterexample
) -> Finding:
    kind, at, row = example.kind, example.at, example.row
    where: Where
    if kind == "lost":
        offset, partition = divmod(at, len(inputs))
        where = {"key": int(row["key"]), "partition": partition, "offset": offset}
        return MissingPoint(kind, where, Point.of(row), last=not every)
    point = Point.of(outputs.payloads[at] if kind == AHEAD else row["record"])
    where = place(outputs, at) | {"key": point.key}
    if kind == AHEAD:
        return ahead(example, where, point)
    if kind == "wrong-total":
        values = values_of(inputs, row["record"]["key"], point.n + TAIL)
        terms = tuple(values[: point.n].tolist() if point.n <= _FEW else ())
        why = diagnose_total(values, point.n, point.total)
        return WrongTotal(kind, where, point, int(row["total"]), terms, why)
    if kind in ("duplicate", "retracted"):
        first = int(row["first"])
        total = int(outputs.payloads[first]["total"])
        return PointAgain(kind, where | {"first_index": first}, point, total)
    bound = row.get("reach", row.get("before", 0))
    return StrangePoint(kind, where, point, int(bound))
