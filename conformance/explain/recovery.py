"""What an engine did after each fault: from where it went on, what it fetched again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.scenario import LASTING


@dataclass(frozen=True)
class Place:
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
    places: tuple[Place, ...]

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
    step = fault.step
    if step.do not in LASTING:
        return None
    if step.do == "pause":
        return min((end for start, end in history.pauses() if start >= fault.t_ns), default=None)
    over: Sequence[events.Event] = history.all(events.FillOver)
    if step.target in ("source", "sink"):
        over = history.all(events.Link, do=step.do, target=step.target)
    return min((one.t_ns for one in over if one.t_ns > fault.t_ns), default=None)


def _times(history: History, kind: type[events.Event], since: int, until: int) -> list[int]:
    return [one.t_ns for one in history.all(kind) if since < one.t_ns < until]


def _place(
    history: History, fault: FiredFault, partition: tuple[int, ...], since: int, until: int
) -> Place:
    """Read from the tables how one partition went on; ``partition`` as in FiredFault."""
    stream, number, _, _, fetched, released = partition
    rows = of_partition(history.fetches, stream, number)
    before, after = rows[rows["t_ns"] < since], rows[(rows["t_ns"] >= since)]
    after = after[after["t_ns"] < until]
    freed = of_partition(history.releases, stream, number)
    freed = freed["offset"][freed["t_ns"] < since]
    return Place(
        stream,
        number,
        max(released, int(freed.max(initial=0))),
        max(fetched, int(before["end"].max(initial=0))),
        int(after["base"].min()) if len(after) else None,
    )
