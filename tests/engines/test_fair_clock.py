"""The clock of time limits: what it counts, against slow and obvious versions of the same."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.engines.failures import EngineFailure
from tickproof.conformance.engines.fair_clock import (
    BUSY_SHARE,
    LEAST_S,
    MOST_TIMES,
    Decision,
    Demand,
    FairClock,
    Interval,
    decide,
    withheld_s,
)

#: A core is given out in slices of this length.
SLICE_S = 0.01
SLICES = 100


# -- what the machine withholds ----------------------------------------------------------


def one_core(engine: int, others: int) -> Interval:
    """Hand out the slices of one core in turn to so many threads; count what the engine got."""
    used = waited = 0
    for at in range(SLICES):
        turn = at % (engine + others)
        for thread in range(engine):
            if thread == turn:
                used += 1
            else:
                waited += 1
    return Interval(SLICES * SLICE_S, engine=Demand(waited * SLICE_S, used * SLICE_S, cores=1))


@given(engine=st.integers(1, 12), others=st.integers(0, 12))
def test_what_other_programs_got_is_withheld_and_nothing_else(engine: int, others: int) -> None:
    """Threads of the engine that wait for each other are kept waiting by nobody."""
    of_others = sum(at % (engine + others) >= engine for at in range(SLICES))
    assert withheld_s(one_core(engine, others)) == pytest.approx(of_others * SLICE_S)


times = st.floats(0, 5)
demands = st.builds(Demand, times, times, st.integers(1, 8))
maybe = st.none() | times
intervals = st.builds(
    Interval, st.floats(0.01, 2), times, demands, demands, st.booleans(), maybe, maybe
)


def slowly(seen: Interval) -> float:
    """Say the same in so many words: the longest of the excuses, each looked at by itself."""
    excuses = [seen.late_s]
    for demand in (seen.engine, seen.kit):
        own = demand.used_s / demand.cores
        if own < seen.length_s:
            excuses.append(
                seen.length_s - own if demand.wait_s > seen.length_s - own else demand.wait_s
            )
    if seen.blocked and seen.disk_s is None:
        excuses.append(seen.length_s)
    elif seen.blocked:
        excuses.append(seen.disk_s)
    if seen.memory_s is not None:
        wanted = seen.engine.wait_s + seen.kit.wait_s + seen.engine.used_s
        excuses.append(seen.memory_s if seen.blocked else min(seen.memory_s, wanted))
    longest = sorted(excuses)[-1]
    return seen.length_s if longest > seen.length_s else longest


@given(intervals)
def test_the_longest_excuse_counts_and_no_more_than_there_was(seen: Interval) -> None:
    assert withheld_s(seen) == pytest.approx(slowly(seen))
    assert 0 <= withheld_s(seen) <= seen.length_s


def test_an_engine_that_wants_nothing_is_kept_from_nothing() -> None:
    """A deadlock on a machine that is busy with everything else is a deadlock."""
    assert withheld_s(Interval(1.0, disk_s=1.0, memory_s=1.0)) == 0


def test_one_that_spins_on_a_quiet_machine_is_kept_from_nothing() -> None:
    assert withheld_s(Interval(1.0, engine=Demand(0.0, 1.0, cores=2))) == 0
    assert withheld_s(Interval(1.0, engine=Demand(6.0, 2.0, cores=2))) == 0


# -- the clock ----------------------------------------------------------------------------

#: What happens in a pulse: its length, the share that was withheld, whether the engine moved.
pulses = st.lists(
    st.tuples(st.sampled_from([0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0]), st.booleans()),
    min_size=1, max_size=30,
)  # fmt: skip


@given(pulses, st.integers(0, 400))
def test_fair_time_against_a_count_of_small_steps(found, begun: int) -> None:
    """Count hundredths of a second, one by one, for any beginning of a wait."""
    clock, now, steps, moved_at = FairClock(), 1000.0, [], 0
    clock.advance(now, 0.0)
    for length_s, share, moves in found:
        now += length_s
        if moves:
            clock.moved(now)
            moved_at = len(steps) + round(length_s * 100)
        clock.advance(now, length_s * share)
        steps += [(1 - share) / 100] * round(length_s * 100)
    begun = min(begun, len(steps))
    assert clock.fair_s(1000 + begun / 100) == pytest.approx(sum(steps[begun:]), abs=1e-6)
    since = max(begun, moved_at)
    assert clock.still_s(1000 + begun / 100) == pytest.approx(sum(steps[since:]), abs=1e-6)
    lost_s = (len(steps) - begun) / 100 - sum(steps[begun:])
    assert clock.lost_s(1000 + begun / 100) == pytest.approx(lost_s, abs=1e-6)


def test_without_a_pulse_it_is_an_ordinary_clock() -> None:
    clock = FairClock()
    since = time.monotonic() - 5
    assert clock.overdue(since, 4.9, "x") and not clock.overdue(since, 500, "x")
    clock.advance(since + 1, 0.0)
    assert not clock.overdue(since, 4.9, "x")  # nobody knows what came after that second
    clock.stop()
    assert clock.overdue(since, 4.9, "x")


# -- the decision -------------------------------------------------------------------------


@given(
    limit_s=st.floats(0.1, 100), still_s=times, waited_s=st.floats(0, 2000), share=st.floats(0, 1)
)
def test_only_standing_still_ends_in_a_failure(limit_s, still_s, waited_s, share) -> None:
    found = decide(limit_s, still_s, waited_s, share * waited_s)
    assert (found is Decision.STOOD_STILL) == (still_s >= limit_s)
    if found in (Decision.BUSY, Decision.GOING_ON):
        assert waited_s >= LEAST_S and waited_s >= MOST_TIMES * limit_s
        assert (found is Decision.BUSY) == (share * waited_s >= BUSY_SHARE * waited_s)


@pytest.mark.parametrize(("lost_s", "code"), [(50.0, "MACHINE_BUSY"), (0.0, "TIME_LIMIT")])
def test_beyond_all_measure_there_is_no_verdict(lost_s: float, code: str) -> None:
    clock, since = FairClock(), time.monotonic() - 100
    clock.advance(since, 0.0)
    clock.advance(since + 99, lost_s)
    clock.moved(since + 99)
    with pytest.raises(EngineFailure, match="no answer to hello") as raised:
        clock.overdue(since, 5.0, "no answer to hello")
    assert raised.value.code == code
