"""Time in a two-stream run: when a record was published, and what must have been seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

#: Later than every time of a run; also the publication time of what never was published.
NEVER: Final = 2**63 - 1
_ALL: Final = 2**40  # above every offset


def publish_times(published: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return when each offset was published; ``published``: PUBLISH rows of its partition."""
    times = np.append(published["t_ns"], np.int64(NEVER))
    return times[np.searchsorted(published["end"], offsets.astype(np.uint64), side="right")]


class Active:
    """Time without the pauses that the kit made; ``pauses``: (start_ns, end_ns) in any order."""

    def __init__(self, pauses: Sequence[tuple[int, int]]) -> None:
        self.edges = np.zeros(1, np.int64)
        self.lost = np.zeros(1, np.int64)  # paused time before each edge
        edges, lost, paused, reached = [0], [0], 0, 0
        for start, end in sorted(pauses):
            start = max(start, reached)
            if end > start:
                edges += [start, end]
                lost += [paused, paused + end - start]
                paused, reached = paused + end - start, end
        self.edges, self.lost = np.array(edges, np.int64), np.array(lost, np.int64)

    def at(self, t_ns: np.ndarray) -> np.ndarray:
        """Return active time; it stands still in a pause."""
        edge = np.maximum(np.searchsorted(self.edges, t_ns, side="right") - 1, 0)
        inside = (edge % 2 == 1).astype(np.int64) * (t_ns - self.edges[edge])
        return t_ns - self.lost[edge] - inside


class Fetched:
    """Fetches of one partition by an engine; ``rows``: FETCH rows in time order."""

    def __init__(self, rows: np.ndarray, active: Active, freshness_ns: int) -> None:
        self.active, self.freshness_ns = active, freshness_ns
        self.fetched_at = active.at(rows["t_ns"])
        ends = np.minimum(rows["end"], np.uint64(_ALL)).astype(np.int64)
        bases = np.minimum(rows["base"], np.uint64(_ALL)).astype(np.int64)
        self.reach = np.concatenate(([0], np.maximum.accumulate(ends)))
        # Only a fetch below what was reached before it takes anything back.
        self.again = np.flatnonzero(bases < self.reach[:-1])
        self.again_t = rows["t_ns"][self.again]
        self.again_base = bases[self.again]

    def must_be_seen(self, published: np.ndarray, decided: np.ndarray) -> np.ndarray:
        """Return for orders the offset below which every quote must have been seen.

        Quotes fetched ``freshness_ns`` of active time before an order was published
        count, unless a fetch from there on or from below came again until ``decided``.
        """
        limit = self.active.at(published) - self.freshness_ns
        rows = np.searchsorted(self.fetched_at, limit, side="right")
        low = np.searchsorted(self.again, rows)
        high = np.searchsorted(self.again_t, decided, side="right")
        return np.minimum(self.reach[rows], _range_min(self.again_base, low, high))

    def again_after(self, t_ns: np.ndarray) -> np.ndarray:
        """Return the lowest offset from which was fetched again after each time."""
        lowest = np.append(np.minimum.accumulate(self.again_base[::-1])[::-1], np.int64(_ALL))
        return lowest[np.searchsorted(self.again_t, t_ns, side="right")]


def _range_min(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return min(values[low:high]) of each pair, or 2**40 where that is empty.

    A table of minima over 1, 2, 4, ... values, made level by level; only one is held.
    """
    found = np.full(len(low), _ALL, np.int64)
    length = high - low
    table, width = values, 1
    while width <= len(values):
        here = np.flatnonzero((length >= width) & (length < 2 * width))
        found[here] = np.minimum(table[low[here]], table[high[here] - width])
        table = np.minimum(table[:-width], table[width:]) if width < len(table) else table[:0]
        width *= 2
    return found
