"""Comparisons: the strongest on which runs agree, and what differs from what is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.jobs import comparison
from tickproof.conformance.jobs.comparison import Claims, Kind, Level

EXACT = Claims("exactly-once", "exactly-once", ordered=True, knows=True)
REPEATS = Claims("exactly-once", "at-least-once", ordered=True, knows=True)
RECOUNTS = Claims("at-least-once", "at-least-once", ordered=True, knows=True, counts="n")

KEYS = st.sampled_from(["a", "b", "c"])
ROWS = st.lists(st.tuples(KEYS, st.fixed_dictionaries({"n": st.integers(0, 3)})), min_size=1)


def kinds(level: Level, due: list, got: list, claims: Claims) -> set[Kind]:
    found = comparison.compared(level, comparison.grouped(due), comparison.grouped(got), claims)
    return {one.kind for one in found}


def rows(*values: int) -> list:
    return [("a", {"n": value}) for value in values]


@given(ROWS)
def test_a_run_agrees_with_itself_on_the_strongest(one: list) -> None:
    run = comparison.grouped(one)
    assert comparison.strongest([run, run, run], EXACT.levels) is Level.SEQUENCE
    assert comparison.compared(Level.SEQUENCE, run, run, EXACT) == []


@given(ROWS, ROWS)
def test_nothing_is_found_exactly_where_runs_agree(one: list, other: list) -> None:
    a, b = comparison.grouped(one), comparison.grouped(other)
    for level in Level:
        if level is Level.AT_LEAST:
            continue
        agree = comparison.view(level, a) == comparison.view(level, b)
        for claims in (EXACT, Claims("exactly-once", "exactly-once", ordered=True, knows=False)):
            assert (comparison.compared(level, a, b, claims) == []) == agree


@given(ROWS, st.randoms())
def test_another_order_leaves_the_multiset(one: list, chance) -> None:
    other = list(one)
    chance.shuffle(other)
    a, b = comparison.grouped(one), comparison.grouped(other)
    assert comparison.strongest([a, b], EXACT.levels) in (Level.SEQUENCE, Level.MULTISET)


@given(ROWS, st.data())
def test_at_least_once_allows_what_comes_again(one: list, data) -> None:
    """A job that goes on from an earlier place gives a part of its output once more."""
    begin = data.draw(st.integers(0, len(one) - 1))
    end = data.draw(st.integers(begin, len(one)))
    again = one[:end] + one[begin:]
    assert kinds(Level.VALUES, one, again, REPEATS) == set()
    assert kinds(Level.AT_LEAST, one, again, RECOUNTS) == set()
    if end > begin:
        assert Kind.TWICE in kinds(Level.MULTISET, one, again, EXACT)


@given(ROWS, st.data())
def test_no_claim_allows_a_loss(one: list, data) -> None:
    gone = data.draw(KEYS.filter(lambda key: key in dict(one)))
    left = [row for row in one if row[0] != gone]
    assert kinds(Level.MULTISET, one, left, EXACT) == {Kind.LOST}
    assert kinds(Level.VALUES, one, left, REPEATS) == {Kind.LOST}
    plain = Claims("at-least-once", "at-least-once", ordered=True, knows=True)
    assert kinds(Level.AT_LEAST, one, left, plain) == {Kind.LOST}


@pytest.mark.parametrize(
    ("due", "got", "claims", "expected"),
    [
        ((1, 2, 3), (1, 2, 3, 4), RECOUNTS, set()),
        ((1, 2, 3), (1, 2), RECOUNTS, {Kind.LOST}),
        ((1, 2, 3), (1, 2, 2), RECOUNTS, {Kind.LOST}),
    ],
)
def test_recounted_totals_may_be_higher_not_lower(due, got, claims, expected) -> None:
    assert kinds(Level.AT_LEAST, rows(*due), rows(*got), claims) == expected


def test_a_count_tells_lost_from_counted_twice_without_an_oracle() -> None:
    counted = Claims("exactly-once", "exactly-once", ordered=False, knows=False, counts="n")
    assert kinds(Level.MULTISET, rows(5), rows(4), counted) == {Kind.LOST}
    assert kinds(Level.MULTISET, rows(5), rows(6), counted) == {Kind.TWICE}
    blind = Claims("exactly-once", "exactly-once", ordered=False, knows=False)
    assert kinds(Level.MULTISET, rows(5), rows(4), blind) == {Kind.VALUE}


@pytest.mark.parametrize(
    ("due", "got", "expected"),
    [
        ((1,), (), {Kind.LOST}),
        ((1, 2), (2,), {Kind.LOST}),
        ((1,), (1, 1), {Kind.TWICE}),
        ((1, 2), (1, 1), {Kind.LOST, Kind.TWICE}),
        ((1, 2), (1, 3), {Kind.VALUE}),
        ((1, 2, 3), (1, 9), {Kind.VALUE, Kind.LOST}),
        ((), (1,), {Kind.VALUE}),
    ],
)
def test_a_row_that_is_not_there_or_there_again_shows_without_an_oracle(due, got, expected) -> None:
    blind = Claims("exactly-once", "exactly-once", ordered=False, knows=False)
    assert kinds(Level.MULTISET, rows(*due), rows(*got), blind) == expected


def test_an_order_is_found_where_values_are_the_same() -> None:
    assert kinds(Level.SEQUENCE, rows(1, 2), rows(2, 1), EXACT) == {Kind.ORDER}


def test_what_varies_is_named_with_two_values() -> None:
    one, other = (comparison.grouped([("a", {"n": 1, "at": at})]) for at in (1, 2))
    key, first, second = comparison.varying([one, other], Level.LAST)
    assert key == "a" and comparison.varying_fields(first, second) == ["at"]
    assert comparison.strongest([one, other], EXACT.levels) is Level.IDENTITIES
    same = [comparison.grouped([("a", {"n": 1, "at": at})], ["at"]) for at in (1, 2)]
    assert comparison.strongest(same, EXACT.levels) is Level.SEQUENCE


def test_the_least_of_several_runs_is_what_each_has_to_reach() -> None:
    found = comparison.lower_bound(
        [comparison.grouped(rows(1, 2)), comparison.grouped(rows(1, 3))], RECOUNTS
    )
    assert found == comparison.grouped(rows(1, 2))


def test_other_numbers_of_rows_are_named() -> None:
    one, other = comparison.grouped(rows(1, 2)), comparison.grouped(rows(1))
    (key,) = one
    assert comparison.uneven([one, one, other]) == (key, "2 rows", "1 row")
    assert comparison.uneven([one, one]) is None
