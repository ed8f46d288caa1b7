"""Publishes the input of a run in the merged order, at a pace, up to a limit.

Faults set the limit: input stops a little behind the point where the next fault is
due and goes on after it, so that a fault always meets data in flight.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from tickproof.conformance.log_server.input_log import InputLog

TICK_S: Final = 0.02
#: What is late, or comes out of a hold, makes up for no more than this.
MAX_LAG_S: Final = 0.1

#: A hold begins after so long, though not all that is out was fetched.
HOLD_BEGINS_S: Final = 30.0

#: From records due by the pace to records that may be published now.
Limit = Callable[[int], int]


class Publisher:
    """Moves the published ends along ``plan``, whenever `publish_due` is called in time.

    plan: uint64 of shape (ticks + 1, partitions), cumulative; row 0 is all zero.
    rate: records a second over all partitions; None publishes all at once.
    hold: (part of the input, seconds): publish nothing for that long once that part is
    out and fetched. END is announced with the last record.
    """

    #: It records nothing that could break.
    failure: Final = None

    def __init__(
        self,
        log: InputLog,
        plan: np.ndarray,
        rate: float | None,
        limit: Limit,
        hold: tuple[float, float] | None = None,
    ) -> None:
        self._log, self._plan, self._rate, self._limit = log, plan, rate, limit
        self._totals = plan.sum(axis=1)
        self._hold = hold
        self._hold_due: float | None = None
        self._row = 0
        #: Records due by the pace, and when that was reckoned.
        self._due = self._last = 0.0
        self._stopped = False
        #: When the next tick is due (monotonic), None before the start and after the last.
        self.due_ns: int | None = None

    def prepare(self) -> None:
        """Nothing to prepare in the thread that publishes."""

    def start(self) -> None:
        """Begin to publish."""
        self.due_ns = time.monotonic_ns()

    def stop(self) -> None:
        """Publish no more."""
        self._stopped = True

    def sha256(self) -> dict[str, str]:
        """Return the digests of the files that it has written: none."""
        return {}

    @property
    def held_back(self) -> bool:
        """Say whether the limit, not the pace, keeps the next records back."""
        following = self._totals[min(self._row + 1, len(self._totals) - 1)]
        return self._limit(int(following)) < following

    def publish_due(self) -> None:
        """Publish what is due by the pace and allowed by the limit."""
        if self._stopped:
            self.due_ns = None
            return
        total, now = int(self._totals[-1]), time.monotonic()
        if self._rate is not None:
            since_s = min(now - (self._last or now), MAX_LAG_S)
            self._due = min(self._due + self._rate * since_s, float(total))
            # While a fault holds the input back, the pace does not run ahead. Parts of a
            # record are kept: at a slow pace they are all that a tick adds.
            if (allowed := self._allowed(int(self._due))) < int(self._due):
                self._due = float(allowed)
            self._due = max(self._due, float(self._totals[self._row]))
        self._last = now
        if self._advance(self._allowed(total if self._rate is None else int(self._due))):
            self.due_ns = None
            self._log.end()
        else:
            self.due_ns = time.monotonic_ns() + int(self._pause(total) * 1e9)

    def _allowed(self, due: int) -> int:
        """Return how many records may be out now, when ``due`` are due by the pace."""
        return int(self._totals[self._row]) if self._hold_due and self._hold else self._limit(due)

    def _pause(self, total: int) -> float:
        if self._hold is None or self._totals[self._row] < self._hold[0] * total:
            return TICK_S
        # A slow starter is not there yet: the silence has to be one that it hears.
        self._hold_due = self._hold_due or time.monotonic()
        patient = time.monotonic() < self._hold_due + HOLD_BEGINS_S
        if patient and self._log.fetched < self._totals[self._row]:
            return TICK_S
        seconds, self._hold = self._hold[1], None
        return seconds

    def _advance(self, target: int) -> bool:
        """Publish up to ``target`` records; True when all is published."""
        row = int(np.searchsorted(self._totals, target, side="right")) - 1
        if row > self._row:
            self._row = row
            self._log.publish(self._plan[row])
        return self._totals[self._row] >= self._totals[-1]
