"""An engine that waits between two runs for its next app.

Starting may be most of what a run costs. An engine with the op undeploy is kept where it
outlived its run, and deploys the app of the next one.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.process import Engine


@dataclass
class Parked:
    """A started engine without an app. hello: its answer. served: apps that it had so far."""

    engine: Engine
    hello: dict[str, Any]
    workers: int
    served: int


class Parking:
    """Room for one engine. Not for several threads."""

    def __init__(self) -> None:
        self._parked: Parked | None = None
        self._asked_in_vain = False

    def take(self, workers: int) -> Parked | None:
        """Hand the parked engine out, if it has as many workers.

        What it did wrong in the meantime, its own end included, shows at the next request.
        """
        parked = self._parked
        if parked is None or parked.workers != workers:
            return None
        self._parked = None
        return parked

    def park(self, parked: Parked, timeout_s: float) -> bool:
        """Ask an engine to undeploy its app, and keep it; False where there is no room or op.

        Raises EngineFailure where the op fails.
        """
        if self._asked_in_vain or self._parked is not None:
            return False
        try:
            parked.engine.request("undeploy", timeout_s)
        except EngineFailure as failure:
            if failure.code != Code.REFUSED or not failure.definite:
                raise
            self._asked_in_vain = True
            return False
        self._parked = parked
        return True

    def close(self, timeout_s: float) -> None:
        """Stop the parked engine; what is left of it is ended."""
        if self._parked is None or (parked := self.take(self._parked.workers)) is None:
            return
        # How it stops is judged in runs of its own.
        with contextlib.suppress(EngineFailure):
            parked.engine.request("stop", timeout_s)
            parked.engine.wait_exit(timeout_s)
        parked.engine.end()
