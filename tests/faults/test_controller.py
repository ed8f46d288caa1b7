"""The fault controller: steps in order, each once, at the moments that they wait for."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.bench import DEADLINE_S, FIRST_CUT_S, TOTAL, Bench, schedules, steps, until
from tickproof.conformance.fault_steps import (
    CorruptStep,
    FaultStep,
    KillEngineStep,
    KillLeaderStep,
    KillStep,
    PauseLeaderStep,
    PauseStep,
)
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.moments import CHECKPOINT, CHECKPOINTING, DRAINED
from tickproof.conformance.history.event import PartitionState

SEEN_AS = {"fetched": "fetched", "recovery": "fetched", "accepted": "append-acked",
           "committing": "committed"}  # fmt: skip
FAR = ((10, 10), (10, 0), (0, 0))  # how far partitions were fetched, and released


@settings(deadline=None)
@given(
    schedules,
    st.lists(
        st.tuples(
            st.sampled_from([*SEEN_AS.values(), "drained", "checkpoint", "give up"]),
            st.integers(0, 5_000),
            st.integers(1, 5),
        ),
        max_size=60,
    ),
)
def test_steps_fire_in_order_each_once(schedule, moments):
    bench = Bench(schedule)
    given_up = []
    for moment, more, connection in moments:
        bench.log.fetched = min(TOTAL, bench.log.fetched + more)
        if moment == "give up":
            given_up += [bench.controller.current] if bench.controller.current else []
            bench.controller.give_up("tired")
        elif moment in ("drained", "checkpoint"):
            bench.controller.fire_now({one.name: one for one in (DRAINED, CHECKPOINT)}[moment])
        else:
            bench.observe(moment, connection)
    # A schedule is used up from its front: what fired and what was given up, in order.
    used = len(bench.done) + len(given_up)
    left = iter(schedule[:used])
    assert all(any(step is other for other in left) for step in bench.done)
    assert bench.controller.current == (schedule[used] if used < len(schedule) else None)
    assert [fields["step"] for fields in bench.named("fault")] == [s.to_json() for s in bench.done]
    assert len(bench.named("fault-missed")) == len(given_up)


def test_a_request_that_a_strike_follows_is_sent_once_its_victim_is_known():
    done = []

    def deed(_step):
        done.append("found")
        return lambda: done.append("struck") or {"pids": [1]}

    bench = Bench([KillStep("checkpointing", target="workers")], deed=deed)
    bench.controller.fire_now(CHECKPOINTING, lambda: done.append("asked"))
    assert done == ["found", "asked", "struck"]


def test_a_fault_after_an_answer_comes_as_late_as_it_says():
    bench = Bench([KillEngineStep("drained", delay_s=0.05)])
    began = time.monotonic()
    bench.controller.fire_now(DRAINED)
    assert bench.done and time.monotonic() - began >= 0.05


def test_a_request_that_a_strike_follows_is_not_sent_where_nobody_is_left():
    done = []

    def deed(_step):
        raise LookupError("nobody")

    bench = Bench([KillStep("checkpointing", target="workers")], deed=deed)
    bench.controller.fire_now(CHECKPOINTING, lambda: done.append("asked"))
    assert not done and bench.named("fault-missed")


@pytest.mark.parametrize(("at", "moment"), sorted(SEEN_AS.items()))
def test_a_connection_is_held_from_the_moment_of_an_aimed_step_until_it_is_carried_out(at, moment):
    strike = threading.Event()

    def deed(step):
        bench.deed(step)
        return lambda: {"pids": [1]} if strike.wait(DEADLINE_S) else {}

    step = KillEngineStep(at, fraction=0.5)
    bench = Bench([step], deed=deed)
    bench.log.fetched = TOTAL // 2
    for other in {"staged", "commit-acked", *SEEN_AS.values()} - {moment}:
        assert bench.controller.observe(other, 1) is None
    if at != "recovery":
        assert bench.controller.observe(moment, 1) is None
        assert bench.done == []  # one record short of its part of the input
    bench.log.fetched += 1
    carried_out = bench.controller.observe(moment, 1)
    until(lambda: bench.done)
    assert bench.done == [step]
    assert bench.controller.busy
    assert not carried_out.done()
    assert bench.controller.observe(moment, 2) is None  # it is under way
    strike.set()
    assert carried_out.result(DEADLINE_S) is False
    assert not bench.controller.busy
    assert bench.controller.observe(moment, 1) is None
    assert bench.done == [step]


@pytest.mark.parametrize("grace_s", [0.0, 10.0])
def test_what_an_engine_that_is_told_to_end_sends_is_answered(grace_s):
    """Whoever holds its connection finds out nothing of what it does before its end."""
    strike = threading.Event()
    step = KillEngineStep("accepted", fraction=0.5, grace_s=grace_s)
    bench = Bench([step], deed=lambda _: lambda: {"pids": [1]} if strike.wait(DEADLINE_S) else {})
    bench.log.fetched = TOTAL // 2 + 1
    held = bench.controller.observe("stage-acked", 1)
    assert (held is None) is bool(grace_s)
    assert bench.controller.busy
    strike.set()
    until(lambda: not bench.controller.busy)


def test_a_step_waits_for_what_is_on_its_way_back():
    step = KillLeaderStep("fetched", fraction=0.5)
    bench = Bench([step])
    bench.log.fetched, bench.on_its_way = TOTAL // 2 + 1, True
    assert bench.observe("fetched", 1) is False
    assert bench.controller.limit(TOTAL) == TOTAL // 2  # its moments come later
    bench.on_its_way = False
    assert bench.controller.limit(TOTAL) > TOTAL // 2
    bench.observe("fetched", 2)
    assert bench.done == [step]


@pytest.mark.parametrize(
    "step",
    [
        KillLeaderStep("accepted", fraction=0.2, alone_s=1.0),
        KillLeaderStep("accepted", fraction=0.2, grace_s=1.0),
        PauseLeaderStep("accepted", fraction=0.2, seconds=1.0),
    ],
    ids=["alone", "hands over", "stands still"],
)
def test_output_reaches_a_leader_before_others_lead(step):
    strike = threading.Event()

    def deed(step):
        bench.deed(step)
        return lambda: {"pids": []} if strike.wait(DEADLINE_S) else {}

    bench = Bench([step], rate=1_000, deed=deed)
    bench.log.fetched = bench.log.published = bench.log.released = TOTAL // 2
    assert bench.controller.observe("append-acked", 1) is None
    until(lambda: bench.done)
    assert bench.controller.limit(TOTAL) > TOTAL // 2
    strike.set()
    until(lambda: bench.named("fault"))


def test_no_connection_is_held_where_latency_is_measured():
    strike = threading.Event()
    step = KillEngineStep("fetched")
    deed = lambda _step: lambda: {"pids": [1]} if strike.wait(DEADLINE_S) else {}  # noqa: E731
    bench = Bench([step], deed=deed, holds_connections=False)
    bench.log.fetched = 1
    assert bench.controller.observe("fetched", 1) is None
    assert bench.controller.busy
    strike.set()
    until(lambda: bench.named("fault"))


def test_recovery_step_waits_for_a_connection_opened_after_the_fault():
    first = KillEngineStep("fetched")
    bench = Bench([first, KillEngineStep("recovery")])
    bench.connections = 4
    bench.log.fetched = 1
    bench.observe("fetched", 2)
    for connection in (1, 4):
        bench.observe("fetched", connection)
    assert bench.done == [first]
    assert bench.named("recovered") == []
    bench.observe("fetched", 5)
    assert len(bench.done) == 2
    assert bench.named("recovered") == [{"connection": 5}]


def test_after_the_death_of_a_coordinator_a_fetch_is_due_only_once_all_are_dead():
    """argv's process may live on: nobody can tell then whose FETCH it is."""
    bench = Bench([KillStep("fetched", target="coordinator")])
    bench.log.fetched = 1
    bench.observe("fetched", 1)
    assert len(bench.done) == 1
    assert not bench.controller.recovering
    bench.connections = 3
    bench.controller.engine_died()
    assert bench.controller.recovering
    bench.observe("fetched", 3)  # a connection of the dead engine
    assert bench.controller.recovering
    bench.observe("fetched", 4)
    assert not bench.controller.recovering
    assert bench.named("recovered") == [{"connection": 4}]


