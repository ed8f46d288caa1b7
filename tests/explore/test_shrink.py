"""The shrinker against a slow, obvious oracle, and the oracle of several runs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.explore import generation, shrink
from tickproof.conformance.explore.confirmation import Confirmation
from tickproof.conformance.explore.subject import Attempt
from tickproof.conformance.fault_steps import PauseStep, fault_step
from tickproof.conformance.faults.space.dimensions import Carrier
from tickproof.conformance.faults.space.offers import Offer
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.verdicts import Outcome, Verdict

OFFER = Offer(Carrier.COUNT_EVERY, ("worker", "engine"))


def kill(target="engine", at="fetched", **rest):
    return fault_step("kill", target, at, **rest)


BIG = Scenario(
    "schedule-big", "count", {"emit": "every"},
    {"kind": "keyed", "seed": 3, "records": 200_000, "keys": 1_000, "partitions": 4, "tick": 64,
     "hot_share": 0.99},
    3, 60_000.0,
    faults=(
        kill("worker", fraction=0.11), kill(fraction=0.234, cut=True, delay_s=0.1),
        PauseStep("fetched", target="worker", fraction=0.4, seconds=2.0),
        kill("worker", "committing", fraction=0.5), kill(fraction=0.612, burst=5_000),
        kill(at="recovery"),
    ),
)  # fmt: skip


def smallest(scenario, predicate):
    """Shrink with "fails iff predicate", and check each step of it."""
    tried = []

    def fails(candidates):
        assert candidates
        tried.extend(candidates)
        return next((i for i, one in enumerate(candidates) if predicate(one)), None)

    steps = [scenario, *shrink.shrink(scenario, shrink.PASSES, fails, lambda: False)]
    assert all(predicate(step) for step in steps)
    assert len(set(map(repr, steps))) == len(steps), "it must never come back"
    assert len(tried) < 400
    for one in tried:
        assert one.faults
        assert one.faults[0].at != "recovery"
    return steps[-1]


def deaths(scenario):
    return [s for s in scenario.faults if s.target == "engine" and s.at != "recovery"]


def test_two_deaths_of_six_faults_are_left():
    left = smallest(BIG, lambda one: len(deaths(one)) >= 2)
    assert left.faults == (kill(fraction=0.2), kill(fraction=0.6))
    assert left.recipe == {
        "kind": "keyed",
        "seed": 3,
        "records": left.recipe["records"],
        "keys": 1,
        "partitions": 1,
        "tick": 1,
    }
    assert left.recipe["records"] <= 12
    assert left.workers == 1
    assert left.rate * 2 > left.recipe["records"], "a small run must not take long"


def test_a_recovery_keeps_the_death_that_it_follows():
    left = smallest(BIG, lambda one: any(s.at == "recovery" for s in one.faults))
    assert len(left.faults) == 2
    assert left.faults[1].at == "recovery"


def test_what_the_failure_needs_is_kept():
    def predicate(one):
        burst = any(s.burst for s in one.faults)
        return burst and one.recipe["records"] >= 3_000 and one.recipe["keys"] > 1

    left = smallest(BIG, predicate)
    assert len(left.faults) == 1
    assert left.faults[0].burst
    assert 3_000 <= left.recipe["records"] <= 10_000
    assert left.recipe["keys"] == 1_000


@given(
    generation.scenarios([OFFER]),
    st.sets(st.sampled_from(["worker", "engine"])),
    st.integers(1, 100_000),
)
def test_any_predicate_is_kept_and_nothing_grows(scenario, targets, records):
    """Faults of some kinds, and so many records, or as many as there were."""
    least = min(records, scenario.recipe["records"])
    wanted = {s.target for s in scenario.faults} & targets

    def predicate(one):
        return wanted <= {s.target for s in one.faults} and one.recipe["records"] >= least

    left = smallest(scenario, predicate)
    # Each kind once; a step at a recovery needs a fault before it.
    assert len(left.faults) <= max(1, len(wanted)) + sum(s.at == "recovery" for s in left.faults)
    assert left.recipe["records"] <= scenario.recipe["records"]
    assert left.workers == 1


def test_it_ends_when_its_time_is_over():
    looks = itertools.chain([False], itertools.repeat(True))
    steps = list(shrink.shrink(BIG, shrink.PASSES, lambda _: 0, lambda: next(looks)))
    assert len(steps) == 1


def test_fractions_stay_where_they_were_in_a_smaller_input():
    small = shrink.resized(BIG, 50, 0.5)
    assert [s.fraction for s in small.faults] == [s.fraction for s in BIG.faults]
    assert small.faults[4].burst == 1
    assert small.recipe["tick"] == 1
    # The pause lasts 2 s: the input must still be there after it.
    assert 50 / small.rate > 2


# -- several runs -----------------------------------------------------------------------


class Scripted:
    """Attempts whose outcomes are given by what kinds of failure come in turn."""

    def __init__(self, kinds, parallel=2):
        self.parallel, self._kinds = parallel, kinds

    def each(self, scenarios):
        for scenario in scenarios:
            kind = next(self._kinds[scenario.name])
            verdict = Verdict.FAIL if kind else Verdict.PASS
            yield Attempt(scenario, Outcome("EO-SCHEDULE", verdict), 1, 0, 0.1, kind)

    def all(self, scenarios):
        return list(self.each(scenarios))


def named(*names):
    return [replace(BIG, name=name) for name in names]


@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_only_what_fails_each_time_counts_as_failing(parallel):
    attempts = Scripted(
        {
            "never": itertools.repeat(""),
            "once": itertools.chain(["lost"], itertools.repeat("")),
            "twice": itertools.chain(["lost", "lost"], itertools.repeat("")),
            "always": itertools.repeat("lost"),
        },
        parallel,
    )
    confirmation = Confirmation(attempts, "lost", 3)
    assert confirmation.fails(named("never", "once", "twice")) is None
    assert confirmation.fails(named("never", "twice", "always")) == 2
    assert [made.schedule.name for made in confirmation.proof] == ["always"] * 3


def test_another_failure_is_no_proof_and_is_told():
    attempts = Scripted({"other": itertools.cycle(["lost", "EXITED"])})
    confirmation = Confirmation(attempts, "lost", 3)
    assert confirmation.fails(named("other")) is None
    assert confirmation.others["EXITED"] >= 1


def test_the_share_of_failing_runs_is_counted():
    attempts = Scripted({"flaky": itertools.cycle(["lost", "", ""])})
    assert Confirmation(attempts, "lost", 9).confirm(*named("flaky")) == 3
