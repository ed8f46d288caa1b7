"""Plays one scenario on one engine into one run folder.

The runner waits for conditions, each with a deadline of engine.toml, and never
judges: an engine that misses a deadline ends the run with the failure on record.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tickproof import generators
from tickproof.conformance.engines.engine_reuse import Parking
from tickproof.conformance.engines.failures import Code
from tickproof.conformance.engines.process import EngineFailure, Pending
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.faults.controller import FaultController
from tickproof.conformance.history.control_log import ControlLog
from tickproof.conformance.history.event_log import EventLog, Listener
from tickproof.conformance.history.input_replay import InputMaker
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.runner import servers
from tickproof.conformance.runner.engine_lifecycle import DrivenEngine
from tickproof.conformance.runner.manifest import RunRecord
from tickproof.conformance.runner.progress_snapshots import Standing
from tickproof.conformance.scenario import FaultStep, Scenario
from tickproof.conformance.usage.engine_pids import Reapers
from tickproof.conformance.usage.sampler import UsageSampler

STEP_S: Final = 0.01
PROGRESS_S: Final = 0.2
#: The same where latency is measured: looking takes the interpreter from the log server.
PACED_STEP_S: Final = 0.05
PACED_PROGRESS_S: Final = 1.0
#: How long what the kit itself has under way may take to come to its end.
SETTLE_S: Final = 30
#: More output than so many times the input and so much more is output without an end.
ENDLESS_TIMES: Final = 20
ENDLESS_MORE: Final = 100_000
#: What a run may take beyond its pace and the limits of engine.toml.
SPARE_S: Final = 60
#: How long until drain is asked for again.
ASK_AGAIN_S: Final = 0.2


def play(
    scenario: Scenario, spec: EngineSpec, folder: Path, *, seed: int,
    listener: Listener | None = None, port: int = 0, parking: Parking | None = None,
    inputs: InputMaker | None = None, facts: Mapping[str, Any] | None = None, usage: bool = True,
) -> None:  # fmt: skip
    """Run ``scenario`` on the engine of ``spec``; all that happens lies in ``folder``.

    ``parking``: where to find an engine that a run before left, and to leave this one.
    ``inputs`` writes the input; None: it is made from the scenario's recipe. ``facts`` are
    added to run.json. ``usage`` False: somebody else looks at what the engine uses.
    Engine failures are recorded, not raised. Raises KitStopped when the kit could not
    record; the folder then holds what was recorded, with that reason.
    """
    folder.mkdir(parents=True, exist_ok=scenario.pace is not None)  # then others record there too
    events = EventLog(folder / "events.jsonl", listener)
    run = _Run(scenario, spec, folder, seed, events, port, parking)
    run.record.add(**facts or {})
    try:
        run.prepare(inputs or partial(generators.build, scenario.recipe))
        run.play(usage)
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


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait for a condition; False at the deadline."""
    tick, deadline = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        tick.wait(STEP_S)
    return True


