"""Publishes the input by a schedule fixed in advance: a slow engine never slows it.

Row k of the plan is due at ``t0 + (k - 1) * tick``. Whoever measures from that time counts
all waiting, that for a late generator too: nothing is omitted (coordinated omission).
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from conformance.history.tables import Table
from conformance.latency.pace import Pace
from conformance.protocol.publisher import Limit
from conformance.protocol.source import InputLog

FILE: Final = "ticks.bin"
#: One row a tick: when it was published, monotonic nanoseconds.
TICK: Final = np.dtype([("t_ns", "<i8")])
#: From the start of the thread to the first tick: time to come to rest.
LEAD_NS: Final = 50_000_000
#: Rows are written so many at a time.
BLOCK: Final = 256
PR_SET_TIMERSLACK: Final = 29


class OpenLoop:
    """Publishes ``plan`` (see protocol.publisher.Publisher) in a thread of its own.

    tell: hears ``pace`` (t0_ns, tick_ns, ticks) when the schedule is fixed, and ``refused``,
    what could not be set, in words. passed: is asked before each tick how much may be
    published, and not obeyed: faults find their moment by it.
    """

    #: No limit ever holds the next records back.
    held_back: Final = False

    def __init__(
        self, log: InputLog, plan: np.ndarray, pace: Pace, passed: Limit, folder: Path,
        tell: Callable[..., Any],
    ) -> None:  # fmt: skip
        self._log, self._pace, self._passed, self._tell = log, pace, passed, tell
        self._plan = plan.tolist()
        self._totals = plan.sum(axis=1).tolist()
        self._table = Table(folder / FILE, TICK)
        self._rows = np.zeros(BLOCK, TICK)
        self._filled = 0
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="open-loop", daemon=True)

    def start(self) -> None:
        """Fix the schedule and begin to publish."""
        self._t0 = time.monotonic_ns() + LEAD_NS
        ticks = len(self._plan) - 1
        self._tell(pace={"t0_ns": self._t0, "tick_ns": self._pace.tick_ns, "ticks": ticks})
        self._thread.start()

    def stop(self) -> None:
        """Publish no more; returns when the thread has ended and its rows are written."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10)
        self._write()
        self._table.close()

    def _run(self) -> None:
        if refused := _be_punctual(self._pace.priority):
            self._tell(refused=refused)
        tick_ns, last, done = self._pace.tick_ns, len(self._plan) - 1, 0
        while done < last and not self._stop.is_set():
            ahead = self._t0 + done * tick_ns - time.monotonic_ns()
            if ahead > 0:
                time.sleep(ahead / 1e9)
            # Whatever fell due while this thread was late goes out at once.
            row = min(last, (time.monotonic_ns() - self._t0) // tick_ns + 1)
            if row <= done:
                continue
            self._passed(self._totals[row])
            self._log.publish(self._plan[row])
            self._note(time.monotonic_ns(), row - done)
            done = row
        if done == last:
            self._log.end()

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


def _be_punctual(priority: int) -> list[str]:
    """Make this thread wake up in time; return what was refused, in words."""
    refused = []
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0):
        refused.append(f"timer slack of 1 ns: {os.strerror(ctypes.get_errno())}")
    if priority:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except OSError as error:
            refused.append(f"SCHED_FIFO with priority {priority}: {error.strerror}")
    return refused


def lateness_ns(ticks: np.ndarray, t0_ns: int, tick_ns: int) -> np.ndarray:
    """Return how late each published tick was (int64): TICK rows, the first due at t0."""
    return ticks["t_ns"] - (t0_ns + tick_ns * np.arange(len(ticks), dtype=np.int64))
