"""Times at which each input was first answered and first fetched: whole arrays."""

from __future__ import annotations

from typing import Final

import numpy as np

from tickproof.conformance.checkers.expected import Groups, answered
from tickproof.conformance.checkers.symbols import order_by

_NEVER: Final = -1
#: Offsets that are noted at once.
_PIECE: Final = 1 << 22


def first_arrivals(asked: np.ndarray, came: np.ndarray, t_ns: np.ndarray) -> np.ndarray:
    """Return when each of the words ``asked`` (u64) came first (int64), -1: never.

    ``came`` arrived at ``t_ns``, in order. Where a word is asked for k times, the k-th of
    them gets its k-th arrival.
    """
    return _first(answered(asked, came), t_ns, len(asked))


def _first(rows: np.ndarray, t_ns: np.ndarray, count: int) -> np.ndarray:
    """Return the first time of each row below ``count``; times ascend, row -1 is none."""
    found = np.full(count, _NEVER, np.int64)
    known = np.flatnonzero(rows >= 0)[::-1]
    # Backwards, because the last assignment to a repeated index is the one that stays.
    found[rows[known]] = t_ns[known]
    return found


def nth_arrivals(
    asked: np.ndarray, keys: np.ndarray, n: np.ndarray, t_ns: np.ndarray, *, every: bool
) -> np.ndarray:
    """Return when each input of app count was answered first (int64), -1: never.

    asked: the key of each input, of one key in log order. keys, n, t_ns: the outputs in
    order of arrival. every: an input is answered by an output of its own n, else by one of
    its own or a higher n.
    """
    groups = Groups.of(asked)
    point = groups.points(keys, n)
    if every:
        first = _first(point, t_ns, len(asked))
    else:
        first = _first_reaching(groups, point[point >= 0], t_ns[point >= 0])
    found = np.empty(len(asked), np.int64)
    found[groups.order] = first
    return found


def _first_reaching(groups: Groups, point: np.ndarray, t_ns: np.ndarray) -> np.ndarray:
    """Return, for each point, the first time of an output at it or beyond it in its group."""
    if not len(point):
        return np.full(len(groups.order), _NEVER, np.int64)
    group = np.searchsorted(groups.start, point, side="right") - 1
    by_group = order_by(group, len(groups.keys))
    reached = np.maximum.accumulate(point[by_group])
    points = np.arange(len(groups.order))
    which = np.minimum(np.searchsorted(reached, points), len(reached) - 1)
    # What reaches a point may be an output of a group further on: then its own has none.
    owner = np.repeat(np.arange(len(groups.keys)), groups.count)
    own = (group[by_group][which] == owner) & (reached[which] >= points)
    return np.where(own, t_ns[by_group][which], _NEVER)


def first_covers(rows: np.ndarray, records: int) -> np.ndarray:
    """Return when each offset below ``records`` was fetched first (int64), -1: never.

    ``rows``: FETCH rows of one partition in time order. They may leave gaps, and come back.
    """
    found = np.full(records, _NEVER, np.int64)
    if not len(rows):
        return found
    base = np.minimum(rows["base"], records).astype(np.int64)
    sizes = np.maximum(np.minimum(rows["end"], records).astype(np.int64) - base, 0)
    ends = np.cumsum(sizes)
    cuts = np.unique(np.searchsorted(ends, np.arange(0, int(ends[-1]) + 1, _PIECE), "right"))
    # Backwards, so that the earliest stays; a bounded number of offsets at a time.
    for start, end in reversed(list(zip(cuts, [*cuts[1:], len(rows)], strict=True))):
        size = sizes[start:end]
        heads = np.cumsum(size) - size
        offsets = np.repeat(base[start:end] - heads, size) + np.arange(int(size.sum()))
        found[offsets[::-1]] = np.repeat(rows["t_ns"][start:end], size)[::-1]
    return found
