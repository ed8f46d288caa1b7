"""The moments of a run that a reader wants to see on a line: starts, faults, drain, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import LASTING, FaultStep
from tickproof.conformance.text import shown

#: Engine text in a legend is cut to this.
_TEXT: Final = 48


@dataclass(frozen=True)
class Moment:
    """One thing that happened: when (monotonic ns), its one-character mark, in a few words.

    rank: 0 must be seen; where there is no room, the highest rank is left out first.
    """

    t_ns: int
    mark: str
    text: str
    rank: int = 1


def origin_ns(history: History) -> int:
    """Return the time that a reader counts from: the first thing on record, 0 for none."""
    first = [row["t_ns"] for row in (*history.events[:1], *history.control[:1])]
    return min(first, default=int(history.run.get("started_ns", 0)))


def end_ns(history: History) -> int:
    """Return the time of the last thing on record."""
    last = [int(row["t_ns"]) for row in (*history.events[-1:], *history.control[-1:])]
    tables = (history.publishes, history.fetches, history.releases)
    last += [int(rows["t_ns"].max()) for rows in tables if len(rows)]
    return max(last, default=origin_ns(history))


def moments(history: History) -> list[Moment]:
    """Return what happened in a run, in order of time."""
    found = _faults(history)
    refused: set[str] = set()
    for event in history.all(*_MAKERS):
        if isinstance(event, events.Refused):
            if event.op in refused:
                continue  # the first of each op says it
            refused.add(event.op)
        if isinstance(event, events.Exited) and (event.returncode or 0) < 0:
            continue  # by a signal: that was the fault
        mark, text, rank = _MAKERS[type(event)](event)
        found.append(Moment(event.t_ns, mark, text, rank))
    return sorted(found, key=lambda moment: moment.t_ns)


def deed(step: FaultStep) -> str:
    """Return a fault in two or three words, as its schedule says it: "kill of engine"."""
    return f"{step.do} of {step.target}"


def _faults(history: History) -> list[Moment]:
    found = []
    for fault in history.faults:
        mark = {"kill": "K", "corrupt": "K", "pause": "P"}.get(fault.step.do, "F")
        found.append(Moment(fault.t_ns, mark, deed(fault.step), 0))
    return found


def _link(event: events.Link) -> tuple[str, str, int]:
    over = " over" if event.do in LASTING else ""
    return "f", f"{event.do} of {event.target}{over}, {len(event.connections)} met", 2


#: Kind of event -> its mark, its words and its rank.
_MAKERS: Final[dict[type[events.Event], Callable[[Any], tuple[str, str, int]]]] = {
    events.Started: lambda e: ("R", "started again", 1) if e.resume else ("S", "started", 3),
    events.Recovered: lambda _: ("r", "first fetch after it", 1),
    events.Reconnected: lambda e: ("r", f"{e.target} connected again", 2),
    events.Link: _link,
    events.FillOver: lambda _: ("f", "disk has room again", 2),
    events.TakenOver: lambda _: ("S", "taken over, running", 3),
    events.EndedUnasked: lambda _: ("Q", "ended by itself", 1),
    events.NotRestarted: lambda _: ("Q", "did not start again", 1),
    events.Resumed: lambda _: ("p", "process continued", 1),
    events.Refused: lambda e: ("!", f"{shown(e.op, _TEXT)} refused", 1),
    events.NotGreeted: lambda _: ("!", "no HELLO", 1),
    events.OddOutput: lambda _: ("o", "output of odd size", 1),
    events.Stall: lambda _: ("h", "sink stands still", 1),
    events.StallEnded: lambda _: ("H", "sink goes on", 2),
    events.Checkpointed: lambda _: ("c", "checkpoint answered", 1),
    events.EndPublished: lambda _: ("E", "all published", 3),
    events.DrainAsked: lambda _: ("d", "drain asked", 2),
    events.Drained: lambda _: ("D", "drain answered", 1),
    events.Exited: lambda e: ("Q", f"ended, status {e.returncode}", 2),
}
