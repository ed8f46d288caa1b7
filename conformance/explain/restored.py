"""App count after a restart: to which offset did the restored totals belong?

Every output after the restart says how many values of its key the engine had counted.
So the first one of each key bounds the offset at which the state stood, and all of them
together leave few offsets or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.checkers.expected import Groups

#: Outputs in the order of the input that find their place in it.
_ENOUGH: Final = 8
#: Outputs after the restart that are looked at.
_MOST: Final = 50_000


@dataclass(frozen=True)
class Restored:
    """State of offset ``low`` to ``high`` (no record of a judged key lies between).

    base: the offset from which the engine read on. keys: how many of them agree. first: the
    offset of the record that the first output answers. run: how many outputs in a row answer
    the records from there on, one each.
    """

    base: int
    low: int
    high: int
    keys: int
    first: int
    run: int

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
    last = np.where(held > 0, rows[np.maximum(start + held - 1, 0)], -1)
    more = np.minimum(start + held, len(rows) - 1)
    following = np.where(held < count, rows[more], len(partition))
    low, high = int(last.max()) + 1, int(following.min())
    return Restored(base, low, high, len(key), base + at, run) if low <= high else None


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
