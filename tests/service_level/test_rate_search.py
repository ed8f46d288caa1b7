"""Bisection: against engines whose highest rate is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.performance.rate_search import NARROW, Attempt, bisect, step


def engine(holds_up_to: float, tried: list[int] | None = None):
    """Return the attempts of an engine that holds every rate up to one."""

    def attempt(rate: int) -> Attempt:
        if tried is not None:
            tried.append(rate)
        return Attempt("ok" if rate <= holds_up_to else "over", "", f"run-{rate}")

    return attempt


@given(st.integers(1, 1_000), st.integers(2, 64), st.floats(0, 2), st.sampled_from([1, 50, 1_000]))
def test_the_bracket_holds_the_truth(low, times, part, unit):
    low *= unit
    high = low * times
    truth, rates = low + part * (high - low), []
    found = bisect(low, high, unit, engine(truth, rates))
    assert all(low <= rate <= high and rate % unit == 0 for rate in rates)
    assert len(rates) == len(set(rates)) <= 12
    if found.kind == "still-at-high":
        assert found.rate == high <= truth and found.below == 0
    else:
        assert found.kind == "found" and found.rate <= truth < found.below
        assert found.below <= found.rate * NARROW or found.below - found.rate <= unit


def test_a_rate_that_holds_is_never_given_where_none_did():
    found = bisect(10, 100, 1, engine(9))
    assert (found.kind, found.rate, found.below) == ("not-even-at-low", 0, 10)
    assert [step.rate for step in found.steps] == [10]


def test_the_top_is_played_last():
    rates: list[int] = []
    assert bisect(100, 6_400, 100, engine(10_000, rates)).kind == "still-at-high"
    assert rates == sorted(rates) and rates[-1] == 6_400


def scripted(*results: str | tuple[str, bool]):
    """Return attempts with the given results, one after another; a pair says near."""
    left = [(one, False) if isinstance(one, str) else one for one in results]

    def attempt(rate: int) -> Attempt:
        result, near = left.pop(0)
        return Attempt(result, f"{result} {len(left)}", f"run-{rate}", near)

    attempt.left = left
    return attempt


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (["ok"], "ok"),
        (["over"], "over"),
        (["void", "ok"], "ok"),
        (["void", "void", "over"], "over"),
        (["void", "void", "void"], "void"),
        (["broken"], "broken"),
        (["void", "broken"], "broken"),
        ([("ok", True), "over", "over"], "over"),
        ([("over", True), "ok", ("ok", True)], "ok"),
        ([("over", True), "void", "ok", ("ok", True)], "ok"),
        ([("ok", True), "ok", "broken"], "broken"),
        ([("ok", True), "void", "void", "void"], "void"),
    ],
)
def test_steps_are_repeated_where_one_run_tells_too_little(results, said):
    attempt = scripted(*results)
    found = step(7, attempt)
    assert found.result == said
    assert len(found.runs) == len(results) and attempt.left == []


@pytest.mark.parametrize("result", ["void", "broken"])
def test_what_tells_nothing_ends_the_search_and_is_no_number(result):
    voids = ["void"] * 3 if result == "void" else ["broken"]
    found = bisect(10, 1_000, 1, scripted("ok", *voids))
    assert found.kind == result and len(found.steps) == 2
    found = bisect(10, 1_000, 1, scripted(*voids))
    assert (found.kind, found.rate, found.below) == (result, 0, 0)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (10, 10), (20, 10), (15, 30), (10, 25)])
def test_a_range_has_to_be_one(low, high):
    with pytest.raises(ValueError, match="multiples of 10"):
        bisect(low, high, 10, engine(1))
