"""Phases of a run: warm-up, steady, and what a kill does to latency."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Final

import numpy as np

from tickproof.conformance.latency.samples import Answers

#: Records are looked at in bins of so much intended time.
BIN_NS: Final = 100_000_000


class Phase(IntEnum):
    """Phases of a run; a record belongs to one by its intended time."""

    WARM_UP = 0
    STEADY = 1
    RECOVERING = 2
    RECOVERED = 3

    @property
    def tag(self) -> str:
        """Name in logs and reports."""
        return self.name.lower().replace("_", "-")


def phases(
    answers: Answers,
    steady_ns: int,
    kill_ns: int | None = None,
    recovery_s: float = math.inf,
    late_us: float = math.inf,
) -> np.ndarray:
    """Return the Phase (u1) of each record.

    ``steady_ns``: end of the warm-up. After ``kill_ns`` records are recovering for
    ``recovery_s`` (see recovery), then recovered. A record from before the kill that was
    answered after it was in the engine's hands when it died: it is recovering, too, unless it
    had waited for more than ``late_us`` (microseconds) by then.
    """
    found = np.where(answers.intended_ns < steady_ns, Phase.WARM_UP, Phase.STEADY).astype(np.uint8)
    if kill_ns is None:
        return found
    punctual = kill_ns - answers.intended_ns <= late_us * 1_000
    held = (answers.arrived_ns >= kill_ns) & punctual
    found[(answers.intended_ns >= kill_ns) | held] = Phase.RECOVERING
    if math.isfinite(recovery_s):
        found[answers.intended_ns >= kill_ns + round(recovery_s * 1e9)] = Phase.RECOVERED
    return found


def recovery(
    answers: Answers, kill_ns: int, limit_us: float, quiet: np.ndarray | None = None
) -> float:
    """Return the seconds from a kill until the p99 of latency is under a limit for good.

    Records due from ``kill_ns`` on are put into bins of 100 ms of intended time, beginning
    there; an unanswered record is slower than any limit. 0.0 where no bin is over the limit
    (microseconds), inf where the last bin with records is over it, or where there is none.
    ``quiet`` (bool, an element for each answer): only those are looked at, and the figure is a
    lower bound: 0.0 where there are none, inf only where the last bin of all is over.
    """
    first = int(np.searchsorted(answers.intended_ns, kill_ns))
    intended, arrived = answers.intended_ns[first:], answers.arrived_ns[first:]
    if not len(intended):
        return math.inf
    bins = (intended - kill_ns) // BIN_NS
    slow = (arrived < 0) | (arrived - intended > limit_us * 1_000)
    last = int(bins[-1])
    if quiet is not None:
        bins, slow = bins[quiet[first:]], slow[quiet[first:]]
    count = np.bincount(bins)
    # p99 is over the limit where more than one in a hundred is, rank by rank.
    over = np.flatnonzero(np.bincount(bins, slow) > count - -(-count * 99 // 100))
    if not len(over):
        return 0.0
    if over[-1] == last:
        return math.inf
    return float((over[-1] + 1) * BIN_NS / 1e9)
