"""How long p99 stays over a limit after a kill, and which records that concerns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.conformance.latency.phases import Phase, phases, recovery
from tickproof.conformance.latency.samples import NEVER, Answers

SECOND = 1_000_000_000
KILL = 5 * SECOND
LIMIT_US = 10_000


def run(latency_ms) -> Answers:
    """Return 10 s of a record each ms; ``latency_ms`` of a time in ms after the kill."""
    after = np.arange(-5000, 5000)
    intended = KILL + after * 1_000_000
    late = np.array([latency_ms(t) for t in after.tolist()], float)
    arrived = np.where(late < 0, NEVER, intended + (np.abs(late) * 1e6)).astype(np.int64)
    return Answers(intended, intended, intended, arrived, np.zeros(len(intended), bool))


def test_an_engine_that_does_not_notice_recovers_at_once():
    assert recovery(run(lambda t: 3), KILL, LIMIT_US) == 0.0


def test_recovery_ends_with_the_last_bin_over_the_limit():
    # Down for 1.25 s; what waited is answered together then: over the limit until 1.24 s.
    found = run(lambda t: max(3, 1250 - t) if t >= 0 else 3)
    assert recovery(found, KILL, LIMIT_US) == 1.3


def test_bins_begin_at_the_kill_wherever_it_is():
    found = run(lambda t: 500 if 30 <= t < 130 else 3)
    assert recovery(found, KILL + 30_000_000, LIMIT_US) == pytest.approx(0.1)
    assert recovery(found, KILL, LIMIT_US) == pytest.approx(0.2)


def test_one_in_a_hundred_may_be_slow():
    assert recovery(run(lambda t: 99 if t % 100 == 0 else 3), KILL, LIMIT_US) == 0.0
    assert recovery(run(lambda t: 99 if t % 100 < 2 and 0 <= t < 400 else 3), KILL, LIMIT_US) == 0.4


def test_of_a_few_samples_the_slowest_counts():
    few = run(lambda t: 99 if t == 250 else 3)
    sparse = few.where(np.arange(10_000) % 10 == 0)
    assert recovery(sparse, KILL, LIMIT_US) == pytest.approx(0.3)


def test_a_relapse_counts():
    found = run(lambda t: 50 if 0 <= t < 200 or 3000 <= t < 3100 else 3)
    assert recovery(found, KILL, LIMIT_US) == pytest.approx(3.1)


def test_an_engine_that_stays_slow_never_recovers():
    assert recovery(run(lambda t: 3 if t < 0 else 50), KILL, LIMIT_US) == math.inf


def test_an_engine_that_answers_no_more_never_recovers():
    assert recovery(run(lambda t: 3 if t < 0 else -1), KILL, LIMIT_US) == math.inf


def test_nothing_due_after_the_kill_shows_no_recovery():
    assert recovery(run(lambda t: 3), KILL + 6 * SECOND, LIMIT_US) == math.inf


def test_exactly_the_limit_is_under_it():
    assert recovery(run(lambda t: 10), KILL, LIMIT_US) == 0.0


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_recovery_is_what_sorting_each_bin_gives(data):
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    size = data.draw(st.integers(1, 300))
    intended = np.sort(draw.integers(0, SECOND, size))
    slow = draw.random(size) < data.draw(st.sampled_from([0, 0.02, 0.3]))
    arrived = intended + np.where(slow, 20_000_000, 1_000_000)
    arrived[draw.random(size) < 0.02] = NEVER
    kill = int(draw.integers(0, SECOND))
    found = Answers(intended, intended, intended, arrived, np.zeros(size, bool))

    worst, last = 0, None
    for number in range(11):
        low, high = kill + number * 10**8, kill + (number + 1) * 10**8
        values = sorted(
            math.inf if a < 0 else a - i
            for i, a in zip(intended.tolist(), arrived.tolist(), strict=True)
            if low <= i < high
        )
        if values:
            last = number + 1
            if values[math.ceil(len(values) * 0.99) - 1] > LIMIT_US * 1000:
                worst = number + 1
    expected = math.inf if last is None or (worst and worst == last) else worst / 10
    assert recovery(found, kill, LIMIT_US) == pytest.approx(expected)


# -- phases --------------------------------------------------------------------


def counts(found: np.ndarray) -> dict[str, int]:
    return {Phase(which).tag: int((found == which).sum()) for which in np.unique(found)}


def test_without_a_kill_all_after_the_warm_up_is_steady():
    found = phases(run(lambda t: 3), KILL - 2 * SECOND)
    assert counts(found) == {"warm-up": 3000, "steady": 7000}
    assert (np.diff(found.astype(int)) >= 0).all()


def test_a_kill_splits_the_run():
    found = phases(run(lambda t: 3), KILL - 2 * SECOND, KILL, 1.5)
    # Three records were in the engine's hands: due 3, 2 and 1 ms before.
    assert counts(found) == {"warm-up": 3000, "steady": 1997, "recovering": 1503, "recovered": 3500}


def test_an_engine_that_never_recovers_is_recovering_to_the_end():
    found = phases(run(lambda t: 3 if t < 0 else 50), KILL - 2 * SECOND, KILL, math.inf)
    assert counts(found) == {"warm-up": 3000, "steady": 1997, "recovering": 5003}


def test_what_was_lost_before_the_kill_stays_in_its_phase():
    found = phases(run(lambda t: -1 if t == -1000 else 0.5), KILL - 2 * SECOND, KILL, 0.0)
    assert counts(found) == {"warm-up": 3000, "steady": 2000, "recovered": 5000}


def held_until(back_ms: int, stall: range) -> Answers:
    """Return a run that is back ``back_ms`` after the kill, and is held up once more."""
    return run(lambda t: back_ms - t if 0 <= t < back_ms else 500 if t in stall else 3)


def test_noise_that_covers_the_recovery_leaves_a_lower_bound():
    found = held_until(1000, range(3000, 3100))
    after = (found.intended_ns - KILL) // 1_000_000
    assert recovery(found, KILL, LIMIT_US) == 3.1
    # Noisy from 800 ms on: it was over its limit until then for certain, and no more is.
    assert recovery(found, KILL, LIMIT_US, after < 800) == 0.8
    assert recovery(found, KILL, LIMIT_US, (after < 800) | (after > 4000)) == 0.8
    assert recovery(found, KILL, LIMIT_US, np.zeros(len(found), bool)) == 0.0


def test_what_is_slow_to_the_end_has_not_recovered_in_quiet_either():
    found = run(lambda t: 500 if t >= 0 else 3)
    after = (found.intended_ns - KILL) // 1_000_000
    assert recovery(found, KILL, LIMIT_US, after > 1000) == math.inf


def test_a_record_that_was_late_when_the_kill_came_is_not_recovering():
    # Nothing is answered from 500 ms before the kill until a second after it.
    found = run(lambda t: 1000 - t if -500 <= t < 1000 else 3)
    kind = phases(found, KILL - 4 * SECOND, KILL, recovery(found, KILL, LIMIT_US), LIMIT_US)
    after = (found.intended_ns - KILL) // 1_000_000
    assert set(kind[(after >= -500) & (after < -10)]) == {Phase.STEADY}
    assert set(kind[(after >= -10) & (after < 900)]) == {Phase.RECOVERING}
