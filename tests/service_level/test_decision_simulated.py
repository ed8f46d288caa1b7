"""How often the verdict is wrong, counted on runs drawn from models with a known truth."""

import math

import numpy as np
import pytest

from tests.long import ASKED, LONG, few
from tests.service_level.made_figures import CI, FAST, run
from tickproof.conformance.performance import decision
from tickproof.conformance.verdicts import Verdict

TRIALS = 400 if ASKED else 200
LIMIT = CI.limits["p99"]


def p99s(rng, ratio, spread, trials=TRIALS):
    """Return p99 of each run (trials, most), microseconds, their true median LIMIT * ratio.

    Each run has an effect of its own, and its samples scatter around that: latencies are
    lognormal, p99 is taken from 400 of them. The median over runs is that of the model,
    counted on 4,000 runs.
    """

    def drawn(count):
        effect = np.exp(rng.normal(0, spread, (count, 1)))
        return np.percentile(effect * np.exp(rng.normal(0, 0.2, (count, 400))), 99, axis=1)

    middle = float(np.median(drawn(4_000)))
    most = CI.runs.most
    return drawn(trials * most).reshape(trials, most) / middle * LIMIT * ratio


def verdict(row):
    """Play runs one after another as a session does, and decide."""
    figures = []
    while decision.more_runs(CI, figures):
        p99 = float(row[len(figures)])
        figures.append(run(len(figures) + 1, FAST | {"p99": p99, "p99.9": 400e3}))
    return decision.decide(CI, figures).verdict


def rates(ratio, spread, seed=6):
    rows = p99s(np.random.default_rng(seed), ratio, spread)
    found = [verdict(row) for row in rows]
    return {one: found.count(one) / len(found) for one in Verdict}


@pytest.mark.parametrize("spread", few([0.02, 0.2, 1.0]))
def test_an_engine_a_tenth_over_its_limit_passes_in_less_than_one_of_twenty(spread):
    assert rates(1.1, spread)[Verdict.PASS] < 0.05


@pytest.mark.parametrize("spread", few([0.02, 0.2, 1.0]))
def test_an_engine_a_tenth_under_its_limit_fails_in_less_than_one_of_twenty(spread):
    assert rates(0.9, spread)[Verdict.FAIL] < 0.05


@LONG
def test_where_runs_are_alike_a_tenth_is_seen():
    assert rates(1.1, 0.02)[Verdict.FAIL] > 0.8
    assert rates(0.9, 0.02)[Verdict.PASS] > 0.8


def test_wild_runs_are_mostly_unknown_rather_than_wrong():
    found = rates(1.0, 1.0)
    assert found[Verdict.UNKNOWN] > 0.8


def test_an_engine_at_its_limit_is_judged_wrongly_as_often_as_counted_by_hand():
    # Every way of nine runs to be over or under is as likely as any other: count them all.
    found = dict.fromkeys(Verdict, 0)
    for ways in range(2**9):
        over = [bool(ways >> at & 1) for at in range(9)]
        found[verdict([2 * LIMIT if one else LIMIT / 2 for one in over])] += 1
    # All of the first five under: 16 of 512. One over among them, none after: 5 more.
    assert found[Verdict.PASS] == 16 + 5
    # At most one under of nine.
    assert found[Verdict.FAIL] == 1 + 9


