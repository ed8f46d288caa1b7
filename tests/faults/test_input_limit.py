"""How much input may be out while a fault is due: enough for its moment, and some for the next."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.bench import DEADLINE_S, TOTAL, Bench, schedules
from tickproof.conformance.fault_steps import (
    CutStep,
    FaultStep,
    FillStep,
    KillEngineStep,
    KillStep,
    ScaleStep,
)
from tickproof.conformance.faults.moments import moment_of


@given(schedules, st.none() | st.floats(1, 1e6), st.lists(st.integers(0, TOTAL), max_size=20))
def test_limit_is_monotone_and_never_beyond_the_input(schedule, rate, dues):
    bench = Bench(schedule, rate)
    limits = [bench.controller.limit(due) for due in sorted(dues)]
    assert limits == sorted(limits)
    assert all(0 <= limit <= TOTAL for limit in limits)


@given(schedules, st.none() | st.floats(1, 1e6))
def test_limit_lets_every_moment_come(schedule, rate):
    """With all input due, so much is published that the next step can be reached."""
    step = Bench(schedule, rate).controller.current
    limit = Bench(schedule, rate).controller.limit(TOTAL)
    if step is None or step.at == "drained":
        assert limit == TOTAL
    elif step.at == "recovery":
        # It waits where the next step is placed that follows no recovery.
        places = [s.fraction for s in schedule if s.at not in ("drained", "recovery")]
        assert limit == (int(places[0] * TOTAL) if places else TOTAL - 1)
    elif step.at == "checkpoint":
        assert limit == int(step.fraction * TOTAL)
    else:
        assert limit >= min(step.fraction * TOTAL + 1, TOTAL)


def test_last_record_arms_a_step_for_the_whole_input():
    bench = Bench([KillEngineStep("fetched", fraction=1.0)])
    bench.log.fetched = TOTAL - 1
    bench.observe("fetched", 1)
    assert bench.done == []
    bench.log.fetched = TOTAL
    bench.observe("fetched", 1)
    assert len(bench.done) == 1


def test_a_part_is_kept_back_until_the_cut_that_a_step_at_the_last_record_needs():
    full = FillStep("fetched", fraction=1.0, seconds=1.0, cut=True)
    bench = Bench([full])
    assert bench.controller.limit(TOTAL) == TOTAL - TOTAL // 4
    bench.log.fetched = TOTAL - TOTAL // 4  # a batch engine takes all that there is
    bench.observe("fetched", 1)
    assert bench.done == []
    bench.log.released = 1
    assert bench.controller.limit(TOTAL) == TOTAL
    bench.observe("fetched", 1)
    assert bench.done == []
    bench.log.fetched = TOTAL
    bench.observe("fetched", 1)
    assert bench.done == [full]


def test_between_two_scales_new_workers_find_input_and_make_a_cut_of_it():
    first = ScaleStep("fetched", fraction=0.2, workers=3, cut=True)
    bench = Bench([first, replace(first, fraction=0.6, workers=1)], rate=1_000)
    bench.log.published = bench.log.fetched = bench.log.released = TOTAL // 5 + 1
    bench.observe("fetched", 1)
    assert bench.done == [first]
    bench.scaling = True
    held = bench.controller.limit(TOTAL)
    assert bench.log.published < held < TOTAL * 6 // 10
    bench.log.published = bench.log.fetched = bench.log.released = held
    assert bench.controller.limit(TOTAL) == held  # however long the answer takes
    bench.scaling = False
    assert bench.controller.limit(TOTAL) == TOTAL * 6 // 10
    bench.log.published = bench.log.fetched = TOTAL * 6 // 10 + 1
    bench.observe("fetched", 1)
    assert bench.done == [first]  # what the new workers do is in no cut yet
    bench.log.released = held + 1
    bench.observe("fetched", 1)
    assert len(bench.done) == 2


def test_what_was_fetched_too_soon_after_a_death_does_not_end_the_input():
    """A batch engine fetches all it may, in one go, while the second fault is not armed yet."""
    first = KillStep("fetched", target="worker", fraction=0.2)
    bench = Bench([first, KillStep("fetched", target="worker", fraction=0.6)], rate=1_000)
    bench.log.fetched = TOTAL * 2 // 10 + 1
    bench.observe("fetched", 1)
    assert bench.done == [first]
    bench.controller._killed_at -= 10  # long ago
    ahead = bench.controller.limit(TOTAL)
    assert TOTAL * 6 // 10 < ahead < TOTAL
    bench.log.fetched = ahead  # all of it: no FETCH is left at which the fault could come
    assert ahead < bench.controller.limit(TOTAL) <= TOTAL


def test_an_engine_that_died_with_all_released_finds_something_to_come_back_to():
    first = KillEngineStep("fetched", fraction=0.3)
    bench = Bench([first, KillEngineStep("cutting", fraction=0.75)], rate=1_000)
    there = TOTAL - TOTAL // 32
    bench.log.published = bench.log.fetched = there
    bench.observe("fetched", 1)
    assert bench.done == [first]
    bench.controller.engine_died()
    # What is not released yet is enough to fetch.
    assert bench.controller.limit(TOTAL) <= there
    bench.log.released = there
    assert there < bench.controller.limit(TOTAL) <= TOTAL


def test_no_input_is_published_while_a_strike_takes_its_time():
    seen = []

    def deed(_step):
        def strike():
            seen.append(bench.controller.limit(TOTAL))
            return {"pids": [1]}

        return strike

    first = KillEngineStep("fetched", fraction=0.1)
    bench = Bench([first, replace(first, fraction=0.5)], deed=deed)
    bench.log.published = bench.log.fetched = 20_000
    bench.observe("fetched", 1)
    assert seen == [20_000]
    assert bench.controller.limit(TOTAL) == 50_000


@pytest.mark.parametrize("at", ["committing", "accepted", "staged", "losing"])
def test_what_was_cut_before_the_moment_came_does_not_end_the_input(at):
    # Its one commit covered all that was out, a moment before the step could fire at it.
    bench = Bench([KillStep(at, target="worker", fraction=0.8, cut=True)], rate=1_000)
    out = bench.controller.limit(TOTAL)
    bench.log.published = bench.log.fetched = bench.log.released = out
    more = bench.controller.limit(TOTAL)
    assert out < more <= TOTAL
    bench.log.published = bench.log.fetched = bench.log.released = more
    assert bench.controller.limit(TOTAL) > more


@pytest.mark.parametrize("at", ["committing", "accepted", "staged", "losing", "fetched"])
def test_an_engine_that_takes_all_there_is_leaves_some_for_the_steps_behind(at):
    first = FillStep(at, fraction=0.3, seconds=0.1)
    bench = Bench([first, replace(first, fraction=0.75), replace(first, fraction=1.0)], rate=500)
    bench.observe("stage-received", 1)
    for left in (2, 1, 0):
        # By the pace all of it is due, and the engine takes what it gets at once.
        out = bench.controller.limit(TOTAL)
        for _ in range(100):
            bench.log.published = bench.log.fetched = bench.log.released = out
            out = bench.controller.limit(TOTAL)
        assert out == TOTAL - left * (TOTAL // 32)
        bench.controller.fire_now(moment_of(first))


def test_while_a_strike_is_prepared_the_input_does_not_run_to_its_end():
    """To find whom to strike takes time: what is cut meanwhile lets no more input out."""
    going = threading.Event()

    def deed(step):
        going.wait(DEADLINE_S)
        return lambda: {"pids": [1]}

    bench = Bench([KillStep("committing", target="worker", fraction=0.2)], rate=1_000, deed=deed)
    bench.log.published = bench.log.fetched = bench.controller.limit(TOTAL)
    strike = bench.controller.observe("committed", 1)
    for _ in range(50):
        bench.log.published = bench.log.fetched = bench.log.released = bench.controller.limit(TOTAL)
    going.set()
    strike.result(DEADLINE_S)
    assert bench.log.published < TOTAL // 2
    assert len(bench.named("fault")) == 1


def prepared_slowly(*steps: FaultStep) -> tuple[Bench, threading.Event]:
    """Return a bench whose first step is being prepared until the event is set."""
    going = threading.Event()

    def deed(step):
        going.wait(DEADLINE_S)
        return lambda: {"pids": [1]}

    bench = Bench(steps, rate=1_000, deed=deed)
    bench.log.published = bench.log.fetched = bench.controller.limit(TOTAL)
    bench.controller.observe("fetched", 1)
    return bench, going


def run_on(bench: Bench) -> int:
    """Let the engine do all that it may get, over and over; return where its input ends then."""
    for _ in range(500):
        bench.log.published = bench.log.fetched = bench.log.released = bench.controller.limit(TOTAL)
    return bench.log.published


def test_what_goes_on_while_a_strike_is_prepared_leaves_some_for_the_steps_behind_it():
    first = KillStep("fetched", target="worker", fraction=0.2)
    ends = []
    for later in range(3):
        bench, going = prepared_slowly(first, *[replace(first, fraction=0.25)] * later)
        ends.append(run_on(bench))
        going.set()
    assert TOTAL > ends[0] > ends[1] > ends[2] > TOTAL // 2


def test_input_goes_on_while_a_step_waits_for_a_file_to_be_written():
    """All that was out may be cut already as the wait begins: no file comes of that."""
    bench, going = prepared_slowly(KillEngineStep("cutting", fraction=0.2))
    assert run_on(bench) > TOTAL // 2
    going.set()


def test_workers_that_come_with_a_scale_find_input_though_no_step_is_left():
    bench = Bench([])
    bench.scaling = True
    assert TOTAL // 2 < bench.controller.limit(TOTAL) < TOTAL
    assert bench.controller.limit(TOTAL // 2) == TOTAL // 2
    bench.scaling = False
    assert bench.controller.limit(TOTAL) == TOTAL


def test_steps_that_wait_for_output_go_by_the_input_if_none_is_ever_sent():
    first = KillEngineStep("committing", fraction=0.3)
    steps = [
        first,
        CutStep("staged", target="sink"),
        KillEngineStep("fetched"),
        replace(first, fraction=0.7),
    ]
    bench = Bench(steps, rate=500)
    bench.log.published = bench.log.fetched = out = bench.controller.limit(TOTAL)
    bench.log.released = out // 2
    assert bench.controller.current == first  # what is cut may be sent in a moment
    bench.log.published = bench.log.fetched = bench.log.released = TOTAL // 2
    assert bench.controller.limit(TOTAL) < TOTAL
    bench.observe("fetched", 1)
    assert bench.done == [replace(first, at="fetched")]
    # The sink has no connection before END: its fault comes after what the input sets off.
    bench.log.fetched = bench.log.released = TOTAL * 3 // 4
    bench.controller.limit(TOTAL)
    assert bench.controller.current == steps[2]


def test_the_last_step_that_waits_for_output_waits_for_the_end():
    step = KillEngineStep("staged", fraction=0.2)
    bench = Bench([step], rate=500)
    out = bench.controller.limit(TOTAL)
    assert out < TOTAL // 2
    bench.log.published = bench.log.fetched = out
    assert bench.controller.stop_awaiting_output()
    assert not bench.controller.stop_awaiting_output()
    assert bench.controller.limit(TOTAL) == TOTAL
    bench.log.published = bench.log.fetched = TOTAL
    bench.observe("appended", 1)
    assert bench.done == [step]


def test_an_engine_that_has_sent_output_is_waited_for():
    bench = Bench([KillEngineStep("committing", fraction=0.2)], rate=500)
    bench.observe("append-received", 1)
    assert not bench.controller.stop_awaiting_output()
    bench.log.published = bench.log.fetched = bench.log.released = TOTAL // 2
    assert bench.controller.limit(TOTAL) < TOTAL
