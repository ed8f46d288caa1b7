"""Use of processor time and memory over a run, by process of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.report import svg
from tickproof.conformance.report.svg import LEFT, ROOM, TimeAxis, label
from tickproof.conformance.text import shown

#: Fewer looks than this make no curve.
FEWEST_LOOKS: Final = 4
#: Processes that are listed: those that used most.
MOST: Final = 12
#: Characters of a name that are shown.
_NAME: Final = 60
_TOP: Final = 22
_PANEL: Final = 70
_GAP: Final = 26
_LOW: Final = _TOP + 2 * _PANEL + _GAP


@dataclass(frozen=True)
class ProcessUse:
    """One process of the engine. Arrays have one value for each look at it, about one a second.

    name, role: as topology named it, "" for one that it did not name. at_s: from the start of
    the run. cpu_s: processor time since the process started, in seconds. memory: resident bytes.
    """

    pid: int
    name: str
    role: str
    at_s: np.ndarray
    cpu_s: np.ndarray
    memory: np.ndarray

    @property
    def used_s(self) -> float:
        """Processor seconds from the first look to the last."""
        return float(self.cpu_s[-1] - self.cpu_s[0])

    @property
    def most_bytes(self) -> int:
        """The most memory at any look."""
        return int(self.memory.max())

    @property
    def cores(self) -> np.ndarray:
        """Cores that it kept busy between each two looks."""
        return np.diff(self.cpu_s) / np.maximum(np.diff(self.at_s), 1e-9)


def of_run(history: History, origin_ns: int) -> list[ProcessUse]:
    """Return the processes that were seen, those that used most first; raises HistoryError.

    origin_ns: where time begins, monotonic nanoseconds.
    """
    rows = history.usage
    named = {
        one.pid: one for topology in history.all(events.Topology) for one in topology.processes
    }
    found = []
    for pid in np.unique(rows["pid"]).tolist():
        mine = rows[rows["pid"] == pid]
        known = named.get(pid)
        found.append(
            ProcessUse(
                pid,
                shown(known.name, _NAME) if known else "",
                known.role if known else "",
                (mine["t_ns"].astype(np.int64) - origin_ns) / 1e9,
                mine["user_s"] + mine["system_s"],
                mine["rss"],
            )
        )
    return sorted(found, key=lambda one: (-one.used_s, -one.most_bytes))[:MOST]


def picture(processes: Sequence[ProcessUse], seconds: float, title: str) -> Markup | None:
    """Return cores and memory of each process over a run, None where too few looks were taken."""
    drawn = [one for one in processes if len(one.at_s) >= FEWEST_LOOKS]
    if not drawn:
        return None
    axis = TimeAxis(0.0, seconds)
    most_cores = max(float(one.cores.max()) for one in drawn) or 1.0
    most_bytes = max(one.most_bytes for one in drawn) or 1
    parts = [
        *axis.grid(_TOP, _LOW),
        *_frame(_TOP, "cores in use", f"{most_cores:.2g}"),
        *_frame(_TOP + _PANEL + _GAP, "memory", f"{most_bytes / 2**20:.0f} MiB"),
    ]
    for one in drawn:
        said = f"{one.name or 'not named'} (pid {one.pid})"
        kind = "worker" if one.role == "worker" else "coordinator"
        middle = (one.at_s[1:] + one.at_s[:-1]) / 2
        for top, at_s, share in (
            (_TOP, middle, one.cores / most_cores),
            (_TOP + _PANEL + _GAP, one.at_s, one.memory / most_bytes),
        ):
            points = [
                (axis.x(at), round(top + _PANEL * (1 - part), 1))
                for at, part in zip(at_s.tolist(), share.tolist(), strict=True)
            ]
            parts.append(svg.line(kind, points, said))
    return svg.picture(_LOW + 26, title, parts)


def _frame(top: int, what: str, most: str) -> list[Markup]:
    low = top + _PANEL
    return [
        svg.line("axis", [(LEFT, low), (LEFT + ROOM, low)]),
        label(LEFT - 6, top + 10, most, "end"),
        label(LEFT - 6, low, "0", "end"),
        label(LEFT + 4, top - 5, what, "start"),
    ]
