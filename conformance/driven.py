"""The engine in a run: its starts, its processes, what is done to them, its restarts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from conformance.engines.process import Engine, EngineFailure, ProcessInfo
from conformance.engines.spec import EngineSpec
from conformance.engines.topology import Member, check_survives
from conformance.history.events import EventLog
from conformance.scenario import Scenario
from conformance.schedule import FaultStep

#: An op that no engine has: the answer must be a definite refusal.
PROBE_OP: Final = "tickproof-probe"

Line = Callable[[str, str, int], None]


class DrivenEngine:
    """One engine under test, over all its lives in one run.

    ``data`` is the data member of the deploy request, ``inputs`` the partitions of each
    input stream. Faults may be carried out from any thread; all else from one.
    """

    def __init__(
        self, spec: EngineSpec, scenario: Scenario, run_id: str, folder: Path, seed: int,
        data: dict[str, Any], inputs: Sequence[int], on_line: Line, events: EventLog,
    ) -> None:  # fmt: skip
        self._spec, self._scenario, self._id, self._folder = spec, scenario, run_id, folder
        self._random = random.Random(seed)
        self._data, self._inputs, self._on_line, self._events = data, inputs, on_line, events
        self._state_dir = folder.resolve() / "state"
        self._state_dir.mkdir()
        self._members: list[Member] = []
        self._stale = False
        self._topology_lock = threading.Lock()
        self._paused: list[tuple[Member, int, int]] = []
        self._live: Engine | None = None
        #: When the last fault was carried out or undone (time.monotonic), 0 before the first.
        self.touched_at = 0.0
        #: The whole engine was killed and is not up again.
        self.killed = False
        #: The first answer to hello.
        self.hello: dict[str, Any] = {}

    @property
    def live(self) -> Engine:
        """The engine's present life."""
        assert self._live is not None
        return self._live

    @property
    def paused(self) -> bool:
        """Say whether a process is stopped by a fault now."""
        return bool(self._paused)

    def start(self, resume: bool) -> None:
        """Start argv, say hello, deploy, ask for topology; raises EngineFailure."""
        deadline = time.monotonic() + self._spec.timeouts.startup_s

        def left() -> float:
            return max(0.1, deadline - time.monotonic())

        engine = Engine(self._spec, self._id, self._folder / "stderr.log", self._on_line)
        self._live = engine
        engine.start()
        self._events.add("started", pid=engine.pid, resume=resume)
        hello = engine.request("hello", left(), protocol=1)
        if not self.hello:
            self.hello = {key: hello[key] for key in ("name", "version", "protocol")}
        scenario = self._scenario
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

    def restart(self, between: Callable[[], None]) -> None:
        """After a death: end what is left, call ``between``, start again with resume.

        A fault that comes before the engine is up again makes it begin anew.
        """
        while True:
            self.live.end()
            between()
            self.killed = False
            try:
                return self.start(resume=True)
            except EngineFailure:
                if not self.killed:
                    raise

    def topology(self, timeout_s: float) -> list[Member]:
        """Ask for the processes; raises EngineFailure where one is not the engine's own."""
        with self._topology_lock:
            self._members = self.live.topology(timeout_s)
            self._stale = False
            self._events.add(
                "topology",
                processes=[{"pid": m.pid, "role": m.role, "name": m.name} for m in self._members],
            )
            return self._members

    def aim(self, step: FaultStep) -> Callable[[], dict[str, Any]]:
        """Find whom a fault step is meant for; return what strikes and gives the pids met.

        Both raise LookupError where there is nobody; aiming may ask for topology first.
        """
        if self._live is None or self._live.returncode is not None:
            raise LookupError("the engine was not running")
        if step.target == "engine":
            return self._kill_engine
        members = self._members
        if self._stale:
            members = self.topology(self._spec.timeouts.recovery_s)
        # argv's own process may be a worker too, but its death is the engine's death.
        workers = [
            m for m in members if m.role == "worker" and m.alive and m.pid != self._live.pid
        ]  # fmt: skip
        if not workers:
            raise LookupError("topology names no living worker apart from argv's process")
        victim = self._random.choice(workers)
        return partial(self._pause if step.do == "pause" else self._kill, victim, step)

    def _kill_engine(self) -> dict[str, Any]:
        self.touched_at = time.monotonic()
        self.killed = True
        return {"pids": self.live.kill()}

    def _kill(self, victim: Member, _step: FaultStep) -> dict[str, Any]:
        self.touched_at = time.monotonic()
        if not victim.kill():
            raise LookupError(f"worker {victim.pid} ended by itself")
        self._stale = True
        return {"pids": [victim.pid]}

    def _pause(self, victim: Member, step: FaultStep) -> dict[str, Any]:
        self.touched_at = time.monotonic()
        if not victim.pause():
            raise LookupError(f"worker {victim.pid} ended by itself")
        now = time.monotonic_ns()
        self._paused.append((victim, now, now + int(step.seconds * 1e9)))
        return {"pids": [victim.pid]}

    def continue_paused(self) -> None:
        """Continue the processes whose pause is over."""
        for entry in [entry for entry in self._paused if time.monotonic_ns() >= entry[2]]:
            self._paused.remove(entry)
            victim, from_ns, _ = entry
            victim.resume()
            self.touched_at = time.monotonic()
            self._events.add("resumed", pid=victim.pid, from_ns=from_ns, alive=victim.alive)

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
        """End the engine as its scenario says; raises EngineFailure."""
        limit = self._spec.timeouts.drain_s
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
        for victim, _, _ in self._paused:
            victim.resume()
        return self._live.end() if self._live is not None else []
