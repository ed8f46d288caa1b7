"""The moments of a run that a reader wants to see on a line: starts, faults, drain, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

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
    for row in history.events:
        if row["event"] == "refused":
            if row["op"] in refused:
                continue  # the first of each op says it
            refused.add(row["op"])
        if row["event"] == "exited" and int(row.get("returncode") or 0) < 0:
            continue  # by a signal: that was the fault
        if make := _MAKERS.get(row["event"]):
            mark, text, rank = make(row)
            found.append(Moment(int(row["t_ns"]), mark, text, rank))
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


def _link(row: dict[str, Any]) -> tuple[str, str, int]:
    over = " over" if row["do"] in LASTING else ""
    return "f", f"{row['do']} of {row['target']}{over}, {len(row['connections'])} met", 2


def _started(row: dict[str, Any]) -> tuple[str, str, int]:
    return ("R", "started again", 1) if row.get("resume") else ("S", "started", 3)


def _refused(row: dict[str, Any]) -> tuple[str, str, int]:
    return "!", f"{shown(str(row['op']), _TEXT)} refused", 1


#: Event -> its mark, its words and its rank, made of its row.
_MAKERS: Final[dict[str, Callable[[dict[str, Any]], tuple[str, str, int]]]] = {
    "started": _started,
    "recovered": lambda row: ("r", "first fetch after it", 1),
    "reconnected": lambda row: ("r", f"{row['target']} connected again", 2),
    "link": _link,
    "fill-over": lambda row: ("f", "disk has room again", 2),
    "taken-over": lambda row: ("S", "taken over, running", 3),
    "ended-unasked": lambda row: ("Q", "ended by itself", 1),
    "not-restarted": lambda row: ("Q", "did not start again", 1),
    "resumed": lambda row: ("p", "process continued", 1),
    "refused": _refused,
    "not-greeted": lambda row: ("!", "no HELLO", 1),
    "odd-output": lambda row: ("o", "output of odd size", 1),
    "stall": lambda row: ("h", "sink stands still", 1),
    "stall-ended": lambda row: ("H", "sink goes on", 2),
    "checkpointed": lambda row: ("c", "checkpoint answered", 1),
    "end-published": lambda row: ("E", "all published", 3),
    "drain-asked": lambda row: ("d", "drain asked", 2),
    "drained": lambda row: ("D", "drain answered", 1),
    "exited": lambda row: ("Q", f"ended, status {shown(str(row.get('returncode')), 8)}", 2),
}
