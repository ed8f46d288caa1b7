"""Plays one scenario on one engine into one run folder.

The runner waits for conditions, each with a deadline of engine.toml, and never
judges: an engine that misses a deadline ends the run with the failure on record.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import generators
from conformance import __version__
from conformance.engines.process import Engine, EngineFailure, Pending
from conformance.engines.spec import EngineSpec
from conformance.engines.topology import Member, check_survives
from conformance.faults.controller import FaultController
from conformance.faults.steps import FaultStep
from conformance.history.control import ControlLog
from conformance.history.events import EventLog, Listener
from conformance.history.folder import FORMAT, recorded_files, write_json
from conformance.protocol.publisher import Publisher
from conformance.protocol.recorder import Recorder
from conformance.protocol.server import LogServer
from conformance.protocol.sink import Sink
from conformance.protocol.source import InputLog
from conformance.scenario import Scenario

STEP_S: Final = 0.01
PROGRESS_S: Final = 0.2
#: An op that no engine has: the answer must be a definite refusal.
PROBE_OP: Final = "tickproof-probe"


class KitStopped(Exception):
    """The kit itself cannot go on (a full disk, say): never blamed on the engine."""


def play(
    scenario: Scenario, spec: EngineSpec, folder: Path, *, seed: int,
    listener: Listener | None = None, port: int = 0,
) -> None:  # fmt: skip
    """Run ``scenario`` on the engine of ``spec``; all that happens lies in ``folder``.

    Engine failures are recorded, not raised. Raises KitStopped when the kit could not
    record; the folder then holds what was recorded, with that reason.
    """
    folder.mkdir(parents=True)
    events = EventLog(folder / "events.jsonl", listener)
    run = _Run(scenario, spec, folder, seed, events, port)
    try:
        run.prepare()
        run.play()
        ended = {"how": "completed"}
    except EngineFailure as failure:
        ended = {"how": "engine-failure", "code": failure.code, "message": failure.message,
                 "stderr": failure.stderr_tail}  # fmt: skip
    except KitStopped as error:
        ended = {"how": "kit-error", "message": str(error)}
    except OSError as error:
        ended = {"how": "kit-error", "message": f"the run in {folder} cannot go on: {error}"}
    except KeyboardInterrupt:
        run.close({"how": "kit-error", "message": "interrupted with Ctrl-C"})
        raise
    except BaseException as error:
        run.close({"how": "kit-error", "message": f"{type(error).__name__}: {error}"})
        raise
    stopped = run.close(ended)
    if stopped:
        raise KitStopped(stopped)


class _Run:
    """The state of one run: server, publisher, faults and the live engine."""

    def __init__(
        self, scenario: Scenario, spec: EngineSpec, folder: Path, seed: int,
        events: EventLog, port: int,
    ) -> None:  # fmt: skip
        self.scenario, self.spec, self.folder, self.events = scenario, spec, folder, events
        self.id = uuid.uuid4().hex
        self.port = port
        self.claims = spec.claims(scenario.app, scenario.params)
        self.random = random.Random(seed)
        self.state_dir = folder.resolve() / "state"
        self.engine: Engine | None = None
        self.members: list[Member] = []
        self.members_stale = False
        self.members_lock = threading.Lock()
        self.paused: list[tuple[Member, int, int]] = []
        self.last_fault = 0.0
        self.killed_engine = False
        self.drain: Pending | None = None
        self.drain_asked = 0.0
        self.ended_at = 0.0
        self.moved_at = 0.0
        self.moved = -1
        self.told_at = 0.0
        self.record: dict[str, Any] = {
            "format": FORMAT, "kit": __version__, "id": self.id, "seed": seed,
            "engine": {"name": spec.name, "version": spec.version, "language": spec.language},
            "claims": self.claims.to_json(), "scenario": scenario.to_json(),
            "started_ns": time.monotonic_ns(), "started": time.time(),
        }  # fmt: skip
        self.stack = contextlib.ExitStack()
        self.recording: list[EventLog | ControlLog | InputLog | Recorder] = [events]

    def prepare(self) -> None:
        """Make the input, open the log server, write the first run.json."""
        scenario, folder = self.scenario, self.folder
        built = generators.build(scenario.recipe, folder / "input")
        self.record["input"] = {
            "recipe": built.recipe,
            "warnings": built.warnings,
            "symbols": built.symbols,
            "partitions": [
                {"stream": p.stream, "partition": p.partition, "file": f"input/{p.path.name}",
                 "record_size": p.record_size, "records": p.records, "sha256": p.sha256}
                for p in built.partitions
            ],
        }  # fmt: skip
        self._write_record()
        event = self.events.add
        self.log = InputLog(built.partitions, folder, event)
        self.recorder = Recorder(folder / "output", {0: scenario.output_size}, event)
        self.stack.callback(self.recorder.close)
        self.control = ControlLog(folder / "control.jsonl")
        self.stack.callback(self.control.close)
        self.recording += [self.log, self.recorder, self.control]
        self.sink = Sink(scenario.sink, event)
        self.faults = FaultController(
            scenario.faults, self.log, self.recorder, scenario.rate, self._deed, event
        )
        self.server = self.stack.enter_context(
            LogServer(self.log, self.recorder, self.sink, event, self.port, self.faults.observe)
        )
        self.faults.opened = lambda: self.server.connections
        self.publisher = Publisher(
            self.log, built.plan, scenario.rate, self.faults.limit, scenario.hold
        )
        self.stack.callback(self.publisher.stop)
        self.state_dir.mkdir()

    def play(self) -> None:
        """Drive the engine from start to stop; raises EngineFailure, KitStopped."""
        self._start(resume=False)
        if self.scenario.probes:
            self._probe()
        self.publisher.start()
        self._follow()
        self._finish()

    # -- the engine's life -------------------------------------------------

    def _start(self, resume: bool) -> None:
        timeouts, scenario = self.spec.timeouts, self.scenario
        began = time.monotonic()
        startup = timeouts.startup_s

        def left() -> float:
            return max(0.1, began + startup - time.monotonic())

        engine = Engine(self.spec, self.id, self.folder / "stderr.log", self.control.add)
        self.engine = engine
        engine.start()
        self.events.add("started", pid=engine.pid, resume=resume)
        hello = engine.request("hello", left(), protocol=1)
        self.record.setdefault("hello", {k: hello[k] for k in ("name", "version", "protocol")})
        streams = sorted({p["stream"] for p in self.record["input"]["partitions"]})
        engine.request(
            "deploy", left(), app=scenario.app, params=scenario.params, workers=scenario.workers,
            state_dir=str(self.state_dir), resume=resume,
            data={"transport": "log", "host": "127.0.0.1", "port": self.server.port,
                  "token": self.server.token.hex()},
            inputs=[{"stream": s, "partitions": self._partitions(s)} for s in streams],
            outputs=[{"stream": 0}],
        )  # fmt: skip
        self.events.add("deployed", pid=engine.pid, resume=resume)
        members = self._ask_topology(left())
        check_survives(members, self.claims.survives, engine.pid)

    def _partitions(self, stream: int) -> int:
        return sum(p["stream"] == stream for p in self.record["input"]["partitions"])

    def _ask_topology(self, timeout_s: float) -> list[Member]:
        assert self.engine is not None
        with self.members_lock:
            self.members = self.engine.topology(timeout_s)
            self.members_stale = False
            self.events.add(
                "topology",
                processes=[{"pid": m.pid, "role": m.role, "name": m.name} for m in self.members],
            )
            return self.members

    def _restart(self) -> None:
        """After the death of the engine: end what is left, read its data, start again."""
        assert self.engine is not None
        self.drain = None
        while True:
            self.sink.hurry(True)
            self.engine.end()
            # The thread that fired has still to note what it did.
            if not self._wait(lambda: not self.faults.busy, 30):
                raise KitStopped("a fault did not come to its end within 30 s")
            if not self.server.wait_idle(30):
                raise KitStopped("connections of a dead engine did not end within 30 s")
            self.sink.hurry(False)
            self.killed_engine = False
            try:
                return self._start(resume=True)
            except EngineFailure:
                if not self.killed_engine:
                    raise
                # The next fault came before the engine was up again: that was its aim.

    @staticmethod
    def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
        tick, deadline = threading.Event(), time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            tick.wait(STEP_S)
        return True

    # -- faults --------------------------------------------------------------

    def _deed(self, step: FaultStep) -> dict[str, Any]:
        """Carry out a step; called in whatever thread reached its moment."""
        engine = self.engine
        if engine is None or engine.returncode is not None:
            raise LookupError("the engine was not running")
        self.last_fault = time.monotonic()
        if step.target == "engine":
            self.killed_engine = True
            return {"pids": engine.kill()}
        members = self.members
        if self.members_stale:
            members = self._ask_topology(self.spec.timeouts.recovery_s)
        workers = [m for m in members if m.role == "worker" and m.alive]
        if not workers:
            raise LookupError("topology names no living worker")
        victim = self.random.choice(workers)
        if step.do == "pause":
            victim.pause()
            now = time.monotonic_ns()
            self.paused.append((victim, now, now + int(step.seconds * 1e9)))
        else:
            victim.kill()
            self.members_stale = True
        return {"pids": [victim.pid]}

    def _resume_paused(self) -> None:
        for entry in [e for e in self.paused if time.monotonic_ns() >= e[2]]:
            self.paused.remove(entry)
            victim, from_ns, _ = entry
            victim.resume()
            self.last_fault = time.monotonic()
            self.events.add("resumed", pid=victim.pid, from_ns=from_ns, alive=victim.alive)

    # -- following the run -----------------------------------------------------

    def _follow(self) -> None:
        """Wait until all input is published, every fault fired and drain answered."""
        tick = threading.Event()
        while True:
            tick.wait(STEP_S)
            self._check_health()
            self._resume_paused()
            self._tell_progress()
            if self.faults.current and self.faults.current.at == "checkpoint":
                self._checkpoint_when_quiet()
            self._give_up_if_stuck()
            if self.drain is None and self._drain_due():
                self.drain = self.engine.submit("drain")
                self.drain_asked = time.monotonic()
                self.events.add("drain-asked", published=self.log.published)
                if self.scenario.probes:
                    self._ask_topology(self.spec.timeouts.drain_s)
                    self.events.add("answered-while-draining")
            if self.drain is not None and self.drain.done:
                self._drained()
                if self.faults.fire_now("drained") is None and not self.killed_engine:
                    return
                self.drain = None
            elif self.drain is not None and time.monotonic() > self._drain_deadline():
                self._drain_overdue()

    def _drain_due(self) -> bool:
        if self.killed_engine or self.paused:
            return False
        if self.scenario.drain_at is not None:
            return self.log.published >= self.scenario.drain_at * self.log.total
        return self.log.ended

    def _drain_deadline(self) -> float:
        timeouts = self.spec.timeouts
        base = max(self.drain_asked, self.ended_at)
        if self.last_fault:
            base = max(base, self.last_fault + timeouts.recovery_s)
        if not self.ended_at:
            return float("inf")
        return base + timeouts.drain_s + self.sink.spent_s

    def _drain_overdue(self) -> None:
        assert self.drain is not None
        try:
            self.drain.wait(0)
        except EngineFailure as failure:
            if failure.code != "NO_ANSWER":
                raise
            limit = self.spec.timeouts.drain_s
            raise EngineFailure(
                failure.code, f"no answer to drain within {limit:g} s of END and the request",
                failure.stderr_tail,
            ) from failure  # fmt: skip

    def _drained(self) -> None:
        states = self.log.states()
        self.events.add(
            "drained", open_acknowledgements=self.sink.open_acknowledgements,
            staged_open=self.recorder.staged_open, outputs=self.recorder.records,
            ended=self.log.ended, partitions=[list(s) for s in states],
        )  # fmt: skip
        self.drain.wait(0)

    def _check_health(self) -> None:
        if self._stopped():
            raise KitStopped(self._stopped())
        if self.log.ended and not self.ended_at:
            self.ended_at = time.monotonic()
        engine = self.engine
        if self.killed_engine:
            if self.faults.busy or engine.returncode is None:
                return
            self.events.add("exited", returncode=engine.returncode)
            self._restart()
        elif engine.returncode is not None:
            raise engine.exited()
        elif engine.violations:
            raise engine.violations[0]

    def _give_up_if_stuck(self) -> None:
        """A due fault whose moment never comes must not hold the input back for ever."""
        now = time.monotonic()
        position = self.log.fetched + self.log.published + self.recorder.records
        if position != self.moved:
            self.moved, self.moved_at = position, now
        step = self.faults.current
        quiet = now - max(self.moved_at, self.last_fault)
        if step is None or step.at == "drained" or self.killed_engine:
            return
        if quiet > self.spec.timeouts.recovery_s:
            self.faults.give_up("its moment did not come")

    def _checkpoint_when_quiet(self) -> None:
        """Ask for a checkpoint once everything published so far has come out again."""
        step = self.faults.current
        held = self.log.published
        if not self.publisher.held_back or self.recorder.records < held:
            return
        states = [list(s) for s in self.log.states()]
        answer = self.engine.submit("checkpoint")
        try:
            answer.wait(self.spec.timeouts.drain_s)
        except EngineFailure as failure:
            if failure.code != "REFUSED":
                raise
            self.faults.give_up("the engine has no checkpoint op")
            return
        self.events.add("checkpointed", partitions=states)
        self.faults.fire_now(step.at)

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self.told_at >= PROGRESS_S:
            self.told_at = now
            self.events.add(
                "progress",
                served=self.log.fetched,
                outputs=self.recorder.records,
                published=self.log.published,
                released=self.log.released,
                rss=self._rss(),
            )

    def _rss(self) -> int:
        return sum(m.rss_bytes() for m in self.members if m.alive)

    # -- the end ----------------------------------------------------------------

    def _probe(self) -> None:
        try:
            self.engine.request(PROBE_OP, self.spec.timeouts.startup_s)
        except EngineFailure as failure:
            if failure.code != "REFUSED":
                raise
            self.events.add("probe-refused", definite=failure.definite)
        else:
            self.events.add("probe-accepted")

    def _finish(self) -> None:
        engine, timeouts = self.engine, self.spec.timeouts
        if self.scenario.ending == "stdin-eof":
            engine.close_stdin()
        else:
            engine.request("stop", timeouts.drain_s)
        returncode = engine.wait_exit(timeouts.drain_s)
        self.events.add("exited", returncode=returncode)

    def close(self, ended: dict[str, Any]) -> str:
        """End whatever is left, write the last run.json; return what stopped the kit, or "".

        What went wrong because the kit could not record is never the engine's failure.
        """
        left: list[Any] = []
        for victim, _, _ in self.paused:
            victim.resume()
        try:
            if self.engine is not None:
                left = self.engine.end()
            self.stack.close()
            self.events.close()
            if stopped := self._stopped():
                ended = {"how": "kit-error", "message": stopped}
            self.record |= {
                "ended": ended, "ended_ns": time.monotonic_ns(),
                "left_over": [{"pid": p.pid, "name": p.name} for p in left],
                "event_counts": dict(self.events.counts), "files": recorded_files(self.folder),
            }  # fmt: skip
            self._write_record()
        except OSError as error:
            return self._stopped() or f"recording into {self.folder} stopped: {error.strerror}"
        return ended["message"] if ended["how"] == "kit-error" else ""

    def _stopped(self) -> str:
        """Say why no more can be recorded, or ""."""
        failed = [part.failure for part in self.recording if part.failure is not None]
        return f"recording into {self.folder} stopped: {failed[0].strerror}" if failed else ""

    def _write_record(self) -> None:
        write_json(self.folder / "run.json", self.record)
