"""Sound engines sustain their load, whatever their rhythm; engines at 97 % of it do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.latency.made_loads import RATE, SECOND, batches, continuous, due, load
from tests.latency.made_runs import T0, TICK, make_run
from tickproof.conformance.latency import intervals
from tickproof.conformance.latency.intervals import (
    Load,
    Steps,
    achieved,
    growth,
    interval_histograms,
    loads,
    sustained,
)
from tickproof.conformance.latency.percentiles import histogram, percentiles_us
from tickproof.conformance.latency.phases import Phase, phases
from tickproof.conformance.latency.samples import NEVER, Answers, answers, latencies, timetable
from tickproof.conformance.latency.statistics import least_slope, theil_sen
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import VERDICT

STEADY, END = 3 * SECOND, 13 * SECOND
SEEDS = range(8)


def answered(intended: np.ndarray, done: np.ndarray) -> Answers:
    same = np.asarray(intended, np.int64)
    return Answers(same, same, same, np.asarray(done, np.int64), np.zeros(len(same), bool))


def borne(done_by, seed: int) -> intervals.Sustained:
    """Return how an imagined engine bears 10 s after a warm-up of 3."""
    intended = due(13)
    one = load(intended, done_by(intended, np.random.default_rng(seed)))
    return sustained([one], STEADY, END)


def shifted(intended, draw):
    """A machine that becomes slower at once, by as much as 100 ms, and stays so."""
    done = continuous(intended, 2 * RATE, draw)
    done[intended > draw.uniform(3, 13) * SECOND] += int(draw.uniform(1, 100) * 1e6)
    return done


def frozen(intended, draw):
    """A machine that stands still once, for up to 0.9 s."""
    done = continuous(intended, 2 * RATE, draw)
    start = draw.uniform(3, 13) * SECOND
    end = start + draw.uniform(0.05, 0.9) * SECOND
    done[(done > start) & (done < end)] = int(end)
    return done


def spiky(intended, draw):
    """250 ms of nothing every 2 s: slow at the tail, and yet no growth."""
    done = continuous(intended, 3 * RATE, draw)
    late = 250_000_000 - done % (2 * SECOND)
    return np.maximum.accumulate(done + np.maximum(late, 0))


SOUND = {
    "continuous": lambda i, draw: continuous(i, 1.3 * RATE, draw),
    "continuous, close to its limit": lambda i, draw: continuous(i, 1.02 * RATE, draw),
    "batches each 0.1 s": lambda i, draw: batches(i, 0.1, 0.02, 2 * RATE, 0.3, draw),
    "batches each 0.5 s": lambda i, draw: batches(i, 0.5, 0.05, 2 * RATE, 0.3, draw),
    "batches each second": lambda i, draw: batches(i, 1, 0.1, 2 * RATE, 0.3, draw),
    "batches each 2 s": lambda i, draw: batches(i, 2, 0.1, 2 * RATE, 0.3, draw),
    "batch after batch": lambda i, draw: batches(i, 0.001, 0.2, 2 * RATE, 0.2, draw),
    "slower from some time on": shifted,
    "frozen once": frozen,
    "spikes": spiky,
}


@pytest.mark.parametrize("engine", SOUND)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_sound_engine_sustains_its_load(engine, seed):
    assert borne(SOUND[engine], seed) == intervals.Sustained(1.0, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0.97, 0.9, 0.6])
def test_an_engine_below_the_rate_does_not(share, seed):
    found = borne(lambda i, draw: continuous(i, share * RATE, draw), seed)
    assert found.backlog_growth == pytest.approx((1 - share) * RATE, rel=0.3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0.97, 0.9])
def test_nor_does_one_of_micro_batches(share, seed):
    found = borne(lambda i, draw: batches(i, 0.001, 0.05, share * RATE, 0.02, draw), seed)
    assert found.backlog_growth > 0.02 * RATE


@pytest.mark.parametrize("seed", SEEDS)
def test_an_engine_that_collapses_late_has_not_achieved_the_rate(seed):
    def collapsing(intended, draw):
        work = draw.exponential(SECOND / (2 * RATE), len(intended))
        work[intended > 8 * SECOND] *= 4
        ends = np.cumsum(work)
        return (np.maximum.accumulate(intended - (ends - work)) + ends).astype(np.int64)

    assert borne(collapsing, seed).achieved < 0.9


def test_what_is_never_answered_is_not_achieved():
    intended = due(13)
    done = intended[np.arange(len(intended)) % 100 != 0] + 1_000_000
    # One in a hundred is lost: what is due and not done becomes ever more.
    assert growth(load(intended, done), STEADY, END) == pytest.approx(RATE / 100, rel=0.05)
    assert achieved(load(intended, intended[:0]), STEADY, END) == 0.0
    assert achieved(load(intended[:0], intended[:0]), STEADY, END) == 1.0


@pytest.mark.parametrize("end", [STEADY - SECOND, STEADY, STEADY + 1, STEADY + 100_000_000])
def test_a_phase_that_is_too_short_says_nothing(end):
    """A kill may come within the warm-up, or right after it."""
    intended = due(13)
    one = load(intended, intended + 5_000_000)
    assert sustained([one], STEADY, end).backlog_growth == 0.0
    assert end > STEADY or sustained([one], STEADY, end).achieved == 1.0


def test_a_few_teeth_say_nothing():
    def few(intended, draw):
        return batches(intended, 2.5, 0.1, 1.1 * RATE, 0, draw)

    assert borne(few, 1).backlog_growth == 0.0


@given(st.integers(2, 40), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_slope_is_the_median_of_all_slopes(n, seed):
    draw = np.random.default_rng(seed)
    x, y = np.cumsum(draw.uniform(0.1, 1, n)), draw.normal(0, 1, n)
    slopes = [(y[j] - y[i]) / (x[j] - x[i]) for i in range(n) for j in range(i + 1, n)]
    slope, lower = theil_sen(x, y), least_slope(x, y)
    assert slope == pytest.approx(float(np.median(slopes)))
    assert lower <= slope and min(abs(lower - one) for one in slopes) < 1e-12


def test_the_lower_bound_lies_above_zero_only_for_what_surely_rises():
    draw = np.random.default_rng(1)
    x = np.arange(30.0)
    assert least_slope(x, x + draw.normal(0, 3, 30)) > 0
    wrong = sum(least_slope(x, draw.normal(0, 3, 30)) > 0 for _ in range(2000))
    assert wrong <= 10  # 99.9 % one-sided: 2 are expected


# -- counts --------------------------------------------------------------------


@given(
    arrays.arrays(np.int64, st.integers(0, 40), elements=st.integers(0, 50)),
    arrays.arrays(np.int64, st.integers(0, 20), elements=st.integers(-5, 60)),
)
def test_steps_count_events_up_to_each_time(events, times):
    assert Steps.of_events(events).at(times).tolist() == [int((events <= t).sum()) for t in times]


def test_steps_of_partitions_add_up_what_each_has_reached(tmp_path):
    run = make_run(tmp_path / "run", {"kind": "payloads", "seed": 1, "records": 4, "size": 8})
    run.tables(
        fetches=[
            (10, 0, 0, 0, 5),
            (20, 0, 1, 0, 7),
            (30, 0, 0, 0, 3),
            (40, 0, 0, 3, 9),
            (40, 1, 0, 0, 1),
        ]
    )
    steps = Steps.of_partitions(run.history().fetches, "end")
    assert steps.at(np.array([9, 10, 20, 30, 40])).tolist() == [0, 5, 12, 12, 17]


MARKET = {"kind": "market", "seed": 3, "records": 10_000, "symbols": 10, "reject_one_in": 1000,
          "probe_one_in": 50, "tick": 1, "partitions": 1}  # fmt: skip


@pytest.fixture
def market(tmp_path):
    """10 s of a merged market: a record each ms, every probe answered after 3 ms."""
    params = {"inputs": "merged", "emit": "rejects"}
    run = make_run(tmp_path / "run", MARKET, "market-spread", params)
    asked = answers(run.history())
    out = np.zeros(len(asked), VERDICT)
    run.outputs(output_log(out, t_ns=asked.intended_ns + 3_000_000))
    run.tables(fetches=[(T0 + TICK * n + 500_000, 0, 0, n, n + 1) for n in range(10_000)])
    return run


def market_loads(run) -> list[Load]:
    history = run.history()
    return loads(history, timetable(history), answers(history), T0 + SECOND, T0 + 10 * SECOND)


def test_a_market_is_done_as_released_where_the_engine_releases(market):
    rows = [(T0 + n * TICK, 0, 0, n - 200) for n in range(400, 10_000, 400)]
    market.tables(releases=rows)
    _, all_records = market_loads(market)
    assert all_records.done.at(np.array([T0 + 4000 * TICK])) == 3800
    assert all_records.backlog(np.array([T0 + 4000 * TICK, T0 + 4399 * TICK])).tolist() == [
        201,
        600,
    ]


def test_and_as_fetched_where_it_hardly_releases(market):
    market.tables(releases=[(T0 + 5000 * TICK, 0, 0, 4000)])
    _, all_records = market_loads(market)
    assert all_records.backlog(T0 + TICK * np.arange(1000, 9000, 500)).tolist() == [1.0] * 16


def test_probes_stand_for_the_records_around_them(market):
    probes, _ = market_loads(market)
    assert probes.weight == pytest.approx(10_000 / 105, rel=0.02)
    assert sustained(market_loads(market), T0, T0 + 10 * SECOND).backlog_growth == 0.0


def test_an_engine_that_fetches_all_and_falls_behind_is_seen_by_its_releases(market):
    """Answers to probes come first, and the rest is left to pile up."""
    released = [(T0 + n * 100 * TICK, 0, 0, n * 90) for n in range(1, 100)]
    market.tables(releases=released)
    found = sustained(market_loads(market), T0 + SECOND, T0 + 10 * SECOND)
    assert found.backlog_growth == pytest.approx(100, rel=0.1)


# -- seconds -------------------------------------------------------------------


def test_intervals_of_a_phase_add_up_to_the_phase():
    intended = due(6, 2000) + 7
    done = intended + np.random.default_rng(4).exponential(2e6, len(intended)).astype(np.int64)
    done[::97] = NEVER
    one = answered(intended, done)
    phase = phases(one, 7 + int(1.5 * SECOND), 7 + int(3.2 * SECOND), 1.4)
    rows = interval_histograms(one, phase, 7)
    assert [row.tag for row in rows] == [
        "warm-up",
        "warm-up",
        "steady",
        "steady",
        "steady",
        "recovering",
        "recovering",
        "recovered",
        "recovered",
    ]
    for which in Phase:
        total = histogram(np.empty(0, np.int64))
        for row in rows:
            if row.tag == which.tag:
                total.add(row.histogram)
        values = latencies(one.where(phase == which))
        assert total.total_count == len(values) > 1000
        assert percentiles_us(total) == percentiles_us(values)


def test_growth_of_a_weighted_load_is_in_records_of_the_input():
    intended = due(13)
    done = continuous(intended, 0.9 * RATE, np.random.default_rng(1))
    whole = load(intended, done)
    part = Load(whole.due, whole.done, 50.0)
    assert growth(part, STEADY, END) == pytest.approx(50 * growth(whole, STEADY, END))