@pytest.mark.parametrize(
    "first",
    [KillStep("fetched", target="worker"), PauseStep("fetched", target="worker", seconds=0.0)],
)
def test_nobody_came_back_where_a_death_was_the_end_of_fetching(first):
    bench = Bench([first, KillStep("fetched", target="worker")])
    bench.log.published = TOTAL
    assert not bench.controller.nobody_came_back
    bench.log.fetched = 1
    bench.observe("fetched", 1)
    assert bench.controller.nobody_came_back == isinstance(first, KillStep)
    bench.log.fetched = 2
    assert not bench.controller.nobody_came_back


def test_losing_step_fires_before_its_frame_has_any_effect_and_says_so():
    bench = Bench([KillEngineStep("losing", delay_s=0.001)])
    bench.log.fetched = 10
    assert not bench.observe("appended", 1)
    assert bench.observe("append-received", 1) is True
    assert len(bench.named("fault")) == 1
    assert bench.observe("append-received", 1) is False


def test_first_fault_waits_for_a_cut_where_its_step_asks_for_one():
    bench = Bench([KillEngineStep("fetched", fraction=0.5, cut=True)])
    bench.log.fetched = TOTAL
    assert bench.controller.limit(TOTAL) == TOTAL // 2
    bench.observe("fetched", 1)
    assert bench.done == []
    bench.log.released = 1
    assert bench.controller.limit(TOTAL) > TOTAL // 2
    bench.observe("fetched", 1)
    assert len(bench.done) == 1


