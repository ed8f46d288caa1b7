"""Keeps an engine from one run to the next.

Starting an engine may cost more than the run itself. One that offers the op undeploy and
outlives its run deploys the app of the next one.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.process import Engine


@dataclass
class IdleEngine:
    """A started engine without an app. hello: its answer. served: the apps it has had so far."""

    engine: Engine
    hello: dict[str, Any]
    workers: int
    served: int


class EnginePool:
    """Holds at most one idle engine. Not thread-safe."""

    def __init__(self) -> None:
        self._idle: IdleEngine | None = None
        self._cannot_undeploy = False

    def take(self, workers: int) -> IdleEngine | None:
        """Return the idle engine if it has that many workers.

        Whatever it did wrong in the meantime, ending included, shows at the next request.
        """
        idle = self._idle
        if idle is None or idle.workers != workers:
            return None
        self._idle = None
        return idle

    def keep(self, idle: IdleEngine, timeout_s: float) -> bool:
        """Let an engine undeploy its app, and keep it; False where there is no room or no such op.

        Raises EngineFailure where the op fails.
        """
        if self._cannot_undeploy or self._idle is not None:
            return False
        try:
            idle.engine.request("undeploy", timeout_s)
        except EngineFailure as failure:
            if failure.code != Code.REFUSED or not failure.definite:
                raise
            self._cannot_undeploy = True
            return False
        idle.engine.set_aside()
        self._idle = idle
        return True

    def close(self, timeout_s: float) -> None:
        """Stop the idle engine and kill what is left of it."""
        if self._idle is None or (idle := self.take(self._idle.workers)) is None:
            return
        # How engines stop is judged in other runs.
        with contextlib.suppress(EngineFailure):
            idle.engine.request("stop", timeout_s)
            idle.engine.wait_exit(timeout_s)
        try:
            idle.engine.end()
        finally:
            idle.engine.workspace.remove()
