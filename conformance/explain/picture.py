"""A run as a picture in plain text: lanes of activity over time, and marks for what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.text import shown

LEAST: Final = 60
MOST: Final = 120
_LABEL: Final = 10
_TOTAL: Final = 13
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_TO_ASCII: Final = str.maketrans(_BLOCKS + "├─┤┆", ".:-=+*%#" + "|-||")
#: Silence longer than this part of a run is not drawn at its length.
_QUIET: Final = 0.35
#: Columns between two figures of the axis.
_TICK: Final = 12
#: Marks of one meaning that a legend tells one by one.
_MOST_ALIKE: Final = 4
#: Engine text in a legend is cut to this.
_TEXT: Final = 48


def bounded(width: int) -> int:
    """Return a width that a picture can have."""
    return min(max(width, LEAST), MOST)


def plain(line: str) -> str:
    """Return a line of a picture in ASCII."""
    return line.translate(_TO_ASCII)


def picture(history: History, wrong: Sequence[Moment] = (), *, width: int = 80) -> list[str]:
    """Return the lines of the picture of a run, none longer than ``width`` characters.

    width: cut to 60 to 120. wrong: further marks, such as the first wrong output.
    """
    facts = Facts.of(history)
    width = bounded(width)
    room = width - _LABEL - _TOTAL
    pointed = {moment.t_ns for moment in wrong}
    marks = [moment for moment in moments(history) if moment.t_ns not in pointed]
    marks = sorted([*marks, *wrong], key=lambda moment: moment.t_ns)
    scale = Scale(_times(facts, marks), room)
    kept, columns = arranged(marks, scale, room)
    lines = [
        _line("seconds", _ruler(scale, facts.origin, room), ""),
        _line("events", _marked(kept, columns, room), ""),
    ]
    cuts = [column for mark, column in zip(kept, columns, strict=True) if mark.rank == 0]
    for label, times, amounts, total in _lanes(facts):
        lane = _lane(scale, times, amounts, room)
        for column in cuts:
            if lane[column] == " ":
                lane = f"{lane[:column]}┆{lane[column + 1 :]}"
        lines.append(_line(label, lane, total))
    return lines + legend(kept, facts.origin, width)


class Scale:
    """Time to columns. Stretches in which nothing happens are shortened, order is kept."""

    def __init__(self, times: np.ndarray, room: int) -> None:
        times = np.unique(times) if len(times) else np.zeros(1, np.int64)
        gaps = np.diff(times).astype(float)
        spent = float(gaps.sum())
        #: Long silences: (from, to) in ns.
        self.quiet: list[tuple[int, int]] = []
        for i in np.flatnonzero(gaps > max(1e9, _QUIET * spent)).tolist():
            self.quiet.append((int(times[i]), int(times[i + 1])))
            rest = spent - gaps[i]
            gaps[i] = max(rest, 1.0) * 0.1
        self._times = times
        self._place = np.concatenate(([0.0], np.cumsum(gaps)))
        self.room = room

    def columns(self, t_ns: np.ndarray) -> np.ndarray:
        """Return the column of each time, from 0 to room - 1; never falling with time."""
        place = np.interp(t_ns.astype(float), self._times.astype(float), self._place)
        whole = self._place[-1]
        if whole <= 0:
            return np.zeros(len(t_ns), np.int64)
        return np.minimum((place / whole * self.room).astype(np.int64), self.room - 1)

    def time(self, column: int) -> int:
        """Return the time in ns at which a column begins."""
        place = column / self.room * self._place[-1]
        return int(np.interp(place, self._place, self._times.astype(float)))


def arranged(marks: Sequence[Moment], scale: Scale, room: int) -> tuple[list[Moment], list[int]]:
    """Give each mark a column of its own, in order of time; leave out the least where full."""
    kept = list(marks)
    while len(kept) > room:
        worst = max(moment.rank for moment in kept)
        last = max(i for i, moment in enumerate(kept) if moment.rank == worst)
        del kept[last]
    times = np.array([moment.t_ns for moment in kept], np.int64)
    columns: list[int] = scale.columns(times).tolist() if len(times) else []
    for i in range(1, len(columns)):
        columns[i] = max(columns[i], columns[i - 1] + 1)
    limit = room - 1
    for i in reversed(range(len(columns))):
        columns[i] = min(columns[i], limit)
        limit = columns[i] - 1
    return kept, columns


def legend(marks: Sequence[Moment], origin: int, width: int) -> list[str]:
    """Say when each mark was and what it means, in order of time, wrapped to ``width``.

    More than four that are alike are told once, by the first and the last of them.
    """
    alike: dict[tuple[str, str], list[float]] = {}
    for moment in marks:
        times = alike.setdefault((moment.mark, moment.text), [])
        times.append((moment.t_ns - origin) / 1e9)
    told: list[tuple[float, str]] = []
    for (mark, text), times in alike.items():
        if len(times) > _MOST_ALIKE:
            told.append((times[0], f"{mark} {times[0]:.3f} to {times[-1]:.3f} {text}"))
        else:
            told += [(time, f"{mark} {time:.3f} {text}") for time in times]
    words = [word for _, word in sorted(told, key=lambda one: one[0])]
    lines: list[str] = []
    for word in words:
        word = word[: width - 2]
        if lines and len(lines[-1]) + 3 + len(word) <= width:
            lines[-1] += f"   {word}"
        else:
            lines.append(f"  {word}")
    return lines


def _times(facts: Facts, marks: Sequence[Moment]) -> np.ndarray:
    """Return all times at which something happened."""
    history = facts.history
    tables = (history.publishes, history.fetches, history.releases, facts.log.arrivals)
    found = [rows["t_ns"].astype(np.int64) for rows in tables]
    edges = [moment.t_ns for moment in marks] + [facts.origin, facts.end]
    return np.concatenate([*found, np.array(edges, np.int64)])


def _lanes(facts: Facts) -> list[tuple[str, np.ndarray, np.ndarray, str]]:
    """Return (label, times, records at each, total) of every lane."""
    history, arrivals = facts.history, facts.log.arrivals
    found = []
    for label, rows, name in (
        ("published", history.publishes, "end"),
        ("released", history.releases, "offset"),
    ):
        times, fresh, _ = steps(rows, name)
        found.append((label, times, fresh, f"{int(fresh.sum()):,}"))
    times, fresh, again = steps(history.fetches, "end", "base")
    fetched = [("fetched", times, fresh, f"{int(fresh.sum()):,}")]
    if again.any():
        fetched.append((" again", times, again, f"{int(again.sum()):,}"))
    count = arrivals["count"].astype(np.int64)
    outputs = ("outputs", arrivals["t_ns"], count, f"{int(count.sum()):,}")
    return [found[0], *fetched, found[1], outputs]


def steps(
    rows: np.ndarray, end: str, base: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, records new to their partition in each row, and those that came again."""
    fresh = np.zeros(len(rows), np.int64)
    again = np.zeros(len(rows), np.int64)
    addresses = rows["stream"].astype(np.int64) << 16 | rows["partition"]
    for address in np.unique(addresses).tolist():
        here = np.flatnonzero(addresses == address)
        reach = rows[end][here].astype(np.int64)
        before = np.concatenate(([0], np.maximum.accumulate(reach)[:-1]))
        fresh[here] = np.maximum(reach - before, 0)
        if base is not None:
            low = rows[base][here].astype(np.int64)
            again[here] = np.maximum(np.minimum(reach, before) - low, 0)
            fresh[here] = np.maximum(reach - np.maximum(before, low), 0)
    return rows["t_ns"], fresh, again


