"""Controller and run loop as a state machine: any engine, any order, and every run comes to an end.

Time is a clock that only moves when it is read or told to; a run is played in milliseconds.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.faults.bench import TOTAL, Bench, until
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.fault_steps import (
    CorruptStep,
    FillStep,
    KillEngineStep,
    KillStep,
    PauseStep,
    RescaleStep,
    ScaleStep,
)
from tickproof.conformance.faults import controller, flight
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.schedule_file import out_of_place
from tickproof.conformance.runner import run_loop

#: Ticks of the loop in which a run with an engine that works has to be over.
MOST_TICKS = 3_000
#: Moments that come only once a part of the input was fetched.
OF_INPUT = ("fetched", "losing", "staged", "accepted", "committing", "draining")


class Clock:
    """Stands in for the module time."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        self.now += 0.001
        return self.now

    def monotonic_ns(self):
        return int(self.monotonic() * 1e9)

    # of a FairClock
    def fair_s(self, since):
        return self.now - since

    def overdue(self, base, limit_s, _what):
        return self.now > base + limit_s

    def still_s(self, _since):
        return 0.0


class Answer:
    """A request to the engine. ``outcome``: an EngineFailure where it was refused."""

    def __init__(self, failure=None):
        self.failure, self.done, self.answered_ns = failure, False, 0

    def wait(self, _timeout_s):
        if self.failure:
            raise self.failure


class Engine:
    """An engine that does what it is told to: the engine of the loop, and its injector."""

    def __init__(self, clock, bench):
        self.clock, self.bench = clock, bench
        bench.connections = 1
        self.killed = self.lasting = False
        self.injector = self.scaling = self
        self.down_until = self.coordinator_died_at = 0.0
        self.process = SimpleNamespace(returncode=None, violations=[])
        self.asked = None
        self.checkpoints = True

    @property
    def under_way(self):
        return self.bench.scaling

    @under_way.setter
    def under_way(self, yes):
        self.bench.scaling = yes

    def end_due(self):
        pass

    def excuses(self, _failure):
        return False

    def rss_bytes(self):
        return 0

    def look(self):
        pass

    def drain(self):
        self.asked = Answer()
        return self.asked

    def ask_checkpoint(self):
        refused = EngineFailure(Code.REFUSED, "there is no such op")
        return Answer(None if self.checkpoints else refused)

    def hear_of_scales(self, _fault_at):
        answered, self.under_way = self.under_way and not self.answers_late, False
        return answered

    answers_late = False


