"""The ratio of two sets of runs: against the rank test made by counting all orders."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.latency.statistics import _ways, ratio

VALUES = st.floats(1e-3, 1e6, allow_nan=False)


def statistic(before, after):
    """Count the pairs in which before is larger."""
    return sum(a < b for a in after for b in before)


def p_value(before, after):
    """The exact two-sided p-value of Mann and Whitney, by trying each order of all values."""
    every = [*before, *after]
    found = []
    for chosen in itertools.combinations(range(len(every)), len(after)):
        rest = [one for number, one in enumerate(every) if number not in chosen]
        found.append(statistic(rest, [every[number] for number in chosen]))
    seen = statistic(before, after)
    below = sum(one <= seen for one in found) / len(found)
    above = sum(one >= seen for one in found) / len(found)
    return 2 * min(below, above)


@given(st.data(), st.integers(3, 5), st.integers(3, 5))
def test_a_difference_is_shown_where_the_rank_test_shows_one(data, before, after):
    total = before + after
    values = data.draw(st.lists(VALUES, min_size=total, max_size=total, unique=True))
    first, second = values[:before], values[before:]
    found = ratio(first, second)
    if found is None:
        assert 2 / math.comb(total, before) > 0.05
    else:
        assert found.differs == (p_value(first, second) <= 0.05)
        assert found.low <= found.estimate <= found.high


@given(st.lists(VALUES, min_size=5, max_size=8), st.lists(VALUES, min_size=5, max_size=8))
def test_the_other_way_round_it_is_the_reciprocal(before, after):
    one, other = ratio(before, after), ratio(after, before)
    assert one.estimate == pytest.approx(1 / other.estimate)
    assert (one.low, one.high) == (pytest.approx(1 / other.high), pytest.approx(1 / other.low))


@given(st.lists(VALUES, min_size=4, max_size=8, unique=True), st.floats(0.1, 10))
def test_what_is_scaled_is_estimated_by_the_scale(values, scale):
    assert ratio(values, [one * scale for one in values]).estimate == pytest.approx(scale)


@pytest.mark.parametrize(("before", "after"), [(1, 1), (3, 3), (2, 6), (0, 9)])
def test_too_few_runs_show_nothing(before, after):
    assert ratio([1.0] * before, [9.0] * after) is None


@pytest.mark.parametrize(("before", "after"), [(4, 4), (3, 5)])
def test_so_many_runs_suffice(before, after):
    assert ratio([1.0] * before, [9.0] * after).differs


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_other_values_are_refused(wrong):
    with pytest.raises(ValueError, match="finite values above 0"):
        ratio([1, 2, 3, 4, wrong], [1, 2, 3, 4, 5])


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 3), (4, 4), (3, 5)])
def test_ways_are_those_of_all_orders(before, after):
    found = [0] * (before * after + 1)
    for chosen in itertools.combinations(range(before + after), after):
        rest = [one for one in range(before + after) if one not in chosen]
        found[statistic(rest, chosen)] += 1
    assert _ways(before, after) == found
