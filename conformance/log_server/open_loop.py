"""Publishes the input by a schedule fixed in advance: a slow engine never slows it.

Row k of the plan is due at ``t0 + (k - 1) * tick``. Whoever measures from that time counts
all waiting, that for a late generator too: nothing is omitted (coordinated omission).
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.conformance.history.rows import TICK, TICKS_FILE
from tickproof.conformance.history.tables import Table
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.publisher import Limit
from tickproof.conformance.scenario import Pace

#: From the start of the thread to the first tick: time to come to rest.
LEAD_NS: Final = 50_000_000
#: Rows are written so many at a time.
BLOCK: Final = 256
PR_SET_TIMERSLACK: Final = 29


class OpenLoop:
    """Publishes ``plan`` (see publisher.Publisher) whenever it is asked.

    tell: hears ``pace`` (t0_ns, tick_ns, ticks) when the schedule is fixed. passed: is asked
    before each tick how much may be published, and not obeyed: faults find their moment by it.
    reported: a tick is published only once `arrived` says so, and END follows the last.
    """

    #: No limit ever holds the next records back.
    held_back: Final = False

    def __init__(
        self,
        log: InputLog,
        plan: np.ndarray,
        pace: Pace,
        passed: Limit,
        folder: Path,
        tell: Callable[..., Any],
        *,
        reported: bool = False,
    ) -> None:
        self._log, self._pace, self._passed, self._tell = log, pace, passed, tell
        self._plan, self._totals = plan, plan.sum(axis=1)
        self._table = Table(folder / TICKS_FILE, TICK)
        self._rows = np.zeros(BLOCK, TICK)
        self._filled = self._done = self._arrived = 0
        self._reported = reported
        self._lock = threading.Lock()
        self._closed = False
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None
        #: When the next tick is due (monotonic), None before the start and after the last.
        self.due_ns: int | None = None

    def prepare(self) -> None:
        """Make the calling thread, which will publish, wake up in time; raises OSError."""
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        if self._pace.priority:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(self._pace.priority))
            except OSError as error:
                what = f"SCHED_FIFO, priority {self._pace.priority}, for what publishes"
                raise OSError(error.errno, f"{what}: {error.strerror}") from error

    def start(self) -> None:
        """Fix the schedule: from now on ticks fall due."""
        self._t0 = time.monotonic_ns() + LEAD_NS
        ticks = len(self._plan) - 1
        self._tell(pace={"t0_ns": self._t0, "tick_ns": self._pace.tick_ns, "ticks": ticks})
        self.due_ns = self._t0

    def postpone(self) -> None:
        """Fix the schedule anew if no tick was published yet: nobody is there to answer."""
        with self._lock:
            if self.due_ns is not None and not self._done:
                self.start()

    def publish_due(self) -> None:
        """Publish whatever is due: all of it at once where this comes late."""
        with self._lock:
            if self.due_ns is None:
                return
            last, tick_ns = len(self._plan) - 1, self._pace.tick_ns
            row = min(last, (time.monotonic_ns() - self._t0) // tick_ns + 1)
            if row > self._done:
                self._passed(int(self._totals[row]))
                self._log.publish(self._plan[row].tolist())
                if not self._reported:
                    self._note(time.monotonic_ns(), row - self._done)
                self._done = row
            self.due_ns = self._t0 + row * tick_ns
            if row == last:
                self.due_ns = None
                if not self._reported:
                    self._log.end()

    def arrived(self, ends: Sequence[int]) -> None:
        """Take note that each partition can be read up to its end now."""
        with self._lock:
            if self._closed or self._arrived == len(self._plan) - 1:
                return
            ticks = (
                np.searchsorted(column, end, side="right") - 1
                for column, end in zip(self._plan.T, ends, strict=True)
            )
            row = min(self._done, *map(int, ticks))
            self._note(time.monotonic_ns(), row - self._arrived)
            self._arrived = row
            if row == len(self._plan) - 1:
                self._log.end()

    def stop(self) -> None:
        """Publish no more, and write what is not written."""
        with self._lock:
            self.due_ns, self._closed = None, True
            self._write()
            self._table.close()

    def sha256(self) -> dict[str, str]:
        """Return the digest of the table of ticks, by the name of its file."""
        return {TICKS_FILE: self._table.sha256}

    def _note(self, t_ns: int, ticks: int) -> None:
        while ticks:
            fit = min(ticks, BLOCK - self._filled)
            self._rows["t_ns"][self._filled : self._filled + fit] = t_ns
            self._filled += fit
            ticks -= fit
            if self._filled == BLOCK:
                self._write()

    def _write(self) -> None:
        try:
            self._table.extend(self._rows[: self._filled])
        except OSError as error:
            self.failure = self.failure or error
        self._filled = 0
