"""Latency charts: where lines, limits and seconds lie; values that never were."""

from __future__ import annotations

import math
import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.latency.figures import QUANTILES
from tickproof.conformance.report.latency_charts import (
    Percentiles,
    Seconds,
    by_percentile,
    over_time,
)

LATENCIES = st.lists(st.floats(0.1, 1e9), min_size=7, max_size=7).map(sorted)


def points(svg, kind):
    """Return the points of each line of a kind."""
    paths = re.findall(rf'<path class="{kind}" d="M([^"]*)"', str(svg))
    return [[tuple(map(float, one.split())) for one in path.split("L")] for path in paths]


@given(LATENCIES)
def test_a_slower_percentile_lies_higher_and_further_right(values):
    row = dict(zip((*QUANTILES, "max"), values, strict=True))
    (found,) = points(
        by_percentile([Percentiles("outputs", "", row)], {}, QUANTILES, "t"), "outputs"
    )
    assert len(found) == 7
    assert found == sorted(found, key=lambda point: point[0])
    assert [y for _, y in found] == sorted((y for _, y in found), reverse=True)


def test_a_limit_is_drawn_where_a_run_at_that_limit_is():
    rows = [Percentiles("outputs", "", {"p50": 40.0, "p99": 2_000.0})]
    drawn = by_percentile(rows, {"p99": 2_000.0}, QUANTILES, "t")
    ((left, right),) = points(drawn, "limit")
    ((_, p99),) = points(drawn, "outputs")
    assert left[1] == right[1] == p99[1]
    assert (left[0] + right[0]) / 2 == p99[0]


def test_what_never_came_is_left_out():
    row = {"p50": 10.0, "p99": math.inf}
    ((point,),) = points(
        by_percentile([Percentiles("outputs", "", row)], {}, QUANTILES, "t"), "outputs"
    )
    assert point


def test_seconds_without_answers_have_no_point():
    values = np.array([1_000.0, np.nan, 4_000.0])
    run = Seconds(np.array([0.5, 1.5, 2.5]), {"p50": values}, 3.0, [(1.0, 2.0)], 0.5, 1.2)
    drawn = over_time(run, "t")
    ((first, last),) = points(drawn, "p50")
    assert first[0] < last[0] and first[1] > last[1]
    assert str(drawn).count('class="noisy"') == 1
    assert "kill at 1.200 s" in drawn
