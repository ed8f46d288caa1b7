"""The loop of a run, from the first published record to the answer to drain.

Waits for conditions, each with a deadline of engine.toml, and never judges: an engine that
misses a deadline ends the run with that failure on record.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Final

from tickproof.conformance.engines.failures import Code
from tickproof.conformance.engines.process import EngineFailure, Pending
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.faults import moments
from tickproof.conformance.faults.moments import moment_of
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.kafka.completion import Completion
from tickproof.conformance.runner.checkpoints import Checkpoints
from tickproof.conformance.runner.live_run import STEP_S, LiveRun

PROGRESS_S: Final = 0.2
#: The same where latency is measured: each step takes the interpreter from the log server.
PACED_STEP_S: Final = 0.05
PACED_PROGRESS_S: Final = 1.0
#: More output than so many times the input and so much more is output without an end, in records
#: or in bytes.
ENDLESS_TIMES: Final = 20
ENDLESS_MORE: Final = 100_000
ENDLESS_BYTES: Final = 1 << 30
_TOO_LONG: Final = "the run was not over at the limit of all limits"
#: How long until drain is asked for again.
ASK_AGAIN_S: Final = 0.2


class RunLoop:
    """Does what is due in a run, step by step, until it is over."""

    def __init__(self, run: LiveRun) -> None:
        self._run, self._engine, self._faults = run, run.engine, run.faults
        self._log, self._recorder, self._events = run.log, run.recorder, run.events
        self._timeouts = run.spec.timeouts
        paced = run.scenario.pace is not None
        claims = run.spec.claims(run.scenario.app, run.scenario.params)
        self._delivers_once = claims.delivery == "exactly-once"
        self._step_s = PACED_STEP_S if paced else STEP_S
        self._progress_s = PACED_PROGRESS_S if paced else PROGRESS_S
        #: The request drain while it is under way, and when it was sent last.
        self._drain: Pending | Completion | None = None
        self._drain_asked = 0.0
        #: Many of them, None where they are not asked for, or no more.
        self._checkpoints = Checkpoints(run) if run.scenario.checkpoints else None
        #: When END was published, 0 before.
        self._ended_at = 0.0
        #: When an engine that had died was last seen to have nothing to fetch.
        self._nothing_left_at = 0.0
        #: The sum of all positions, and when it last changed.
        self._position, self._moved_at = -1, 0.0
        self._progress_at = 0.0
        #: The step with a burst before which there was a look.
        self._looked_before: FaultStep | None = None

    def run_until_drained(self) -> None:
        """Wait until all input is published, every fault fired and drain answered.

        Raises EngineFailure, KitStopped, OSError.
        """
        pause = threading.Event()
        while True:
            pause.wait(self._step_s)
            if self.tick():
                return

    def tick(self) -> bool:
        """Do what is due now; True when the run is over. Raises as `run_until_drained`."""
        self._check_health()
        self._engine.injector.end_due()
        self._record_progress()
        try:
            return self._step()
        except EngineFailure as failure:
            if not self._excused(failure):
                raise
            self._forget_drain()
            return False

    def _excused(self, failure: BaseException) -> bool:
        """Say whether it comes of a death that the kit brought about."""
        engine = self._engine
        return isinstance(failure, EngineFailure) and (
            engine.killed or engine.injector.excuses(failure)
        )

    def _step(self) -> bool:
        """Do what is due; True when the run is over."""
        if self._faults.moment in (moments.CHECKPOINTING, moments.CHECKPOINT):
            self._checkpoint_when_quiet()
        if self._checkpoints and not self._checkpoints.step():
            self._checkpoints = None
        self._hear_of_scales()
        self._look_before_a_burst()
        self._faults.fire_if_idle(lambda: self._run.publisher.held_back)
        self._give_up_if_stuck()
        if self._drain is None:
            if not self._drain_due():
                return False
            self._ask_drain()
            return self._run.scenario.ending == "stop-in-drain"
        if not self._drain.done:
            if self._engine.injector.coordinator_died_at > self._drain_asked:
                self._forget_drain()  # who had taken the request is gone
                return False
            if isinstance(self._drain, Pending):
                self._expect_drained(self._drain)
            return False
        if self._faults.busy:
            return False  # a kill is under way: it comes before the end, not into it
        self._drained(self._drain)
        self._forget_drain()
        self._look_at_the_end()
        self._give_up_what_is_left()
        return self._faults.fire_now(moments.DRAINED) is None and not self._engine.killed

    def _hear_of_scales(self) -> None:
        """Take the answers to scales; a fault that was to come before the answer is too late."""
        if self._engine.killed:
            return
        step = self._faults.current
        scaled = self._engine.hear_of_scales(self._run.fault_changed_at)
        if (
            scaled
            and step is not None
            and moment_of(step) is moments.SCALING
            and not self._faults.busy
        ):
            self._faults.give_up("the scale was answered before", step)

    def _look_before_a_burst(self) -> None:
        """See who works before a backlog is made: a look takes a while, in which one shrinks."""
        step = self._faults.current
        if step is None or not step.burst or step is self._looked_before:
            return
        if self._log.fetched >= step.fraction * self._log.total / 2:
            self._looked_before = step
            self._engine.look()

    def _record_progress(self) -> None:
        now = time.monotonic()
        if now - self._progress_at >= self._progress_s:
            self._progress_at = now
            self._events.add(
                EventKind.PROGRESS,
                served=self._log.fetched,
                outputs=self._recorder.records,
                published=self._log.published,
                released=self._log.released,
                rss=self._engine.rss_bytes(),
            )

    # -- drain -----------------------------------------------------------------

    def _drain_due(self) -> bool:
        injector = self._engine.injector
        if self._engine.killed or injector.lasting or injector.scaling.under_way:
            return False
        if self._run.network_faults.lasting:
            return False
        if time.monotonic() < self._drain_asked + ASK_AGAIN_S:
            return False  # it was refused in the aftermath of a fault
        if self._faults.moment is moments.DRAINING:
            return self._run.publisher.held_back
        drain_at = self._run.scenario.drain_at
        if drain_at is not None:
            return self._log.published >= drain_at * self._log.total
        return self._log.ended

    def _ask_drain(self) -> None:
        self._drain = self._engine.drain()
        self._drain_asked = time.monotonic()
        self._run.draining = True
        self._events.add(EventKind.DRAIN_ASKED, published=self._log.published)
        if self._run.scenario.probes:
            self._engine.topology(self._timeouts.drain_s)
            self._events.add(EventKind.ANSWERED_WHILE_DRAINING)

    def _forget_drain(self) -> None:
        self._drain = None
        self._run.draining = False

    def _expect_drained(self, drain: Pending) -> None:
        """Expect an answer to drain in time; raises EngineFailure."""
        if not self._ended_at:
            return
        base = max(self._drain_asked, self._ended_at)
        if changed_at := self._run.fault_changed_at:
            base = max(base, changed_at + self._timeouts.recovery_s)
        slowed_s = self._run.sink.spent_s + self._run.server.links.spent_s
        limit_s = self._timeouts.drain_s + slowed_s
        if not self._run.clock.overdue(base, limit_s, "no answer to drain"):
            return
        try:
            drain.wait(0)
        except EngineFailure as failure:
            if failure.code != "NO_ANSWER":
                raise
            limit = self._timeouts.drain_s
            raise EngineFailure(
                failure.code,
                f"no answer to drain within {limit:g} s of END and the request",
                failure.stderr_tail,
            ) from failure

    def _drained(self, drain: Pending | Completion) -> None:
        drain.wait(0)  # raises where the end of the engine was the answer
        if isinstance(drain, Completion) and not drain.back():
            return  # nobody has come back who could have drained
        t_ns = drain.answered_ns
        self._events.add(EventKind.DRAINED, t_ns, **self._run.snapshots.at(t_ns))

    def _look_at_the_end(self) -> None:
        """See who did the work, and whom the engine names now that there is some to see."""
        self._engine.look()
        if self._run.scenario.probes:
            self._engine.topology(self._timeouts.drain_s)

    # -- the health of kit and engine -------------------------------------------

    def _check_health(self) -> None:
        if reason := self._run.stop_reason():
            raise KitStopped(reason)
        if self._log.ended and not self._ended_at:
            self._ended_at = time.monotonic()
        if (failure := self._faults.failure) is not None:
            if not self._excused(failure):
                raise failure
            self._faults.failure = None  # a later fault met the aftermath of one before
        self._expect_an_end()
        if self._out_of_time():
            if self._run.recorder_behind:
                raise KitStopped("the recorder was behind the output at the limit of all limits")
            raise EngineFailure(Code.TIME_LIMIT, _TOO_LONG)
        process = self._engine.process
        if self._engine.killed:
            down = time.monotonic() < self._engine.injector.down_until
            down |= self._run.network_faults.lasting  # started now, it might reach nobody
            if self._faults.busy or process.returncode is None or down:
                return
            self._events.add(EventKind.EXITED, returncode=process.returncode)
            self._forget_drain()
            self._run.restart_engine()
        elif process.returncode is not None:
            if not self._engine.killed:  # a fault may have killed it since the check above
                self._events.add(EventKind.ENDED_UNASKED, returncode=process.returncode)
                raise process.exited()
        elif process.violations:
            raise process.violations[0]
        elif self._recovery_overdue():
            raise self._no_recovery("no FETCH")

    def _out_of_time(self) -> bool:
        """Say whether the run takes too long; raises EngineFailure for one that still goes on."""
        clock, began_at, limit_s = self._run.clock, self._run.began_at, self._run.longest_s
        over = clock.overdue(began_at, limit_s, _TOO_LONG)
        stands = clock.still_s(began_at) >= self._timeouts.recovery_s
        return over or (clock.fair_s(began_at) > limit_s and stands)

    def _expect_an_end(self) -> None:
        recorder, log = self._recorder, self._log
        for found, given, more, what in (
            (recorder.records, log.total, ENDLESS_MORE, "records"),
            (recorder.bytes, log.bytes, ENDLESS_BYTES, "bytes, staged ones among them,"),
        ):
            if found > ENDLESS_TIMES * given + more:
                raise EngineFailure(Code.ENDLESS, f"{found:,} output {what} for {given:,} of input")

    def _no_recovery(self, what: str) -> EngineFailure:
        limit = self._timeouts.recovery_s
        return EngineFailure(
            Code.NO_RECOVERY, f"{what} within {limit:g} s of a death, with input left"
        )

    def _recovery_overdue(self) -> bool:
        # With everything released there is nothing that a recovered engine must fetch.
        if not self._faults.recovering or self._log.released >= self._log.published:
            self._nothing_left_at = time.monotonic()
            return False
        since = max(self._run.fault_changed_at, self._nothing_left_at)
        limit_s = self._timeouts.recovery_s
        return self._run.clock.overdue(since, limit_s, "no FETCH after a death")

    # -- faults that wait for their moment --------------------------------------

    def _give_up_if_stuck(self) -> None:
        """A due fault whose moment never comes must not hold the input back for ever."""
        now = time.monotonic()
        outputs = min(self._recorder.records, self._log.total)
        position = self._log.fetched + self._log.published + outputs
        if position != self._position:
            self._position, self._moved_at = position, now
        step = self._faults.current
        if step is None or moment_of(step) is moments.DRAINED or self._engine.killed:
            return
        quiet_s = self._run.clock.fair_s(max(self._moved_at, self._run.fault_changed_at))
        silent = quiet_s > self._silent_s and self._log.fetched >= self._log.published > 0
        if silent and self._faults.stop_awaiting_output():
            self._moved_at = now
            return
        if quiet_s > self._timeouts.recovery_s + step.idle_s:
            if self._faults.nobody_came_back:
                raise self._no_recovery("nothing fetched")
            self._faults.give_up("its moment did not come")

    def _give_up_what_is_left(self) -> None:
        """Drain was answered: no step but one that waits for that can have its moment yet."""
        while (step := self._faults.current) and moment_of(step) is not moments.DRAINED:
            self._faults.give_up("its moment did not come", step)
            if self._faults.current is step:  # it is being carried out after all
                return

    @property
    def _silent_s(self) -> float:
        """After how long a silence an engine that could say something has nothing to say."""
        return min(self._timeouts.cut_s, self._timeouts.recovery_s / 2)

    def _checkpoint_when_quiet(self) -> None:
        """Ask for a checkpoint once everything published so far was processed."""
        if not self._run.publisher.held_back or not self._processed():
            return
        if self._run.scaling:  # its answer is about the workers that there are then
            return
        states = [list(state) for state in self._log.states()]
        struck = self._faults.moment is moments.CHECKPOINTING
        asked: list[Pending] = []
        if struck:
            # No cut ends before the strike, as long as output that it waits for has no answer. To
            # find whom it strikes may take longer than that.
            self._run.sink.held = held = Future[bool]()
            try:
                self._faults.fire_now(
                    moments.CHECKPOINTING, lambda: asked.append(self._engine.ask_checkpoint())
                )
            finally:
                held.set_result(True)
            if not asked:
                return  # nobody was there to strike
        else:
            asked.append(self._engine.ask_checkpoint())
        try:
            asked[0].wait(self._timeouts.drain_s)
        except EngineFailure as failure:
            if failure.code != Code.REFUSED:
                raise
            # Who lost a worker over it may say no. To have no such op needs no excuse, either.
            if not struck:
                self._faults.give_up("the engine has no checkpoint op")
            return
        self._events.add(EventKind.CHECKPOINTED, asked[0].answered_ns, partitions=states)
        self._faults.fire_now(moments.CHECKPOINT)

    def _processed(self) -> bool:
        """Say whether all that is published was processed, as far as it can be told."""
        published = self._log.published
        # After a death those come twice of whoever delivers at least once.
        if self._run.app.one_each and (self._delivers_once or not self._run.fault_changed_at):
            return self._recorder.records >= published
        # Where output does not tell: what is released was processed, and silence says so, too.
        silent = self._run.clock.fair_s(self._moved_at) > self._silent_s
        return self._log.released >= published or (silent and self._log.fetched >= published)
