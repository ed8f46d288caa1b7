"""What followed each fault: where the engine went on, and what became of a set of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition

#: given-up: released before the fault. left: fetched before it, not released, not fetched
#: again. again: fetched before and after it. never: not fetched at all. later: first fetched
#: after it.
Relation = Literal["given-up", "left", "again", "never", "later"]
RELATIONS: Final[tuple[Relation, ...]] = ("given-up", "left", "again", "never", "later")


@dataclass(frozen=True)
class PartitionAfter:
    """One partition around a fault, in offsets; every range is [from, to).

    released, fetched: how far they had come before it. base: the lowest offset that was
    fetched between it and the next fault, None where nothing was.
    """

    stream: int
    partition: int
    released: int
    fetched: int
    base: int | None

    @property
    def again(self) -> int:
        """Records fetched before the fault and once more after it."""
        return 0 if self.base is None else max(0, self.fetched - self.base)

    @property
    def left(self) -> tuple[int, int]:
        """Offsets fetched before the fault, neither released by then nor fetched again."""
        end = self.fetched if self.base is None else min(self.base, self.fetched)
        return self.released, max(self.released, end)

    @property
    def skipped(self) -> int:
        """Records that were never fetched, because the engine went on behind them."""
        return 0 if self.base is None else max(0, self.base - self.fetched)


@dataclass(frozen=True)
class Aftermath:
    """One fault and what followed until the next one. Times are monotonic ns.

    struck_ns: it was carried out between the fault's own time and this one. over_ns: the end
    of a fault that lasts. since_ns: from here on all that is fetched is fetched after it.
    restarted_ns: argv was started again. fetched_ns: the first FETCH known to be of a
    recovered engine.
    """

    number: int
    fault: FiredFault
    struck_ns: int
    over_ns: int | None
    since_ns: int
    until_ns: int
    restarted_ns: int | None
    fetched_ns: int | None
    places: tuple[PartitionAfter, ...]

    @property
    def again(self) -> int:
        """Records fetched before the fault and once more after it."""
        return sum(place.again for place in self.places)

    @property
    def went_on(self) -> bool:
        """Whether anything was fetched after the fault and before the next one."""
        return any(place.base is not None for place in self.places)


def aftermaths(history: History) -> list[Aftermath]:
    """Return what followed each fault that was carried out, in order."""
    found = []
    for number, fault in enumerate(history.faults):
        later = history.faults[number + 1 : number + 2]
        until = later[0].t_ns if later else 2**63 - 1
        # The engine lives on while a kill is prepared: what it does until then came before.
        starts = _times(history, events.Started, fault.t_ns, until)
        fetched = _times(history, events.Recovered, fault.t_ns, until)
        since = starts[0] if starts else fault.struck_ns
        found.append(
            Aftermath(
                number=number,
                fault=fault,
                struck_ns=fault.struck_ns,
                over_ns=_over(history, fault),
                since_ns=since,
                until_ns=until,
                restarted_ns=starts[0] if starts else None,
                fetched_ns=fetched[0] if fetched else None,
                places=tuple(_place(history, fault, p, since, until) for p in fault.partitions),
            )
        )
    return found


def _over(history: History, fault: FiredFault) -> int | None:
    """Return when a fault that lasts was over, None for others and where that was not noted."""
    return min(fault_of(fault.step).ends(history, fault), default=None)


def _times(history: History, kind: type[events.Event], since: int, until: int) -> list[int]:
    return [one.t_ns for one in history.all(kind) if since < one.t_ns < until]


def _place(
    history: History, fault: FiredFault, partition: tuple[int, ...], since: int, until: int
) -> PartitionAfter:
    """Read from the tables how one partition went on; ``partition`` as in FiredFault."""
    stream, number, _, _, fetched, released = partition
    rows = of_partition(history.fetches, stream, number)
    before, after = rows[rows["t_ns"] < since], rows[(rows["t_ns"] >= since)]
    after = after[after["t_ns"] < until]
    freed = of_partition(history.releases, stream, number)
    freed = freed["offset"][freed["t_ns"] < since]
    return PartitionAfter(
        stream,
        number,
        max(released, int(freed.max(initial=0))),
        max(fetched, int(before["end"].max(initial=0))),
        int(after["base"].min()) if len(after) else None,
    )


def partitions_of(where: np.ndarray) -> list[tuple[int, int]]:
    """Return (stream, partition) of all PLACES, ascending."""
    codes = np.unique(where["stream"] << 32 | where["partition"])
    return list(zip((codes >> 32).tolist(), (codes & 0xFFFFFFFF).tolist(), strict=True))


def offsets_in(where: np.ndarray, stream: int, partition: int) -> np.ndarray:
    """Return the offsets of those PLACES that lie in one partition, in their order."""
    return where["offset"][(where["stream"] == stream) & (where["partition"] == partition)]


def relations(history: History, where: np.ndarray, after: Aftermath) -> dict[Relation, int]:
    """Count records, given as PLACES, by what became of them at a fault."""
    found: dict[Relation, int] = dict.fromkeys(RELATIONS, 0)
    for place in after.places:
        offset = offsets_in(where, place.stream, place.partition)
        if not len(offset):
            continue
        base = place.fetched if place.base is None else place.base
        again = (offset >= base) & (offset < place.fetched)
        given_up = (offset < place.released) & ~again
        left = (offset < place.fetched) & ~again & ~given_up
        beyond = offset >= place.fetched
        never = beyond & ~_covered(history, place.stream, place.partition, offset)
        found["again"] += int(again.sum())
        found["given-up"] += int(given_up.sum())
        found["left"] += int(left.sum())
        found["never"] += int(never.sum())
        found["later"] += int(beyond.sum() - never.sum())
    return found


def _covered(history: History, stream: int, partition: int, offset: np.ndarray) -> np.ndarray:
    """Return a mask of the offsets that some FETCH reply held."""
    rows = of_partition(history.fetches, stream, partition)
    size = int(max(rows["end"].max(initial=0), offset.max())) + 2
    edges = np.bincount(rows["base"].astype(np.int64), minlength=size)
    edges -= np.bincount(rows["end"].astype(np.int64), minlength=size)
    return np.cumsum(edges)[offset] > 0


def nearest(history: History, afters: Sequence[Aftermath], where: np.ndarray) -> Aftermath | None:
    """Return the fault that touches most of some records: fetched before it, not released."""
    best, most = None, 0
    for after in afters:
        found = relations(history, where, after)
        touched = found["left"] + found["again"] + found["never"]
        if touched > most:
            best, most = after, touched
    return best or (afters[0] if afters else None)


def whole_replies(history: History, where: np.ndarray) -> int:
    """Return how many FETCH replies hold exactly the given records; 0: they do not."""
    replies = 0
    for stream, partition in partitions_of(where):
        rows = of_partition(history.fetches, stream, partition)
        offset = np.sort(offsets_in(where, stream, partition))
        low = np.searchsorted(offset, rows["base"].astype(np.int64))
        high = np.searchsorted(offset, rows["end"].astype(np.int64))
        held = high - low
        full = held == (rows["end"] - rows["base"]).astype(np.int64)
        if not len(rows) or (held[~full] > 0).any() or held[full].sum() < len(offset):
            return 0
        replies += len(np.unique(rows["base"][full]))
    return replies
