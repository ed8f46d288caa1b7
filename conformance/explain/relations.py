"""How a set of input records stands to a fault, and to the frames that carried them."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from conformance.checkers.tables import of_partition
from conformance.explain.facts import Facts
from conformance.explain.recovery import Aftermath

#: given-up: released before the fault. left: fetched before it, not released, not fetched
#: again. again: fetched before and after it. passed: never fetched, because the engine went
#: on behind it. later: not fetched before the fault.
Relation = Literal["given-up", "left", "again", "passed", "later"]
RELATIONS: Final[tuple[Relation, ...]] = ("given-up", "left", "again", "passed", "later")


def places(facts: Facts, rows: np.ndarray) -> np.ndarray:
    """Return (stream, partition, offset) of rows of the matching, one line each."""
    assert facts.matching is not None
    found = np.zeros((len(rows), 3), np.int64)
    for part in facts.matching.parts:
        here = (rows >= part.start) & (rows < part.start + part.records)
        found[here] = part.stream, part.partition, 0
        found[here, 2] = rows[here] - part.start
    return found


def relations(where: np.ndarray, after: Aftermath) -> dict[Relation, int]:
    """Count records (stream, partition, offset) by what a fault was to them."""
    found: dict[Relation, int] = dict.fromkeys(RELATIONS, 0)
    for place in after.places:
        mine = (where[:, 0] == place.stream) & (where[:, 1] == place.partition)
        offset = where[mine, 2]
        base = place.fetched if place.base is None else place.base
        again = (offset >= base) & (offset < place.fetched)
        given_up = (offset < place.released) & ~again
        left = (offset < place.fetched) & ~again & ~given_up
        found["again"] += int(again.sum())
        found["given-up"] += int(given_up.sum())
        found["left"] += int(left.sum())
        passed = (offset >= place.fetched) & (offset < base)
        found["passed"] += int(passed.sum())
        found["later"] += int((offset >= place.fetched).sum() - passed.sum())
    return found


def nearest(facts: Facts, where: np.ndarray) -> Aftermath | None:
    """Return the fault that touches most of some records: fetched before it, not released."""
    best, most = None, 0
    for after in facts.after:
        found = relations(where, after)
        touched = found["left"] + found["again"] + found["passed"]
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