class _Run:
    """The state of one run: server, publisher, faults and the live engine."""

    def __init__(
        self, scenario: Scenario, spec: EngineSpec, folder: Path, seed: int,
        events: EventLog, port: int, parking: Parking | None,
    ) -> None:  # fmt: skip
        self.scenario, self.spec, self.folder, self.events = scenario, spec, folder, events
        self.id = uuid.uuid4().hex
        self.port, self.parking = port, parking
        self.prepared = False
        self.drain: Pending | None = None
        self.drain_asked = 0.0
        self.ended_at = 0.0
        self.moved_at = 0.0
        self.moved = -1
        self.told_at = 0.0
        self.step_s = PACED_STEP_S if scenario.pace else STEP_S
        self.progress_s = PACED_PROGRESS_S if scenario.pace else PROGRESS_S
        self.seed = seed
        self.record = RunRecord(scenario, spec, folder, self.id, seed)
        self.stack = contextlib.ExitStack()
        #: What must not break; ``failure`` of each says whether it did.
        self.recording: list[Any] = [events]

    def prepare(self, inputs: InputMaker) -> None:
        """Make the input, open the log server, write the first run.json."""
        scenario, folder = self.scenario, self.folder
        built = inputs(folder / "input")
        self.record.made_input(built)
        event = self.events.add
        self.log = InputLog(built.partitions, folder, event)
        self.recorder = Recorder(folder / "output", {0: scenario.output_size}, event)
        self.stack.callback(self.recorder.close)
        self.control = ControlLog(folder / "control.jsonl")
        self.stack.callback(self.control.close)
        self.recording += [self.log, self.recorder, self.control]
        self.sink = Sink(scenario.sink, event)
        self.standing = Standing(self.log, self.recorder, self.sink)
        self.faults = FaultController(
            scenario.faults, self.log, self.recorder, scenario.rate,
            self._aim, event, self.spec.timeouts.cut_s, scenario.one_each,
        )  # fmt: skip
        self.server, self.publisher = servers.of(
            scenario, built.plan, self.log, self.recorder, self.sink, self.faults,
            folder=folder, event=event, tell=self.record.add, port=self.port,
        )  # fmt: skip
        self.recording += [self.server, self.publisher]
        self.stack.enter_context(self.server)
        self.stack.callback(self.publisher.stop)
        widths = Counter(p.stream for p in built.partitions)
        self.engine = DrivenEngine(
            self.spec, scenario, self.id, folder, self.seed,
            {"transport": "log", "host": "127.0.0.1", "port": self.server.port,
             "token": self.server.token.hex()},
            [widths[stream] for stream in sorted(widths)], self._on_line, self.events,
            self.parking,
        )  # fmt: skip
        longest_s = scenario.longest_s(self.log.total, self.spec.timeouts.life_s)
        self.run_limit = time.monotonic() + longest_s + SPARE_S
        self.prepared = True

    def play(self, usage: bool) -> None:
        """Drive the engine from start to stop; raises EngineFailure, KitStopped, OSError."""
        sampler = UsageSampler(self.folder, Reapers(self.folder))
        with sampler if usage else contextlib.nullcontext():
            self.engine.start(resume=False)
            if self.scenario.probes:
                self.engine.probe()
            self.publisher.start()
            self._follow()
        self.engine.finish()

    def _aim(self, step: FaultStep) -> Callable[[], dict[str, Any]]:
        """Find whom a step is meant for; see Deed."""
        links = step.target in ("source", "sink")
        return self.server.links.aim(step) if links else self.engine.aim(step)

    def _restart(self) -> None:
        """After the death of the engine: read its old connections to their end, start again."""
        self.drain = None
        self.engine.restart(self._read_to_the_end)

    def _read_to_the_end(self) -> None:
        self.server.hurry(True)
        # The thread that fired has still to note what it did.
        if not _wait(lambda: not self.faults.busy, SETTLE_S):
            raise KitStopped(f"a fault did not come to its end within {SETTLE_S} s")
        if not self.server.wait_idle(SETTLE_S):
            raise KitStopped(f"connections of a dead engine did not end within {SETTLE_S} s")
        self.faults.engine_died()
        self.server.hurry(False)

    # -- following the run -----------------------------------------------------

    def _follow(self) -> None:
        """Wait until all input is published, every fault fired and drain answered."""
        tick = threading.Event()
        while True:
            tick.wait(self.step_s)
            self._check_health()
            self.engine.strikes.undo_due()
            self._tell_progress()
            try:
                if self._step():
                    return
            except EngineFailure as failure:
                # A death that the kit brought about in the middle of a request is no failure.
                if not self.engine.killed and not self.engine.strikes.excuses(failure):
                    raise
                self.drain = None

    def _step(self) -> bool:
        """Do what is due; True when the run is over."""
        if self.faults.current and self.faults.current.at == "checkpoint":
            self._checkpoint_when_quiet()
        self._give_up_if_stuck()
        if self.drain is None:
            if self._drain_due():
                self._ask_drain()
            return False
        if not self.drain.done:
            if time.monotonic() > self._drain_deadline():
                self._drain_overdue()
            return False
        if self.faults.busy:
            return False  # a kill is under way: it comes before the end, not into it
        self._drained()
        self.drain = None
        return self.faults.fire_now("drained") is None and not self.engine.killed

    def _ask_drain(self) -> None:
        self.drain = self.engine.live.submit("drain")
        self.drain_asked = time.monotonic()
        self.events.add("drain-asked", published=self.log.published)
        if self.scenario.probes:
            self.engine.topology(self.spec.timeouts.drain_s)
            self.events.add("answered-while-draining")

    def _drain_due(self) -> bool:
        if self.engine.killed or self.engine.strikes.lasting:
            return False
        if time.monotonic() < self.drain_asked + ASK_AGAIN_S:
            return False  # it was refused in the wake of a fault
        if self.scenario.drain_at is not None:
            return self.log.published >= self.scenario.drain_at * self.log.total
        return self.log.ended

    def _drain_deadline(self) -> float:
        timeouts = self.spec.timeouts
        base = max(self.drain_asked, self.ended_at)
        if self._touched_at:
            base = max(base, self._touched_at + timeouts.recovery_s)
        if not self.ended_at:
            return float("inf")
        return base + timeouts.drain_s + self.sink.spent_s + self.server.links.spent_s

    @property
    def _touched_at(self) -> float:
        """When the last fault was carried out or undone, 0 before the first."""
        return max(self.engine.strikes.touched_at, self.server.links.touched_at)

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
        assert self.drain is not None
        self.drain.wait(0)  # raises where the end of the engine was the answer
        t_ns = self.drain.answered_ns
        self.events.add("drained", t_ns, **self.standing.at(t_ns))

    def _on_line(self, direction: str, line: str, t_ns: int) -> None:
        """Record a control line; an answer finds the state of the run in its moment."""
        if direction == "from":
            self.standing.note(t_ns)
        self.control.add(direction, line, t_ns)

    def _check_health(self) -> None:
        if self._stopped():
            raise KitStopped(self._stopped())
        if self.log.ended and not self.ended_at:
            self.ended_at = time.monotonic()
        if self.faults.failure is not None:
            raise self.faults.failure
        if self.recorder.records > ENDLESS_TIMES * self.log.total + ENDLESS_MORE:
            facts = f"{self.recorder.records:,} output records for {self.log.total:,} of input"
            raise EngineFailure(Code.ENDLESS, facts)
        if time.monotonic() > self.run_limit:
            raise EngineFailure(Code.TIME_LIMIT, "the run was not over at the limit of all limits")
        live = self.engine.live
        if self.engine.killed:
            if self.faults.busy or live.returncode is None:
                return
            self.events.add("exited", returncode=live.returncode)
            self._restart()
        elif live.returncode is not None:
            if not self.engine.killed:  # since the look above
                self.events.add("ended-unasked", returncode=live.returncode)
                raise live.exited()
        elif live.violations:
            raise live.violations[0]
        elif self._recovery_overdue():
            limit = self.spec.timeouts.recovery_s
            raise EngineFailure(
                Code.NO_RECOVERY, f"no FETCH within {limit:g} s of its death, with input left"
            )

    def _recovery_overdue(self) -> bool:
        # With everything released there is nothing that a recovered engine must fetch.
        late = time.monotonic() > self._touched_at + self.spec.timeouts.recovery_s
        return late and self.faults.recovering and self.log.released < self.log.published

    def _give_up_if_stuck(self) -> None:
        """A due fault whose moment never comes must not hold the input back for ever."""
        now = time.monotonic()
        outputs = min(self.recorder.records, self.log.total)
        position = self.log.fetched + self.log.published + outputs
        if position != self.moved:
            self.moved, self.moved_at = position, now
        step = self.faults.current
        quiet = now - max(self.moved_at, self._touched_at)
        if step is None or step.at == "drained" or self.engine.killed:
            return
        if quiet > self.spec.timeouts.recovery_s:
            self.faults.give_up("its moment did not come")

    def _checkpoint_when_quiet(self) -> None:
        """Ask for a checkpoint once everything published so far has come out again."""
        step = self.faults.current
        held = self.log.published
        if not self.publisher.held_back or self.recorder.records < held:
            return
        states = [list(state) for state in self.log.states()]
        if not self.engine.checkpoint():
            self.faults.give_up("the engine has no checkpoint op")
            return
        self.events.add("checkpointed", partitions=states)
        self.faults.fire_now(step.at)

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self.told_at >= self.progress_s:
            self.told_at = now
            self.events.add(
                "progress",
                served=self.log.fetched,
                outputs=self.recorder.records,
                published=self.log.published,
                released=self.log.released,
                rss=self.engine.rss_bytes(),
            )

    # -- the end ----------------------------------------------------------------

    def close(self, ended: dict[str, Any]) -> str:
        """End whatever is left, write the last run.json; return what stopped the kit, or "".

        What went wrong because the kit could not record is never the engine's failure.
        """
        left: list[Any] = []
        try:
            if self.prepared:
                left = self.engine.end()
                self.record.add(hello=self.engine.hello)
            self.stack.close()
            self.events.close()
            if stopped := self._stopped():
                ended = {"how": "kit-error", "message": stopped}
            self.record.over(ended, left, dict(self.events.counts))
        except OSError as error:
            return self._stopped() or f"recording into {self.folder} stopped: {error.strerror}"
        return ended["message"] if ended["how"] == "kit-error" else ""

    def _stopped(self) -> str:
        """Say why no more can be recorded, or served, or ""."""
        for failure in (part.failure for part in self.recording):
            if failure is not None:
                why = getattr(failure, "strerror", None) or repr(failure)
                return f"recording into {self.folder} stopped: {why}"
        return ""
