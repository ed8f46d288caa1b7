"""The engine in a run: its starts, its processes, what is done to them, its restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.engine_reuse import Parked, Parking
from tickproof.conformance.engines.process import Engine, EngineFailure, OnLine, ProcessInfo
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.engines.topology import Member, check_survives
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.runner.process_faults import Strike, Striking
from tickproof.conformance.scenario import FaultStep, Scenario

#: An op that no engine has: the answer must be a definite refusal.
PROBE_OP: Final = "tickproof-probe"


class DrivenEngine:
    """One engine under test, over all its lives in one run.

    ``data`` is the data member of the deploy request, ``inputs`` the partitions of each
    input stream; ``parking`` may hold an engine of an earlier run. Faults may be carried
    out from any thread; all else from one.
    """

    def __init__(
        self, spec: EngineSpec, scenario: Scenario, run_id: str, folder: Path, seed: int,
        data: dict[str, Any], inputs: Sequence[int], on_line: OnLine, events: EventLog,
        parking: Parking | None = None,
    ) -> None:  # fmt: skip
        self._spec, self._scenario, self._id, self._folder = spec, scenario, run_id, folder
        self._data, self._inputs, self._on_line, self._events = data, inputs, on_line, events
        self._state_dir = folder.resolve() / "state"
        self._state_dir.mkdir()
        self._members: list[Member] = []
        self._topology_lock = threading.Lock()
        self._parking = parking
        self._live: Engine | None = None
        self._served = 0
        #: What faults do to it, and what follows from them.
        self.strikes = Striking(folder, self._state_dir, events, seed, spec.timeouts.recovery_s)
        #: The first answer to hello.
        self.hello: dict[str, Any] = {}

    @property
    def live(self) -> Engine:
        """The engine's present life."""
        assert self._live is not None
        return self._live

    @property
    def killed(self) -> bool:
        """Whether the engine died by a fault, at once or in its wake, and is not up again."""
        return self._live is not None and self.strikes.killed(self._live)

    def start(self, resume: bool) -> None:
        """Start argv, say hello, deploy, ask for topology; raises EngineFailure."""
        deadline = time.monotonic() + self._spec.timeouts.startup_s

        def left() -> float:
            return max(0.1, deadline - time.monotonic())

        scenario = self._scenario
        engine = None if resume else self._taken_over()
        if engine is None:
            engine = self._started(resume, left)
        engine.request(
            "deploy", left(), app=scenario.app, params=scenario.params, workers=scenario.workers,
            state_dir=str(self._state_dir), resume=resume, data=self._data,
            inputs=[{"stream": s, "partitions": count} for s, count in enumerate(self._inputs)],
            outputs=[{"stream": 0}],
        )  # fmt: skip
        self._events.add("deployed", pid=engine.pid, resume=resume)
        members = self.topology(left())
        survives = self._spec.claims(scenario.app, scenario.params).survives
        check_survives(members, survives, engine.pid)

    def _started(self, resume: bool, left: Callable[[], float]) -> Engine:
        engine = Engine(self._spec, self._id, self._folder / "stderr.log", self._on_line)
        self._live, self._served = engine, 0
        engine.start(self._scenario.pace.engine_cores if self._scenario.pace else ())
        self._events.add("started", pid=engine.pid, resume=resume)
        hello = engine.request("hello", left(), protocol=1)
        if not self.hello:
            self.hello = {key: hello[key] for key in ("name", "version", "protocol")}
        return engine

    def _taken_over(self) -> Engine | None:
        """Take the engine that an earlier run left, if this run may have it."""
        if self._parking is None or not self._scenario.may_share:
            return None
        if (parked := self._parking.take(self._scenario.workers)) is None:
            return None
        parked.engine.hand_over(self._folder / "stderr.log", self._on_line)
        self._live, self._served, self.hello = parked.engine, parked.served, parked.hello
        self._events.add("taken-over", pid=parked.engine.pid, served=parked.served)
        return parked.engine

    def restart(self, between: Callable[[], None]) -> None:
        """After a death: end what is left, call ``between``, start again with resume.

        A fault that comes before the engine is up again makes it begin anew.
        """
        while True:
            self.live.end()
            between()
            self.strikes.died()
            try:
                return self.start(resume=True)
            except EngineFailure as failure:
                if not self.killed:
                    self._events.add("not-restarted", code=failure.code, status=failure.status)
                    raise

    def topology(self, timeout_s: float) -> list[Member]:
        """Ask for the processes; raises EngineFailure where one is not the engine's own."""
        with self._topology_lock:
            self._members = self.live.topology(timeout_s)
            self._events.add(
                "topology",
                processes=[{"pid": m.pid, "role": m.role, "name": m.name} for m in self._members],
            )
            return self._members

    def aim(self, step: FaultStep) -> Strike:
        """Find whom a fault step is meant for; return what strikes and gives the facts.

        Both raise LookupError where there is nobody; aiming may ask for topology first.
        """
        if self._live is None or self._live.returncode is not None:
            raise LookupError("the engine was not running")
        by_name = step.target in ("worker", "workers", "coordinator")
        if by_name and not all(map(self.strikes.unhurt, self._members)):
            self.topology(self._spec.timeouts.recovery_s)
        return self.strikes.aim(step, self._live, self._members)

    def probe(self) -> None:
        """Send an op that does not exist, and note the answer."""
        try:
            self.live.request(PROBE_OP, self._spec.timeouts.startup_s)
        except EngineFailure as failure:
            if failure.code != "REFUSED":
                raise
            self._events.add("probe-refused", definite=failure.definite)
        else:
            self._events.add("probe-accepted")

    def checkpoint(self) -> bool:
        """Ask for a checkpoint; False where the engine has no such op."""
        try:
            self.live.request("checkpoint", self._spec.timeouts.drain_s)
        except EngineFailure as failure:
            if failure.code != "REFUSED":
                raise
            return False
        return True

    def rss_bytes(self) -> int:
        """Return the resident memory of all processes that topology named."""
        return sum(member.rss_bytes() for member in self._members if member.alive)

    def finish(self) -> None:
        """End the engine as its scenario says, or leave it to a later run; raises EngineFailure."""
        limit = self._spec.timeouts.drain_s
        if self._parking and self._scenario.may_share:
            parked = Parked(self.live, self.hello, self._scenario.workers, self._served + 1)
            if self._parking.park(parked, limit):
                self._events.add("parked", pid=self.live.pid)
                violations, self._live = self.live.violations, None
                if violations:
                    raise violations[0]
                return
        if self._scenario.ending == "stdin-eof":
            self.live.close_stdin()
        else:
            self.live.request("stop", limit)
        self._events.add("exited", returncode=self.live.wait_exit(limit))
        # What was said after the last answer counts too.
        if self.live.violations:
            raise self.live.violations[0]

    def end(self) -> list[ProcessInfo]:
        """Kill what is left; returns what was left over."""
        self.strikes.end()
        return self._live.end() if self._live is not None else []