class Run:
    """A run of a schedule: controller and loop as they are, all else as the test has it."""

    def __init__(self, schedule, one_each=False):
        self.clock, self.schedule = Clock(), tuple(schedule)
        self.bench = Bench(schedule, rate=None, deed=self.deed, one_each=one_each)
        self.log, self.faults = self.bench.log, self.bench.controller
        self.engine = Engine(self.clock, self.bench)
        self.cuts = 0
        self.log.cuts = lambda: [self.cuts]
        self.log.bytes, self.log.ended = TOTAL, False
        self.recorder = self.faults._recorder
        self.recorder.bytes = 0
        self.events = SimpleNamespace(
            add=lambda kind, *_, **fields: self.bench.note(kind, **fields)
        )
        self.spec = SimpleNamespace(
            timeouts=SimpleNamespace(cut_s=6.0, recovery_s=10.0, drain_s=5.0),
            claims=lambda *_: SimpleNamespace(delivery="at-least-once"),
        )
        self.scenario = SimpleNamespace(
            ending="stop",
            app="count",
            params={},
            pace=None,
            drain_at=None,
            probes=False,
            checkpoints=0,
        )
        self.scaling = False
        self.app = SimpleNamespace(one_each=one_each)
        self.publisher = SimpleNamespace(held_back=False)
        self.network_faults = SimpleNamespace(lasting=False)
        self.sink = SimpleNamespace(spent_s=0.0)
        self.server = SimpleNamespace(links=SimpleNamespace(spent_s=0.0))
        self.snapshots = SimpleNamespace(at=lambda _t_ns: {})
        self.began_at, self.longest_s = self.clock.now, 1e9
        self.recorder_behind = False
        self.fault_changed_at = 0.0
        self.loop = run_loop.RunLoop(self)
        self.over = False

    def stop_reason(self):
        return ""

    def restart_engine(self):
        until(lambda: not self.faults.busy)
        self.faults.engine_died()
        self.engine.killed, self.engine.process.returncode = False, None
        self.engine.under_way = False
        self.bench.connections += 1
        self.bench.note("restarted")

    def deed(self, step):
        self.bench.done.append(step)
        if step.at in OF_INPUT:
            assert self.log.fetched > min(int(step.fraction * TOTAL), TOTAL - TOTAL // 4 - 1)
        if step.at == "draining":
            assert self.engine.asked and not self.engine.asked.done
        if step.at == "scaling":
            assert self.engine.under_way

        def strike():
            self.fault_changed_at = self.clock.monotonic()
            if fault_of(step).ends_engine:
                self.engine.killed, self.engine.process.returncode = True, -9
                self.engine.asked = None
            self.engine.under_way |= step.do == "scale"
            return {"pids": [1]}

        return strike

    # -- what the kit does

    def publish(self, due):
        self.log.published = max(self.log.published, self.faults.limit(due))
        self.publisher.held_back = self.faults.limit(TOTAL) <= self.log.published < TOTAL
        self.log.ended = self.log.published == TOTAL

    @property
    def draining(self):
        return self.bench.draining

    @draining.setter
    def draining(self, yes):
        self.bench.draining = yes

    def tick(self):
        self.over = self.over or self.loop.tick()
        until(lambda: not self.faults.busy)

    # -- what the engine does

    def observe(self, moment):
        """Come to a moment; True where the frame counts as never sent, or nobody is left."""
        if self.engine.killed:
            return True
        lost = self.bench.observe(moment, self.bench.connections)
        until(lambda: not self.faults.busy)
        return lost or self.engine.killed

    def fetch(self, records):
        self.log.fetched = min(self.log.published, self.log.fetched + records)
        return self.observe("fetched")

    def send(self):
        if self.observe("append-received"):
            return True
        self.recorder.records = max(self.recorder.records, self.log.fetched)
        return self.observe("appended") or self.observe("append-acked")

    def release(self):
        if not self.engine.killed:
            self.cuts += self.log.released < self.log.fetched
            self.log.released = self.log.fetched

    def answer_drain(self):
        asked = self.engine.asked
        if asked and self.log.ended and not self.engine.killed:
            asked.done, asked.answered_ns = True, self.clock.monotonic_ns()

    def finish(self):
        """Go on with an engine that does all that it has to, until the run is over."""
        self.engine.checkpoints, self.engine.answers_late = True, False
        for _ in range(MOST_TICKS):
            if self.over:
                return
            self.publish(TOTAL)
            self.fetch(5_000) or self.send() or self.release()
            self.answer_drain()
            self.tick()
            self.clock.now += 0.05
        raise AssertionError(f"not over: {self.faults.current}, {vars(self.log)}")

    # -- what always holds

    def check(self):
        fired, missed = self.bench.named("fault"), self.bench.named("fault-missed")
        numbers = [one["number"] for one in fired]
        assert numbers == sorted(set(numbers))
        used = len(fired) + len(missed)
        left = used < len(self.schedule)
        assert (self.faults.current is not None) is left
        for one in fired:
            step = self.schedule[one["number"]]
            assert (one["step"]["do"], one["step"]["target"]) == (step.do, step.target)
            assert one["text"].split(" of ")[0] == str(fault_of(step)).split(" of ")[0]
        assert self.log.published <= TOTAL
        assert not self.faults.busy
        assert self.faults.failure is None


@contextmanager
def in_its_time(run):
    """Let controller and loop live by the clock of a run."""
    with ExitStack() as patches:
        for module in (controller, flight, run_loop):
            patches.enter_context(patch.multiple(module, time=run.clock))
        yield


@st.composite
def schedules(draw, most=4):
    """Draw steps that make sense one after the other."""
    found = []
    places = sorted(draw(st.lists(st.floats(0.05, 0.85), min_size=1, max_size=most)))
    for place in places:
        kind, given = draw(st.sampled_from((
            (KillStep, {"target": "worker"}), (KillEngineStep, {}),
            (PauseStep, {"target": "worker", "seconds": 0.0}),
            (PauseStep, {"target": "engine", "seconds": 0.0}),
            (KillStep, {"target": "coordinator"}), (KillStep, {"target": "workers"}),
            (ScaleStep, {"workers": 3}), (RescaleStep, {"workers": 3}), (CorruptStep, {}),
            (FillStep, {"seconds": 0.0}),
        )))  # fmt: skip
        step = kind(
            draw(st.sampled_from((
                "fetched", "fetched", "losing", "staged", "accepted", "committing", "recovery",
                "checkpointing", "checkpoint", "drained", "cuts", "idle", "draining", "scaling",
            ))),
            fraction=round(place, 3),
            burst=draw(st.sampled_from((0, 0, 2_000))),
            delay_s=draw(st.sampled_from((0.0, 0.0, 0.001))),
            cut=draw(st.booleans()),
            cuts=draw(st.integers(0, 3)),
            idle_s=draw(st.sampled_from((0.2, 1.0))),
            **given,
        )  # fmt: skip
        if not out_of_place(step, found):
            found.append(step)
    return found


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.booleans())
def test_with_an_engine_that_works_every_run_ends(schedule, one_each):
    run = Run(schedule, one_each)
    with in_its_time(run):
        run.finish()
    run.check()
    # Where this machine lets a fault of a scale wait, the engine has answered meanwhile.
    late = {"the scale was answered before"} if any(s.at == "scaling" for s in schedule) else set()
    missed = {one["why"] for one in run.bench.named("fault-missed")}
    assert missed <= {"its moment did not come"} | late


