"""Work of a run by named process: over its connections, and of processors.

Pure functions of the events. A process that topology names answers for the unnamed ones below
it, such as the interpreters that an executor starts, and for nobody else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.history.event import Event
from tickproof.conformance.history.events import Activity, Deployed, Started, TakenOver, Topology

#: A process has worked that used such a part of the engine's processor time, and so much of it.
WORKING_SHARE: Final = 0.01
WORKING_US: Final = 1_000
#: ... and one has not that used less than one of these. What lies between cannot be told: to
#: hand a few records on takes little.
IDLE_SHARE: Final = 0.001
IDLE_US: Final = 100


@dataclass(frozen=True)
class Work:
    """Work of a process, with the unnamed ones below it.

    records: fetched or sent on connections that nobody else held; sent: the part that was sent.
    share: of the processor time that the engine used meanwhile, 0.0 to 1.0; cpu_us: the same in
    microseconds.
    """

    records: int = 0
    sent: int = 0
    cpu_us: int = 0
    share: float = 0.0

    @property
    def fetched(self) -> int:
        """The part of the records that was fetched."""
        return self.records - self.sent

    @property
    def worked(self) -> bool:
        """True if it handled records, as far as can be seen."""
        return self.records > 0 or (self.share >= WORKING_SHARE and self.cpu_us >= WORKING_US)

    @property
    def idled(self) -> bool:
        """True if it surely handled no records."""
        return not self.records and (self.share < IDLE_SHARE or self.cpu_us < IDLE_US)


@dataclass(frozen=True)
class Life:
    """A deployment of an engine: what was seen between deploy and the next start.

    argv: the pid of argv's process.
    """

    argv: int
    looks: tuple[Activity, ...]
    topologies: tuple[Topology, ...]

    @property
    def roles(self) -> dict[int, str]:
        """Return pid -> role of all processes that were named; the last answer counts."""
        return {one.pid: one.role for row in self.topologies for one in row.processes}

    def until(self, t_ns: int) -> Life:
        """Return what had been seen at a time."""
        return Life(
            self.argv,
            tuple(look for look in self.looks if look.t_ns <= t_ns),
            tuple(row for row in self.topologies if row.t_ns <= t_ns),
        )

    def work(self) -> dict[int, Work]:
        """Return what each named process did from the first look to the last."""
        return work(self.looks, self.roles)


def lives(events: Sequence[Event]) -> list[Life]:
    """Return the deployments of a run, in order."""
    argv, found = 0, []
    looks: list[Activity] = []
    topologies: list[Topology] = []
    for event in events:
        if isinstance(event, Started | TakenOver):
            argv = event.pid
        elif isinstance(event, Deployed):
            looks, topologies = [], []
            found.append((argv, looks, topologies))
        elif isinstance(event, Activity):
            looks.append(event)
        elif isinstance(event, Topology):
            topologies.append(event)
    return [Life(pid, tuple(seen), tuple(named)) for pid, seen, named in found]


def answerable(pid: int, parents: Mapping[int, int], named: Collection[int]) -> int | None:
    """Return the nearest named one of a process and those above it; None: there is none."""
    seen = set()
    while pid in parents and pid not in seen:
        if pid in named:
            return pid
        seen.add(pid)
        pid = parents[pid]
    return pid if pid in named else None


def work(looks: Sequence[Activity], named: Collection[int]) -> dict[int, Work]:
    """Return what each of the named processes did between the first and the last look.

    What goes over a connection from one look to the next counts for its holder at the later
    look, if only one named process answers for all that hold it.
    """
    parents: dict[int, int] = {}
    fetched: dict[int, int] = dict.fromkeys(named, 0)
    sent: dict[int, int] = dict.fromkeys(named, 0)
    first = {one.pid: one.cpu_us for one in looks[0].running} if looks else {}
    last: dict[int, int] = {}
    holders: dict[int, frozenset[int | None]] = {}
    counted: dict[int, tuple[int, int]] = {}
    for look in looks:
        parents |= {one.pid: one.parent for one in look.running}
        last |= {one.pid: one.cpu_us for one in look.running}
        for one in look.used:
            if one.pids:
                holders[one.connection] = frozenset(
                    answerable(pid, parents, named) for pid in one.pids
                )
            before = counted.get(one.connection, (0, 0))
            counted[one.connection] = one.fetched, one.sent
            owners = holders.get(one.connection, frozenset())
            if len(owners) == 1:
                (owner,) = owners
                if owner is not None:
                    fetched[owner] += one.fetched - before[0]
                    sent[owner] += one.sent - before[1]
    used: dict[int, int] = dict.fromkeys(named, 0)
    everybody = 0
    for pid, cpu_us in last.items():
        grown = max(0, cpu_us - first.get(pid, 0))
        everybody += grown
        owner = answerable(pid, parents, named)
        if owner is not None:
            used[owner] += grown
    return {
        pid: Work(
            fetched[pid] + sent[pid],
            sent[pid],
            used[pid],
            used[pid] / everybody if everybody else 0.0,
        )
        for pid in named
    }
