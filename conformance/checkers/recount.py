"""The count app with state at least once: which records a point counts, and which of them again.

A record that is fetched again may be applied again, to a state that holds it already. So a point
(n, total) of a key may be that of its first p values and of some runs of values more, each a part
of what was fetched again at once. Such points are put back to the p-th true one here, and are
judged as if nothing had been counted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from tickproof.conformance.checkers.expected import Groups, find
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.history.rows import of_partition

#: Most states of a key that are gone through if a life may have shown nothing of it.
_MOST_STATES: Final = 5_000
#: Keys with points that nothing explains after which no more are searched thoroughly: it is clear.
_STRANGE_KEYS: Final = 20
_MOST_N: Final = np.uint64(1 << 62)
#: Of a span with more values than this, only runs from its begin on are tried.
_LONG_SPAN: Final = 2_000


class Rewind(NamedTuple):
    """Records [base, reach) of a partition, fetched again at once."""

    partition: int
    base: int
    reach: int


def rewinds(fetches: np.ndarray, partitions: int, since_ns: int) -> list[Rewind]:
    """Return what of stream 0 was fetched again from a time on; ``fetches``: FETCH rows."""
    found = []
    for partition in range(partitions):
        rows = of_partition(fetches, 0, partition)
        reach = np.maximum.accumulate(rows["end"])
        again = 1 + np.flatnonzero(rows["base"][1:] < reach[:-1])
        again = again[rows["t_ns"][again] >= since_ns]
        spans = zip(rows["base"][again].tolist(), reach[again - 1].tolist(), strict=True)
        found += [Rewind(partition, base, end) for base, end in spans]
    return found


def without_repeats(
    inputs: Sequence[np.ndarray], outputs: OutputLog, again: Sequence[Rewind], since_ns: int
) -> OutputLog:
    """Return the outputs of app count, those that count records again put back to true points.

    ``inputs``: COUNT_IN partitions; ``outputs``: COUNT_OUT; ``since_ns``: earlier outputs are
    left as they are, and so is what no record fetched again explains.
    """
    if not again or not len(outputs):
        return outputs
    records = np.concatenate([np.array(part) for part in inputs])
    groups = Groups.of(records["key"])
    totals = groups.totals(records["value"])
    came = np.array(outputs.payloads)
    group, known = find(groups.keys, came["key"])
    point = groups.points(came["key"], came["n"])
    wrong = known & ((point < 0) | (came["total"] != totals[point]))
    later = known & (outputs.t_ns(np.arange(len(came))) >= since_ns)
    # A point that looks true may count a record again, too: all of such a key are looked at.
    suspects = np.flatnonzero(later & np.isin(group, group[wrong & later]))
    suspects = suspects[np.argsort(group[suspects], kind="stable")]
    earlier = np.unique(point[known & ~wrong & ~later])
    where, strange = _Places.of(inputs), 0
    for mine in np.split(suspects, np.flatnonzero(np.diff(group[suspects])) + 1):
        if not len(mine):
            continue
        start, count = (int(part[group[mine[0]]]) for part in (groups.start, groups.count))
        rows = groups.order[start : start + count]
        sums = np.concatenate(([0], totals[start : start + count]))
        key = _Key(sums, list(where.spans(rows, again)))
        n = np.minimum(came["n"][mine], _MOST_N).astype(np.int64)
        places = key.explained(n, came["total"][mine], thorough=strange < _STRANGE_KEYS)
        strange += not places.all()
        # Where values are equal, or some add up to 0, a point may be that of several places.
        if len(np.unique(records["value"][rows])) < count or len(np.unique(sums)) <= count:
            missing = np.setdiff1d(np.arange(start, start + count), earlier) - start + 1
            places = _spread(places, n, missing)
        mine, places = mine[places > 0], places[places > 0]
        came["n"][mine], came["total"][mine] = places, sums[places]
    return replace(outputs, payloads=came)


@dataclass(frozen=True)
class _Places:
    """Places of the records of the concatenated partitions."""

    partition: np.ndarray
    offset: np.ndarray

    @classmethod
    def of(cls, inputs: Sequence[np.ndarray]) -> _Places:
        sizes = [len(part) for part in inputs]
        offsets = [np.arange(size) for size in sizes]
        return cls(np.repeat(np.arange(len(sizes)), sizes), np.concatenate(offsets))

    def spans(self, rows: np.ndarray, again: Sequence[Rewind]) -> Iterator[tuple[int, int]]:
        """Yield which values of a key were fetched again at once: from, to; none empty."""
        partition, offsets = int(self.partition[rows[0]]), self.offset[rows]
        for one in again:
            if one.partition == partition:
                low, high = np.searchsorted(offsets, [one.base, one.reach]).tolist()
                if low < high:
                    yield low, high


def _spread(places: np.ndarray, n: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return places of a key's points, so that as many as can be have one that is missing.

    A point has no place above its n.
    """
    found = places.copy()
    points = np.flatnonzero(places > 0)
    points = points[np.argsort(n[points])].tolist()
    for place in missing[::-1].tolist():
        if points and n[points[-1]] >= place:
            found[points.pop()] = place
    return found