def test_a_step_that_is_left_at_the_end_is_noted():
    """The engine keeps its connections over a death: all is drained before it counts as back."""
    death = KillStep("fetched", target="worker", fraction=0.5)
    run = Run([death, replace(death, at="cuts", burst=2_000)])
    with in_its_time(run):
        run.finish()
    assert len(run.bench.named("fault")) == 1
    assert [one["why"] for one in run.bench.named("fault-missed")] == ["its moment did not come"]
    run.check()


class AnyEngine(RuleBasedStateMachine):
    """An engine that works, stands still, emits nothing or dies as it likes."""

    @initialize(schedule=schedules(), one_each=st.booleans())
    def begin(self, schedule, one_each):
        self.run = Run(schedule, one_each)
        self.patches = ExitStack()
        self.patches.enter_context(in_its_time(self.run))

    @rule(due=st.integers(0, TOTAL))
    def publish(self, due):
        self.run.publish(due)

    @rule(records=st.sampled_from((1, 500, 20_000)))
    def fetch(self, records):
        self.run.fetch(records)

    @rule()
    def send(self):
        self.run.send()

    @rule()
    def release(self):
        self.run.release()

    @rule()
    def drain(self):
        self.run.answer_drain()

    @rule(seconds=st.sampled_from((0.01, 0.3, 1.5)))
    def wait(self, seconds):
        self.run.clock.now += seconds

    @rule(yes=st.booleans())
    def offer_checkpoints(self, yes):
        self.run.engine.checkpoints = yes

    @rule(late=st.booleans())
    def answer_scales_late(self, late):
        self.run.engine.answers_late = late

    @rule()
    def tick(self):
        self.run.tick()

    @rule()
    def give_up(self):
        self.run.faults.give_up("tired")

    @invariant()
    def holds(self):
        if hasattr(self, "run"):
            self.run.check()

    def teardown(self):
        if hasattr(self, "run"):
            try:
                self.run.finish()
                self.run.check()
                assert self.run.faults.current is None
            finally:
                self.patches.close()


TestAnyEngine = AnyEngine.TestCase
TestAnyEngine.settings = settings(
    deadline=None, max_examples=20, stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