def _lane(scale: Scale, times: np.ndarray, amounts: np.ndarray, room: int) -> str:
    """Draw records a column: the fullest column of the lane is as high as can be."""
    if not len(times):
        return " " * room
    sums = np.bincount(scale.columns(times), weights=amounts, minlength=room)
    most = np.max(sums)
    if most <= 0:
        return " " * room
    level = np.ceil(sums / most * len(_BLOCKS)).astype(int)
    return "".join(_BLOCKS[one - 1] if one else " " for one in level.tolist())


def _ruler(scale: Scale, origin: int, room: int) -> str:
    """Draw the axis of time with a figure about every dozen columns."""
    line = ["─"] * room
    line[0], line[-1] = "├", "┤"
    for column in range(0, room - 8, _TICK):
        text = f"{(scale.time(column) - origin) / 1e9:.2f}"
        line[column + 1 : column + 1 + len(text)] = text
    for start, end in scale.quiet:
        middle = int(scale.columns(np.array([(start + end) // 2]))[0])
        line[middle] = "~"
    return "".join(line)


def _marked(marks: Sequence[Moment], columns: Sequence[int], room: int) -> str:
    line = [" "] * room
    for moment, column in zip(marks, columns, strict=True):
        line[column] = moment.mark
    return "".join(line)


def _line(label: str, lane: str, total: str) -> str:
    return f"{label:<{_LABEL}}{lane}{total:>{_TOTAL}}".rstrip()


# -- what happened, as marks -----------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """One thing that happened: when (monotonic ns), its one-character mark, in a few words.

    rank: 0 must be seen; where there is no room, the highest rank is left out first.
    """

    t_ns: int
    mark: str
    text: str
    rank: int = 1


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


def _faults(history: History) -> list[Moment]:
    found = []
    for fault in history.faults:
        what = fault_of(fault.step)
        found.append(Moment(fault.t_ns, what.mark, what.deed, 0))
    return found


def _link(event: events.Link) -> tuple[str, str, int]:
    over = " over" if event.from_ns is not None else ""
    return "f", f"{event.do} of {event.target}{over}, {len(event.connections)} met", 2


#: Kind of event -> its mark, its words and its rank.
_MAKERS: Final[dict[type[events.Event], Callable[[Any], tuple[str, str, int]]]] = {
    events.Started: lambda e: ("R", "started again", 1) if e.resume else ("S", "started", 3),
    events.Recovered: lambda _: ("r", "first fetch after it", 1),
    events.Reconnected: lambda e: ("r", f"{e.target} connected again", 2),
    events.Link: _link,
    events.Network: lambda e: ("f", f"{e.do} of {e.host} over, {e.packets} packets met", 2),
    events.FillOver: lambda _: ("f", "disk has room again", 2),
    events.TakenOver: lambda _: ("S", "taken over, running", 3),
    events.EndedUnasked: lambda _: ("Q", "ended by itself", 1),
    events.NotRestarted: lambda _: ("Q", "did not start again", 1),
    events.Resumed: lambda _: ("p", "process continued", 1),
    events.Refused: lambda e: ("!", f"{shown(e.op, _TEXT)} refused", 1),
    events.NotGreeted: lambda _: ("!", "no greeting", 1),
    events.OddOutput: lambda _: ("o", "output of odd size", 1),
    events.Stall: lambda _: ("h", "sink stands still", 1),
    events.StallEnded: lambda _: ("H", "sink goes on", 2),
    events.Checkpointed: lambda _: ("c", "checkpoint answered", 1),
    events.EndPublished: lambda _: ("E", "all published", 3),
    events.PartitionEnded: lambda e: ("e", f"END of partition {e.partition}", 3),
    events.DrainAsked: lambda _: ("d", "drain asked", 2),
    events.Drained: lambda _: ("D", "drain answered", 1),
    events.Exited: lambda e: ("Q", f"ended, status {e.returncode}", 2),
}