@LONG
def test_an_engine_whose_slow_runs_are_all_void_does_not_pass_by_repetition():
    # It makes the generator late, or the host noisy, in each run in which it is slow.
    passed = 0
    rng = np.random.default_rng(8)
    slow = FAST | {"p99": 2 * LIMIT, "p99.9": 2.5 * LIMIT}
    for excuse in ({"late": {"p99": 60e3}}, {"noisy": 0.5, "quiet_percentiles": FAST}):
        for _ in range(TRIALS // 2):
            figures = []
            while decision.more_runs(CI, figures):
                number = len(figures) + 1
                figures.append(run(number, slow, **excuse) if rng.random() < 0.5 else run(number))
            passed += decision.decide(CI, figures).verdict is Verdict.PASS
    # By hand: 5 of 5, or one void among 10; three standard deviations of the count above.
    expected = 1 / 32 + (10 - 5) / 2**10
    assert passed / TRIALS < expected + 3 * math.sqrt(expected / TRIALS)


#: How a host disturbs a session of runs: for each run the factor on its latency, 1 where quiet.
#: A factor is drawn before the engine is, as nothing that the engine does brings noise about.
NOISES = {
    "none": lambda _rng, count: np.ones(count),
    "a load that falls": lambda rng, count: np.where(
        np.arange(count) < rng.integers(1, 6), rng.uniform(1, 10, count), 1.0
    ),
    "now and then": lambda rng, count: np.where(
        rng.random(count) < 0.3, rng.uniform(1, 3, count), 1.0
    ),
    "always": lambda rng, count: rng.uniform(1.01, 1.2, count),
    "much work of others that harms nobody": lambda rng, count: np.where(
        rng.random(count) < 0.4, 1.0 + 1e-9, 1.0
    ),
}


def sessions(ratio, noise, seed=9, trials=TRIALS):
    """Return the share of each verdict over sessions on a host with such noise."""
    rng = np.random.default_rng(seed)
    most = CI.runs.most + CI.runs.void_most
    found = []
    for _ in range(trials):
        factors = NOISES[noise](rng, most)
        latencies = LIMIT * ratio * np.exp(rng.normal(0, 0.1, most))
        figures = []
        while decision.more_runs(CI, figures):
            at = len(figures)
            shown = FAST | {"p99": float(latencies[at] * factors[at]), "p99.9": 499e3}
            disturbed = 1.0 if factors[at] > 1 else 0.0
            figures.append(
                run(
                    at + 1,
                    shown,
                    noisy=disturbed,
                    disturbed=disturbed,
                    quiet_samples=0 if disturbed else 6_000,
                )
            )
        assert len(figures) <= most
        found.append(decision.decide(CI, figures).verdict)
    return {one: found.count(one) / trials for one in Verdict}


@pytest.mark.parametrize("noise", few(NOISES, 2))
def test_no_noise_makes_an_engine_just_over_its_limit_pass_more_often(noise):
    # At the limit 21 of 512 pass without noise (above); three standard deviations more.
    bound = 21 / 512
    slack = 3 * math.sqrt(bound * (1 - bound) / TRIALS)
    assert sessions(1.001, noise)[Verdict.PASS] <= bound + slack


def test_a_load_that_falls_does_not_doom_the_session():
    assert sessions(0.7, "a load that falls")[Verdict.PASS] > 0.95
    assert sessions(1.5, "a load that falls")[Verdict.FAIL] > 0.95


def test_disturbed_runs_do_not_count_fast_or_slow():
    slow, fast = FAST | {"p99": 2 * LIMIT, "p99.9": 2.5 * LIMIT}, FAST
    for shown in (slow, fast):
        first = [run(number, shown, noisy=1.0, disturbed=1.0) for number in range(1, 6)]
        assert decision.decide(CI, first).verdict is Verdict.UNKNOWN
        assert decision.more_runs(CI, first) == 5
        calm = [run(number) for number in range(6, 11)]
        decided = decision.decide(CI, [*first, *calm])
        assert decided.verdict is Verdict.PASS
        assert decided.void == dict.fromkeys(range(1, 6), "HOST_NOISE")


def test_where_the_host_never_gets_quiet_all_runs_count():
    disturbed = {"noisy": 1.0, "disturbed": 1.0}
    fast = [run(number, **disturbed) for number in range(1, 7)]
    assert decision.decide(CI, fast[:5]).verdict is Verdict.UNKNOWN
    assert decision.decide(CI, fast).verdict is Verdict.PASS
    assert decision.more_runs(CI, fast) == 0
    slow = FAST | {"p99": 2 * LIMIT, "p99.9": 2.5 * LIMIT}
    excused = [run(n, slow, **disturbed, quiet_samples=0) for n in range(1, 15)]
    assert decision.decide(CI, excused).verdict is Verdict.UNKNOWN
    assert decision.more_runs(CI, excused) == 0
