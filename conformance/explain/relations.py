"""How a set of input records stands to a fault, and to the frames that carried them."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.explain.recovery import Aftermath
from tickproof.conformance.history.rows import of_partition

#: given-up: released before the fault. left: fetched before it, not released, not fetched
#: again. again: fetched before and after it. never: not fetched at all. later: first fetched
#: after it.
Relation = Literal["given-up", "left", "again", "never", "later"]
RELATIONS: Final[tuple[Relation, ...]] = ("given-up", "left", "again", "never", "later")


def places(facts: Facts, rows: np.ndarray) -> np.ndarray:
    """Return (stream, partition, offset) of rows of the matching, one line each."""
    assert facts.matching is not None
    found = np.zeros((len(rows), 3), np.int64)
    for part in facts.matching.parts:
        here = (rows >= part.start) & (rows < part.start + part.records)
        found[here] = part.stream, part.partition, 0
        found[here, 2] = rows[here] - part.start
    return found


def relations(facts: Facts, where: np.ndarray, after: Aftermath) -> dict[Relation, int]:
    """Count records (stream, partition, offset) by what a fault was to them."""
    found: dict[Relation, int] = dict.fromkeys(RELATIONS, 0)
    for place in after.places:
        mine = (where[:, 0] == place.stream) & (where[:, 1] == place.partition)
        offset = where[mine, 2]
        if not len(offset):
            continue
        base = place.fetched if place.base is None else place.base
        again = (offset >= base) & (offset < place.fetched)
        given_up = (offset < place.released) & ~again
        left = (offset < place.fetched) & ~again & ~given_up
        beyond = offset >= place.fetched
        never = beyond & ~_covered(facts, place.stream, place.partition, offset)
        found["again"] += int(again.sum())
        found["given-up"] += int(given_up.sum())
        found["left"] += int(left.sum())
        found["never"] += int(never.sum())
        found["later"] += int(beyond.sum() - never.sum())
    return found


def _covered(facts: Facts, stream: int, partition: int, offset: np.ndarray) -> np.ndarray:
    """Return a mask of the offsets that some FETCH reply held."""
    rows = of_partition(facts.history.fetches, stream, partition)
    size = int(max(rows["end"].max(initial=0), offset.max())) + 2
    edges = np.bincount(rows["base"].astype(np.int64), minlength=size)
    edges -= np.bincount(rows["end"].astype(np.int64), minlength=size)
    return np.cumsum(edges)[offset] > 0


def nearest(facts: Facts, where: np.ndarray) -> Aftermath | None:
    """Return the fault that touches most of some records: fetched before it, not released."""
    best, most = None, 0
    for after in facts.after:
        found = relations(facts, where, after)
        touched = found["left"] + found["again"] + found["never"]
        if touched > most:
            best, most = after, touched
    return best or (facts.after[0] if facts.after else None)


def whole_replies(facts: Facts, where: np.ndarray) -> int:
    """Return how many FETCH replies hold exactly the given records; 0: they do not."""
    replies = 0
    for stream, partition in np.unique(where[:, :2], axis=0).tolist():
        rows = of_partition(facts.history.fetches, stream, partition)
        offset = np.sort(where[(where[:, 0] == stream) & (where[:, 1] == partition), 2])
        low = np.searchsorted(offset, rows["base"].astype(np.int64))
        high = np.searchsorted(offset, rows["end"].astype(np.int64))
        held = high - low
        full = held == (rows["end"] - rows["base"]).astype(np.int64)
        if not len(rows) or (held[~full] > 0).any() or held[full].sum() < len(offset):
            return 0
        replies += len(np.unique(rows["base"][full]))
    return replies