#: Of each span: how many values each run has, their sum, and its first value, from 1.
_Runs = list[tuple[np.ndarray, ...]]


class _States(NamedTuple):
    """States of a key: how many values each counts again, their sum, and how many runs that takes.

    first: the value that the last of the runs begins with, from 1; a point of the state is that
    of this value or of a later one. Sums wrap at 64 bits, as those of app count do.
    """

    more: np.ndarray
    extra: np.ndarray
    runs: np.ndarray
    first: np.ndarray

    def those(self, mask: np.ndarray) -> _States:
        return _States(*(column[mask] for column in self))

    def distinct(self) -> _States:
        """Return each state once; where values are small, many runs have the same sum."""
        order = np.lexsort((self.runs, self.first, self.extra, self.more))
        same = np.ones(max(len(order) - 1, 0), bool)
        for column in (self.more, self.extra, self.first):
            same &= np.diff(column[order]) == 0
        return self.those(order[np.concatenate(([True], ~same))[: len(order)]])

    def and_(self, others: _States) -> _States:
        return _States(*(np.concatenate(both) for both in zip(self, others, strict=True)))


@dataclass
class _Key:
    """One key: the totals after 0, 1, 2, ... values, and spans of values fetched again.

    The first of the known states counts none again.
    """

    sums: np.ndarray
    spans: list[tuple[int, int]]
    known: _States = field(default_factory=lambda: _States(*np.zeros((4, 1), np.int64)))

    def explained(self, n: np.ndarray, total: np.ndarray, thorough: bool) -> np.ndarray:
        """Return for each point the number of values that explains it, 0 for none.

        The points are in the order of their arrival. Nothing more is looked for behind one that
        has no explanation. thorough: a life in between may have shown nothing of this key.
        """
        fits = self._fitting(n, total)
        while not (seen := fits.any(axis=0)).all():
            first = int(np.argmin(seen))
            found = self._found(n[first], total[first], thorough)
            if not len(found.more):
                break
            self.known = self.known.and_(found)
            fits = self._fitting(n, total)
        # By chance a state may fit one point; the right one fits those that follow it, too.
        rank = np.lexsort((self.known.more, -fits.sum(axis=1)))
        best = rank[np.argmax(fits[rank], axis=0)]
        return np.where(seen, n - self.known.more[best], 0)

    def _fitting(self, n: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return a mask of known states by points: the point is one of the state."""
        known = self.known
        extra = total - known.extra[:, None]
        return self._true(n - known.more[:, None], extra, known.first[:, None])

    def _true(self, place: np.ndarray, total: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Tell of numbers of values, and totals without what counts again, if they belong."""
        inside = (place > 0) & (place >= first) & (place < len(self.sums))
        return inside & (self.sums[np.where(inside, place, 0)] == total)

    def _found(self, n: np.int64, total: np.int64, thorough: bool) -> _States:
        """Return states that explain a point, with one run more than known ones; or with some."""
        found = self._extended(self.known, self._all_runs, n, total)
        # A life that showed nothing began to count where it began to read: that is tried first,
        # as a key has few such runs.
        for runs in (self._first_runs, self._all_runs) if thorough else ():
            states = self.known
            for _ in self.spans[1:]:
                size = len(states.more) * sum(len(length) for length, *_ in runs)
                if len(found.more) or size > _MOST_STATES:
                    break
                states = self._extended(states, runs)
                found = self._extended(states, runs, n, total)
        return found

    def _extended(
        self, states: _States, added: _Runs, n: np.int64 | None = None, total: np.int64 | int = 0
    ) -> _States:
        """Return states with one run more: those that explain a point, or all."""
        columns = [states.those(states.runs < 0)]
        open_ = states.those(states.runs < len(self.spans))
        for more, extra, runs in zip(*open_[:3], strict=True):
            for length, run, first in added:
                one = _States(more + length, extra + run, np.full(len(run), runs + 1), first)
                if n is not None:
                    one = one.those(self._true(n - one.more, total - one.extra, one.first))
                columns.append(one)
        found = _States(*(np.concatenate(column) for column in zip(*columns, strict=True)))
        return found.distinct()

    @cached_property
    def _first_runs(self) -> _Runs:
        """Those of all runs that begin where their span does."""
        spans = zip(self._all_runs, self.spans, strict=True)
        return [tuple(part[one[2] == low + 1] for part in one) for one, (low, _) in spans]

    @cached_property
    def _all_runs(self) -> _Runs:
        """All runs of each span: how many values each has, their sum, and its first value."""
        found: _Runs = []
        for low, high in self.spans:
            sums = self.sums[low : high + 1]
            starts = np.arange(len(sums) if len(sums) <= _LONG_SPAN else 1)
            start, end = np.nonzero(np.arange(len(sums)) > starts[:, None])
            found.append((end - start, sums[end] - sums[start], low + start + 1))
        return found