@pytest.mark.parametrize("damage", ["missing", "half"])
def test_before_a_file_is_removed_each_partition_that_was_read_is_cut(damage):
    bench = Bench([CorruptStep("fetched", cut=True, damage=damage)])
    bench.log.fetched, bench.log.released = 20, 10
    cut, read, unread = (PartitionState(0, n, 10, 10, *far) for n, far in enumerate(FAR))
    bench.log.states = lambda: [cut, read, unread]
    bench.observe("fetched", 1)
    assert bool(bench.done) is (damage != "missing")
    bench.log.states = lambda: [cut, read._replace(released=1), unread]
    bench.observe("fetched", 1)
    assert len(bench.done) == 1


@pytest.mark.parametrize(("took_s", "wait_s"), [(0.0, FIRST_CUT_S), (60.0, 60.0)])
def test_no_wait_for_a_cut_is_shorter_than_the_way_to_its_step(monkeypatch, took_s, wait_s):
    bench = Bench([KillEngineStep("fetched", fraction=0.5, cut=True)])
    moment = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    bench.controller.limit(TOTAL)  # it still starts
    moment += took_s
    bench.log.fetched = TOTAL
    bench.controller.limit(TOTAL)
    for more_s, fires in ((0.9 * wait_s, False), (0.2 * wait_s, True)):
        moment += more_s
        bench.observe("fetched", 1)
        assert bool(bench.done) is fires


def test_delayed_step_waits_until_something_is_in_flight():
    bench = Bench([KillEngineStep("fetched", delay_s=0.001)])
    bench.log.fetched = bench.log.released = 10
    bench.observe("fetched", 1)
    assert bench.controller.busy
    assert bench.named("fault") == []
    bench.log.fetched = 11
    until(lambda: not bench.controller.busy)
    assert len(bench.named("fault")) == 1


@pytest.mark.parametrize(
    ("one_each", "moment"),
    [(True, "append-received"), (True, "commit-received"), (False, "fetched")],
)
def test_delayed_step_that_finds_nothing_in_flight_is_put_off_to_input_anew(one_each, moment):
    step = KillEngineStep("fetched", fraction=0.5, delay_s=0.001)
    bench = Bench([step], rate=1e6, one_each=one_each)
    done = TOTAL // 2 + 1
    bench.log.fetched = bench.log.released = bench.controller._recorder.records = done
    assert bench.controller.limit(TOTAL) == TOTAL
    assert bench.controller.observe("fetched", 1) is None
    # Something is kept back, so that a next fetch can come.
    assert bench.controller.limit(TOTAL) < TOTAL
    until(lambda: not bench.controller.busy)
    assert bench.named("fault") == []
    assert bench.controller.limit(TOTAL) == TOTAL
    bench.log.fetched += 1
    if one_each:
        assert bench.controller.observe("fetched", 1) is None
        assert not bench.controller.busy
    assert bench.controller.observe(moment, 1).result(DEADLINE_S) is False
    until(lambda: not bench.controller.busy)
    assert len(bench.named("fault")) == 1


def test_delayed_step_fires_at_last_where_no_fetch_can_come():
    bench = Bench([KillEngineStep("fetched", delay_s=0.001)])
    bench.log.fetched = bench.log.released = TOTAL
    bench.observe("fetched", 1)
    until(lambda: not bench.controller.busy)
    assert len(bench.named("fault")) == 1


def test_missing_victim_is_a_missed_fault_and_the_input_goes_on():
    def deed(_step):
        raise LookupError("topology names no living worker")

    bench = Bench([KillStep("fetched", target="worker", fraction=0.2)], deed=deed)
    assert bench.controller.limit(TOTAL) < TOTAL
    bench.log.fetched = TOTAL // 2
    bench.observe("fetched", 1)
    assert bench.named("fault-missed")[0]["why"] == "topology names no living worker"
    assert bench.controller.limit(TOTAL) == TOTAL
    assert not bench.controller.busy


def test_failure_in_a_deed_reaches_the_runner_and_lets_the_input_go_on():
    def deed(_step):
        raise RuntimeError("topology was refused")

    bench = Bench([KillStep("fetched", target="worker", delay_s=0.001)], deed=deed)
    bench.log.fetched = 10
    bench.observe("fetched", 1)
    until(lambda: not bench.controller.busy)
    assert str(bench.controller.failure) == "topology was refused"
    assert bench.controller.limit(TOTAL) == TOTAL


def test_step_that_is_given_up_lets_the_input_go_on():
    bench = Bench([KillEngineStep("committing", fraction=0.2)])
    assert bench.controller.limit(TOTAL) < TOTAL
    bench.controller.give_up("its moment did not come")
    assert bench.controller.limit(TOTAL) == TOTAL
    assert bench.controller.current is None
    assert bench.named("fault-missed")[0]["why"] == "its moment did not come"


@given(steps)
def test_step_round_trip_and_words(step):
    assert FaultStep.from_json(step.to_json()) == step
    assert str(fault_of(step)).startswith(("SIGKILL of", "SIGSTOP for"))
