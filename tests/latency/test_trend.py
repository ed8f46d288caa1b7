"""Slope and test of a trend against slow, obvious oracles."""

import itertools
import statistics
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.long import LONG
from tickproof.conformance.latency.statistics import mann_kendall, relative_change, theil_sen

values = st.lists(st.integers(-20, 20).map(float), min_size=2, max_size=7)


def slow_slope(times, values):
    pairs = itertools.combinations(zip(times, values, strict=True), 2)
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x1 != x2]
    return statistics.median(slopes) if slopes else 0.0


def slow_score(values):
    return sum((b > a) - (b < a) for a, b in itertools.combinations(values, 2))


@given(values, st.data())
def test_the_slope_is_the_median_of_all_pairs(found, data):
    times = data.draw(st.lists(st.integers(0, 9), min_size=len(found), max_size=len(found)))
    expected = slow_slope(times, found)
    assert theil_sen(np.array(times), np.array(found)) == pytest.approx(expected)


@given(st.permutations(range(1, 8)).flatmap(lambda p: st.integers(2, 7).map(lambda n: p[:n])))
def test_without_ties_the_p_value_counts_all_orders(found):
    score = abs(slow_score(found))
    orders = itertools.permutations(sorted(found))
    as_far = sum(abs(slow_score(one)) >= score for one in orders)
    expected = 1.0 if score == 0 else as_far / factorial(len(found))
    assert mann_kendall(np.array(found)) == pytest.approx(expected)


@given(values)
def test_with_ties_the_variance_is_that_of_all_orders(found):
    # The formula of the variance is exact: it is that of the score over all orders.
    if len(set(found)) in (1, len(found)):
        return
    scores = [slow_score(one) for one in itertools.permutations(found)]
    deviation = statistics.pstdev(scores)
    score = abs(slow_score(found))
    normal = statistics.NormalDist()
    expected = 1.0 if score == 0 else 2 * (1 - normal.cdf((score - 1) / deviation))
    assert mann_kendall(np.array(found)) == pytest.approx(expected)


def test_the_approximation_goes_on_where_the_exact_way_ends():
    rng = np.random.default_rng(5)
    series = rng.normal(size=60) + np.arange(60) * 0.02
    exact = mann_kendall(series)
    score = abs(slow_score(series.tolist()))
    deviation = (60 * 59 * 125 / 18) ** 0.5
    normal = 2 * (1 - statistics.NormalDist().cdf((score - 1) / deviation))
    assert exact == pytest.approx(normal, rel=0.15)


@LONG
def test_a_trend_of_noise_is_as_rare_as_the_p_value_says():
    rng = np.random.default_rng(1)
    sure = sum(mann_kendall(rng.normal(size=20)) < 0.01 for _ in range(3000))
    assert 10 <= sure <= 50  # 30 are expected: 2.1 to 3.8 standard deviations off at the ends


def test_a_rise_is_seen_and_few_values_are_never_sure():
    assert mann_kendall(np.arange(6)) < 0.01
    assert mann_kendall(np.arange(5)) > 0.01
    assert mann_kendall(np.array([])) == mann_kendall(np.array([3.0])) == 1.0
    assert mann_kendall(np.ones(30)) == 1.0


def test_one_wild_second_moves_neither():
    steady = np.full(30, 100.0) + np.arange(30) % 3
    wild = steady.copy()
    wild[17] = 1e6
    assert abs(relative_change(wild)) < 0.05
    assert mann_kendall(wild) > 0.01


def test_relative_change_is_from_first_to_last():
    assert relative_change(np.array([80.0, 100.0, 120.0])) == pytest.approx(0.4)
    assert relative_change(np.array([120.0, 100.0, 80.0])) == pytest.approx(-0.4)
    assert relative_change(np.array([5.0])) == 0.0
    with pytest.raises(ValueError, match="median above 0; got 0"):
        relative_change(np.zeros(3))


def test_arrays_of_different_length_are_refused():
    with pytest.raises(ValueError, match="got 2 and 3"):
        theil_sen(np.arange(2), np.arange(3))
