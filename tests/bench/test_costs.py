"""Costs from handmade samples."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.handmade import Moves
from tickproof.conformance.performance.costs import costs
from tickproof.conformance.performance.engine_samples import SAMPLE
from tickproof.conformance.performance.throughput import Window

SECOND = 1_000_000_000


def samples(*rows):
    """Rows of (second, cpu_s, kit_cpu_s, memory, state); all processors: 1.5 s a second."""
    return np.array(
        [(int(t * SECOND), cpu_s, kit_s, 1.5 * t, *rest) for t, cpu_s, kit_s, *rest in rows], SAMPLE
    )


@pytest.fixture
def released(opened):
    """Open a run of 100 records with these (second, offset) of RELEASEs."""
    return lambda *rows: opened(
        Moves([100], [], [(int(t * SECOND), 0, offset) for t, offset in rows], None)
    )


WINDOW = Window(2 * SECOND, 8 * SECOND, 600, "release", 9)


def test_only_the_window_counts_for_cores_and_all_of_the_run_for_memory(released):
    seen = samples(
        (1, 50.0, 9.0, 900, 0),
        (2, 60.0, 10.0, 100, 0),
        (6, 64.0, 11.0, 200, 0),
        (9, 99.0, 30.0, 50, 0),
    )
    found = costs(released(), seen, 123.5, WINDOW)
    assert found.cpu_s == 123.5
    assert found.cores == pytest.approx(1.0)
    assert found.kit_cores == pytest.approx(0.25)
    assert found.other_cores == pytest.approx(0.25)
    assert found.us_a_record == pytest.approx(1e4)  # one core at a hundred records a second
    assert found.peak_memory == 900


@pytest.mark.parametrize("seen", [samples(), samples((3, 1.0, 1.0, 7, 0))])
def test_with_fewer_than_two_samples_in_the_window_there_are_no_cores(released, seen):
    found = costs(released(), seen, 1.0, WINDOW)
    assert (found.cores, found.kit_cores, found.us_a_record) == (None, None, None)
    assert found.peak_memory == (7 if len(seen) else None)


def test_without_a_window_there_are_no_cores(released):
    seen = samples((1, 1.0, 1.0, 7, 0), (2, 2.0, 2.0, 8, 0))
    assert costs(released(), seen, 1.0, None).cores is None


def test_clocks_that_differ_by_a_tick_give_no_negative_cores(released):
    seen = samples((2, 0.0, 0.0, 7, 0), (4, 3.1, 0.2, 8, 0))
    assert costs(released(), seen, 1.0, WINDOW).other_cores == 0.0


def test_the_state_is_that_of_the_first_sample_after_each_part(released):
    seen = samples(*((t, 0.0, 0.0, 0, 1000 + t) for t in range(1, 8)))
    assert costs(released((2.5, 19), (3.5, 20), (5.5, 60)), seen, 0.0, None).state == (1004, 1006)


def test_no_state_is_given_where_no_sample_came_after(released):
    seen = samples((1, 0.0, 0.0, 0, 7))
    assert costs(released((0.5, 20), (1.5, 60)), seen, 0.0, None).state == (7, None)
    assert costs(released((0.5, 20)), seen, 0.0, None).state == (7, None)
