from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.explain.outcomes import with_known_gaps
from tickproof.conformance.session.tier_order import combined
from tickproof.conformance.verdicts import (
    SEVERITY,
    Outcome,
    Verdict,
    conclusion,
    status_of,
    worst,
    worst_status,
)

verdicts = st.lists(st.sampled_from(list(Verdict)), max_size=6)


def test_severity_names_every_verdict_once():
    assert sorted(SEVERITY) == sorted(Verdict)


@given(verdicts)
def test_nothing_tested_is_never_green(found):
    tested = set(found) - {Verdict.NOT_CLAIMED}
    status = status_of(found)
    if not found or Verdict.KIT_ERROR in tested:
        assert (worst(found), status) == (Verdict.KIT_ERROR, 4)
    elif not tested:
        assert (worst(found), status) == (Verdict.NOT_CLAIMED, 5)
    elif tested & {Verdict.FAIL, Verdict.GAP_FIXED, Verdict.BLOCKED}:
        assert status == 1
    elif Verdict.UNKNOWN in tested:
        assert status == 3
    else:
        assert status == 0
        assert tested <= {Verdict.PASS, Verdict.KNOWN_GAP}


@given(verdicts)
def test_what_is_missing_is_worse_than_an_unknown_and_hides_no_failure(found):
    status = status_of(found, missing=True)
    assert status == max(status_of(found), 1) if status_of(found) in (1, 4) else status == 5


@given(verdicts, st.booleans(), st.booleans())
def test_a_known_gap_of_what_is_required_is_a_failure(found, missing, gap_required):
    status = status_of(found, missing=missing, gap_required=gap_required)
    plain = status_of(found, missing=missing)
    assert status == (1 if gap_required and plain != 4 else plain)


#: What the last line may say, and the exit status that each word stands for.
WORDS = {
    "pass": 0, "known-gap": 0, "fail": 1, "gap-fixed": 1, "blocked": 1, "unknown": 3,
    "kit-error": 4, "not judged": 5,
}  # fmt: skip


@given(verdicts, st.booleans(), st.booleans())
def test_word_and_exit_status_agree(found, missing, gap_required):
    came_out = conclusion(found, missing=missing, gap_required=gap_required)
    assert WORDS[came_out.word] == came_out.status
    assert came_out.status == status_of(found, missing=missing, gap_required=gap_required)
    assert (came_out.look is Verdict.PASS) == (came_out.word == "pass")


@given(st.lists(st.sampled_from((0, 1, 3, 4, 5))))
def test_the_worst_of_no_status_is_not_green(statuses):
    status = worst_status(statuses)
    assert status == min(statuses, key=(4, 1, 5, 3, 0).index, default=5)


@given(st.lists(st.sampled_from(list(Verdict)), min_size=1, max_size=6), st.randoms())
def test_worst_of_several_tests_decides_in_any_order(found, rng):
    outcomes = [
        Outcome("X", verdict, scenario=str(i), seconds=0.5) for i, verdict in enumerate(found)
    ]
    rng.shuffle(outcomes)
    merged = combined(outcomes)
    # A gap that one test shows is not fixed because another does not show it.
    considered = [v for v in found if Verdict.KNOWN_GAP not in found or v != Verdict.GAP_FIXED]
    assert merged.verdict is max(considered, key=SEVERITY.index)
    assert merged.seconds == 0.5 * len(found)


def test_not_claimed_does_not_count_where_another_test_decided():
    merged = combined([Outcome("X", Verdict.NOT_CLAIMED), Outcome("X", Verdict.PASS, "s")])
    assert (merged.verdict, merged.scenario) == (Verdict.PASS, "s")


@given(
    st.builds(
        Outcome,
        st.text(),
        st.sampled_from(list(Verdict)),
        reason=st.text(),
        evidence=st.dictionaries(st.text(), st.integers()),
        seconds=st.floats(0, 9),
    )
)
def test_outcome_round_trip(outcome):
    assert Outcome.from_json(outcome.to_json()) == outcome


def test_unknown_verdict_is_an_error():
    with pytest.raises(ValueError, match="perhaps"):
        Outcome.from_json({"requirement": "X", "verdict": "perhaps"})


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.FAIL, Verdict.KNOWN_GAP),
        (Verdict.BLOCKED, Verdict.KNOWN_GAP),
        (Verdict.PASS, Verdict.GAP_FIXED),
        (Verdict.UNKNOWN, Verdict.UNKNOWN),
        (Verdict.NOT_CLAIMED, Verdict.NOT_CLAIMED),
        (Verdict.KIT_ERROR, Verdict.KIT_ERROR),
    ],
)
def test_known_gap_changes_pass_fail_and_what_a_run_blocked(verdict, expected):
    outcome = Outcome("X", verdict, reason="CODE")
    assert with_known_gaps(outcome, {"X": "not yet"}).verdict is expected
    assert with_known_gaps(outcome, {"Y": "not yet"}) == outcome
