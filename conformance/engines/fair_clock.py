"""A clock for the time limits of an engine: it stops while the machine keeps the engine waiting.

A limit of engine.toml says how long an engine may stand still, not how long a loaded machine may
keep it from running. So every limit that may end in a verdict is measured by a FairClock: time
that the machine withheld does not count, and progress begins the limit anew. `withheld_s` and
`decide` are the whole decision, and pure; docs/decisions/0026-a-busy-machine.md argues for it.
"""

from __future__ import annotations

import enum
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.engines.failures import Code, EngineFailure

#: A limit is given up, without a verdict, after this many times its length, ...
MOST_TIMES: Final = 10.0
#: ... but not sooner than this.
LEAST_S: Final = 60.0
#: From this share of the time on, the machine is what kept the engine from an end.
BUSY_SHARE: Final = 0.1
#: How often a limit is looked at while something is waited for.
LOOK_S: Final = 0.1


@dataclass(frozen=True)
class Demand:
    """Processor time that some processes asked for in an interval, in seconds.

    wait_s: summed over threads that were ready to run and did not. used_s: what was used by these
    and by others of this run on the ``cores`` that they may run on.
    """

    wait_s: float = 0.0
    used_s: float = 0.0
    cores: int = 1

    def waited_for_others_s(self, length_s: float) -> float:
        """Return how long others kept them waiting: cores that the run itself used do not count."""
        by_others_s = length_s - self.used_s / self.cores
        return max(0.0, min(self.wait_s, by_others_s))


@dataclass(frozen=True)
class Interval:
    """Measurements between two looks at a run and at its machine.

    late_s: how much later than it asked for the kit woke up. blocked: a thread of engine or kit
    waited for a disk. disk_s, memory_s: how long something on the machine stood still for want
    of a disk, of memory (/proc/pressure); None where the kernel does not tell.
    """

    length_s: float
    late_s: float = 0.0
    engine: Demand = Demand()
    kit: Demand = Demand()
    blocked: bool = False
    disk_s: float | None = None
    memory_s: float | None = None


def withheld_s(seen: Interval) -> float:
    """Return how many seconds of an interval the machine withheld from engine and kit.

    An engine that wants nothing is not kept from anything: what is missing is what its threads,
    or those of the kit, asked for. The largest of these counts, as they may be the same seconds.
    """
    length_s = seen.length_s
    disk_s = length_s if seen.disk_s is None else seen.disk_s
    wanted_s = seen.engine.wait_s + seen.kit.wait_s + seen.engine.used_s
    found = (
        seen.late_s,
        seen.engine.waited_for_others_s(length_s),
        seen.kit.waited_for_others_s(length_s),
        disk_s if seen.blocked else 0.0,
        min(seen.memory_s or 0.0, length_s if seen.blocked else wanted_s),
    )
    return max(0.0, min(length_s, max(found)))


class Decision(enum.Enum):
    """The decision of a time limit."""

    WAIT = "wait"
    STOOD_STILL = "stood still"
    BUSY = "busy"
    GOING_ON = "going on"


def decide(limit_s: float, still_s: float, waited_s: float, lost_s: float) -> Decision:
    """Decide over a limit.

    still_s: fair time since the engine last made progress, or since the wait began. waited_s,
    lost_s: by the clock on the wall since the wait began, and how much of it was withheld.
    """
    if still_s >= limit_s:
        return Decision.STOOD_STILL
    if waited_s < max(MOST_TIMES * limit_s, LEAST_S):
        return Decision.WAIT
    return Decision.BUSY if lost_s >= BUSY_SHARE * waited_s else Decision.GOING_ON


class FairClock:
    """Measures limits of one run. Moments are those of time.monotonic. Thread-safe.

    `usage.pulse.Pulse` drives it: then time passes only up to its last `advance`. Before the
    first, and after `stop`, it is an ordinary clock that knows of no progress.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: float | None = None
        self._moved_at = float("-inf")
        #: What had been withheld up to some moments; in between it grows evenly.
        self._moments, self._lost = [float("-inf")], [0.0]

    def advance(self, now: float, lost_s: float) -> None:
        """Let time pass up to ``now``, without ``lost_s`` since the advance before."""
        with self._lock:
            if lost_s <= 0 and len(self._lost) > 1 and self._lost[-1] == self._lost[-2]:
                self._moments[-1] = now  # nothing was lost since two moments ago
            else:
                self._moments.append(now)
                self._lost.append(self._lost[-1] + max(0.0, lost_s))
            self._now = now

    def moved(self, now: float) -> None:
        """Note that the engine made progress."""
        self._moved_at = now

    def stop(self) -> None:
        """Go on as an ordinary clock."""
        with self._lock:
            self._now = None

    def fair_s(self, since: float) -> float:
        """Return how much time has passed since a moment, without what was withheld.

        Below 0 for a moment that is still to come.
        """
        with self._lock:
            now = time.monotonic() if self._now is None else self._now
            return now - since - (self._lost_at(now) - self._lost_at(since))

    def lost_s(self, since: float) -> float:
        """Return how much was withheld since a moment."""
        with self._lock:
            return self._lost[-1] - self._lost_at(since)

    def still_s(self, since: float) -> float:
        """Return how much fair time has passed since a moment, or since the last progress."""
        return self.fair_s(max(since, self._moved_at))

    def overdue(self, since: float, limit_s: float, what: str, *, moves: bool = True) -> bool:
        """Tell whether a limit that began at ``since`` is over: the engine stood still so long.

        ``moves``: progress begins the limit anew. Raises EngineFailure MACHINE_BUSY or TIME_LIMIT,
        which are no verdict, once ``what`` was waited for beyond all measure.
        """
        still_s = self.still_s(since) if moves else self.fair_s(since)
        waited_s, lost_s = max(0.0, time.monotonic() - since), self.lost_s(since)
        match decide(limit_s, still_s, waited_s, lost_s):
            case Decision.BUSY:
                why = f"the machine withheld {lost_s:.1f} of {waited_s:.1f} s"
                raise EngineFailure(Code.MACHINE_BUSY, f"{what}, but {why} (limit {limit_s:g} s)")
            case Decision.GOING_ON:
                why = f"the engine still made progress after {waited_s:.1f} s"
                raise EngineFailure(Code.TIME_LIMIT, f"{what}, but {why} (limit {limit_s:g} s)")
            case Decision.STOOD_STILL:
                return True
        return False

    def wait(
        self, waited: Callable[[float], object], limit_s: float, what: str, *, moves: bool = True
    ) -> bool:
        """Call ``waited`` with some seconds until it returns something true; False at the limit.

        Raises as `overdue`.
        """
        since = time.monotonic()
        while not waited(min(LOOK_S, limit_s)):
            if limit_s <= 0 or self.overdue(since, limit_s, what, moves=moves):
                return bool(waited(0.0))
        return True

    def _lost_at(self, moment: float) -> float:
        """Return what had been withheld up to a moment."""
        at = bisect_right(self._moments, moment)
        if at == len(self._moments):
            return self._lost[-1]
        if at <= 1:
            return self._lost[at - 1] if at else 0.0
        begin, end = self._moments[at - 1], self._moments[at]
        share = (moment - begin) / (end - begin)
        return self._lost[at - 1] + share * (self._lost[at] - self._lost[at - 1])
