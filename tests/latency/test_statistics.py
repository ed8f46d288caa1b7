"""Sample sizes and intervals: against tables, and against counting every outcome."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tickproof.conformance.latency.figures import QUANTILES
from tickproof.conformance.latency.statistics import median_interval, samples_needed, tolerated


def test_the_published_sample_sizes():
    found = [samples_needed(quantile) for quantile in QUANTILES.values()]
    assert found == [5, 29, 59, 299, 2_995, 29_956]


@pytest.mark.parametrize("quantile", QUANTILES.values())
def test_one_sample_less_would_not_do(quantile):
    needed = samples_needed(quantile)
    assert 1 - quantile**needed >= 0.95 > 1 - quantile ** (needed - 1)


@pytest.mark.parametrize("quantile", [0, 1, -1, 1.5])
def test_what_is_no_percentile_is_refused(quantile):
    with pytest.raises(ValueError, match="between 0 and 1"):
        samples_needed(quantile)


def outcomes(runs):
    """Return every way in which runs can be over (1) or under (0) their median, all alike."""
    return np.array(list(itertools.product((0, 1), repeat=runs)))


@pytest.mark.parametrize("runs", range(1, 15))
def test_the_interval_misses_the_median_in_at_most_one_of_twenty(runs):
    over = outcomes(runs).sum(axis=1)
    k = tolerated(runs)
    missed = np.mean((over <= k) | (over >= runs - k))
    assert missed <= 0.05
    # One more would be too many.
    assert np.mean((over <= k + 1) | (over >= runs - k - 1)) > 0.05


def test_from_six_runs_on_there_is_an_interval_from_nine_on_one_may_be_over():
    assert [tolerated(n) for n in (0, 5, 6, 8, 9, 11, 12)] == [-1, -1, 0, 0, 1, 1, 2]
    assert median_interval([1.0] * 5) is None
    found = median_interval([9, 1, 8, 2, 7, 3, 6, 4, 5])
    assert (found.low, found.high) == (2, 8)
    assert found.coverage == 1 - 20 / 512


def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(2)
    samples = np.exp(rng.normal(size=(4000, 9)))  # the median is 1
    covered = 0
    for row in samples:
        found = median_interval(row.tolist())
        covered += found.low <= 1 <= found.high
    assert covered / 4000 == pytest.approx(found.coverage, abs=0.012)


def wrong_pass(least: int, most: int) -> Fraction:
    """Return how often a median exactly at its limit passes by the rule of two stages.

    Stage one: the first ``least`` runs are all under. Stage two: of ``most`` runs no more
    than tolerated(most) are over. A median above the limit passes less often.
    """
    late = most - least
    at_first = Fraction(1, 2**least)
    ways = sum(math.comb(most, over) - math.comb(late, over) for over in range(tolerated(most) + 1))
    return at_first + Fraction(ways, 2**most)


@pytest.mark.parametrize("least, most", [(5, 6), (5, 9), (5, 12), (6, 9), (7, 14)])
def test_a_wrong_pass_is_counted_by_hand(least, most):
    every = outcomes(most)
    passes = (every[:, :least].sum(axis=1) == 0) | (every.sum(axis=1) <= tolerated(most))
    assert wrong_pass(least, most) == Fraction(int(passes.sum()), len(every))


def test_five_runs_all_under_by_chance_are_one_in_32():
    assert wrong_pass(5, 6) == Fraction(1, 32)
    assert wrong_pass(5, 9) == Fraction(21, 512)


def test_every_number_of_runs_that_a_profile_may_ask_for_is_wrong_in_less_than_one_of_twenty():
    worst = max(
        wrong_pass(least, most) for least in range(5, 31) for most in range(max(least, 6), 31)
    )
    assert worst < Fraction(1, 20)
