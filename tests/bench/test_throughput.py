"""The steady window against a count of single records, and histories that have none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.handmade import Moves
from tests.long import LONG
from tickproof.conformance.performance.throughput import WARM_UP, drained_ns, progress, window


@st.composite
def histories(draw, releases=True):
    """Partitions that are fetched in pieces, at times again, and released behind that."""
    records = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    fetched, released = [0] * len(records), [0] * len(records)
    fetches, steps, t = [], [], 0
    while sum(fetched) < sum(records):
        t += draw(st.integers(1, 9))
        p = draw(st.integers(0, len(records) - 1))
        if releases and draw(st.booleans()) and fetched[p] > released[p]:
            released[p] = draw(st.integers(released[p] + 1, fetched[p]))
            steps.append((t, p, released[p]))
        elif fetched[p] < records[p]:
            base = draw(st.integers(released[p], fetched[p]))
            fetched[p] = draw(st.integers(fetched[p] + 1, records[p]))
            fetches.append((t, p, base, fetched[p]))
    for p, n in enumerate(records if releases and draw(st.booleans()) else []):
        if released[p] < n:
            t += 1
            steps.append((t, p, n))
    return Moves(records, fetches, steps, t + draw(st.integers(1, 9)))


def slowly(made, by_release):
    """Count the records one by one: (opens, closes, records) or None."""
    rows = made.released if by_release else [(t, p, end) for t, p, _, end in made.fetched]
    ends, opens = [0] * len(made.records), None
    for t, p, end in rows:
        ends[p] = max(ends[p], end)
        if sum(ends) >= WARM_UP * sum(made.records):
            opens = t
            break
    if opens is None:
        return None
    last = [max((e for _, q, e in made.released if q == p), default=0) for p in range(len(ends))]
    by_release = by_release and sum(last) >= sum(made.records)
    closes = max(t for t, _, _ in made.released) if by_release else made.drained
    count = 0
    for p, n in enumerate(made.records):
        for offset in range(n):
            first = min(t for t, q, a, b in made.fetched if q == p and a <= offset < b)
            done = [t for t, q, end in made.released if q == p and end > offset]
            done = min(done, default=made.drained + 1) if by_release else made.drained
            count += first > opens and done <= closes
    return (opens, closes, count) if count else None


@given(made=histories())
def test_the_window_counts_what_was_begun_and_done_in_it(opened, made):
    found = window(opened(made))
    expected = slowly(made, True) or slowly(made, False)
    if expected is None:
        assert found is None
    else:
        assert (found.opens_ns, found.closes_ns, found.records) == expected
        assert found.seconds > 0
        assert found.rate == pytest.approx(found.records / found.seconds)
        opened_by_release = found.progress == "release"
        assert (found.release_every_s is not None) == opened_by_release
        assert not opened_by_release or found.steps > 0


@LONG
@given(made=histories(releases=False))
def test_without_any_release_the_drain_answer_ends_the_window(opened, made):
    found = window(opened(made))
    if found is not None:
        assert found.release_every_s is None
        assert (found.progress, found.closes_ns, found.steps) == ("fetch", made.drained, 0)
        assert (found.opens_ns, found.closes_ns, found.records) == slowly(made, False)


def test_what_lies_in_the_engines_hands_at_the_opening_is_not_counted(opened):
    # 90 are fetched when the first 20 are released: only 10 come after that.
    fetched = [(1, 0, 0, 90), (5, 0, 90, 100)]
    found = window(opened(Moves([100], fetched, [(3, 0, 20), (9, 0, 100)], 10)))
    assert (found.opens_ns, found.closes_ns, found.records) == (3, 9, 10)
    assert (found.steps, found.release_every_s) == (1, 6e-9)


def test_an_engine_that_fetches_everything_at_once_has_no_window(opened):
    assert window(opened(Moves([100], [(1, 0, 0, 100)], [(9, 0, 100)], 10))) is None


def test_an_empty_input_has_no_window(opened):
    assert window(opened(Moves([0], [], [], 5))) is None


def test_records_fetched_again_are_not_counted_twice(opened):
    fetched = [(1, 0, 0, 30), (4, 0, 20, 60), (6, 0, 50, 100)]
    found = window(opened(Moves([100], fetched, [(2, 0, 20), (9, 0, 100)], 10)))
    assert found.records == 70


def test_a_run_without_a_drain_answer_is_refused(opened):
    with pytest.raises(ValueError, match="never answered"):
        drained_ns(opened(Moves([1], [], [], None)))


@LONG
@given(made=histories())
def test_progress_rises_to_what_was_released_or_fetched(opened, made):
    done = progress(opened(made))
    last = {}
    for row in made.released or [(t, p, end) for t, p, _, end in made.fetched]:
        last[row[1]] = max(last.get(row[1], 0), row[2])
    total = sum(last.values())
    assert done.totals.max(initial=0) == total
    assert (done.totals[1:] >= done.totals[:-1]).all()
    assert total == 0 or done.reached(total) <= done.t_ns[-1]
    assert done.reached(total + 1) is None
