"""Many checkpoints in a run, one after the other, each with input of its own to cover."""

from __future__ import annotations

import time
from typing import Final

from tickproof.conformance.engines.failures import Code
from tickproof.conformance.engines.process import EngineFailure, Pending
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.runner.live_run import LiveRun

#: A slow engine gives fewer checkpoints: the rest of the input comes after so long.
_LONGEST_S: Final = 20.0


class Checkpoints:
    """Asks for checkpoints, and hands out the input between them."""

    def __init__(self, run: LiveRun) -> None:
        self._engine, self._log, self._events = run.engine, run.log, run.events
        self._faults = run.faults
        self._each = max(1, run.log.total // run.scenario.checkpoints)
        self._over_at = time.monotonic() + _LONGEST_S
        self._asked: Pending | None = None
        #: Where each partition stood as it was asked for.
        self._states: list[list[int]] = []
        self._hand_out()

    def step(self) -> bool:
        """Do what is due; return True while more is to come. Raises EngineFailure."""
        if time.monotonic() > self._over_at or self._log.published >= self._log.total:
            return self._end()
        if self._engine.killed:  # nobody answers what it was asked
            self._asked = None
            return True
        if self._asked is None:
            if self._log.fetched >= self._faults.most:
                self._states = [list(state) for state in self._log.states()]
                self._asked = self._engine.ask_checkpoint()
            return True
        if not self._asked.done:
            return True
        asked, self._asked = self._asked, None
        try:
            asked.wait(0)
        except EngineFailure as failure:
            if failure.code != Code.REFUSED:
                raise
            return self._end()
        self._events.add(EventKind.CHECKPOINTED, asked.answered_ns, partitions=self._states)
        self._hand_out()
        return True

    def _hand_out(self) -> None:
        self._faults.most = min(self._log.published + self._each, self._log.total)

    def _end(self) -> bool:
        self._faults.most = self._log.total
        return False
