"""Outcomes of tiers that are played side by side count, and are told of, in the order of tiers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.resources import fixtures
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.tier_order import TierOrder, combined, folded
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import JUDGES
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

LOW, HIGH = "PR-HELLO", "ST-TOTALS"


@pytest.fixture
def told() -> list[tuple[str, Verdict]]:
    return []


@pytest.fixture
def order(tmp_path: Path, told: list[tuple[str, Verdict]]) -> TierOrder:
    def tell(event: dict) -> None:
        if event["event"] == "decided":
            told.append((event["outcome"]["requirement"], Verdict(event["outcome"]["verdict"])))

    known = registry.load()
    engine = fixtures() / "engines" / "miniature" / "engine.toml"
    return TierOrder(engine, Request(), {id_: known[id_] for id_ in (LOW, HIGH)}, tmp_path, tell)


def test_scenarios_that_are_still_needed_are_known_by_tier(order: TierOrder) -> None:
    low, high = (registry.load()[one].tier for one in (LOW, HIGH))
    of_both = order.scenarios({low, high})
    assert of_both == order.scenarios({low}) | order.scenarios({high})
    assert "count" in order.scenarios({high})
    decide(order, HIGH, Verdict.PASS)
    assert order.scenarios({high}) == set()


def decide(order: TierOrder, requirement: str, verdict: Verdict) -> None:
    for scenario, judges in JUDGES.items():
        for id_, _ in judges:
            if id_ == requirement:
                order.add(Outcome(requirement, verdict, scenario))


def test_a_higher_tier_that_is_first_waits_for_its_turn(order, told):
    decide(order, HIGH, Verdict.PASS)
    assert told == [] and order.outcomes == []
    decide(order, LOW, Verdict.PASS)
    assert [one.requirement for one in order.outcomes] == [LOW, HIGH]
    assert {id_ for id_, _ in told} == {LOW, HIGH}


@pytest.mark.parametrize("first", [LOW, HIGH])
def test_what_stands_above_a_failure_is_blocked_and_told_of_once(order, told, first):
    for requirement in (first, *({LOW, HIGH} - {first})):
        decide(order, requirement, Verdict.FAIL if requirement == LOW else Verdict.PASS)
    assert [one.verdict for one in order.outcomes] == [Verdict.FAIL, Verdict.BLOCKED]
    assert [verdict for id_, verdict in told if id_ == HIGH] == [Verdict.BLOCKED]
    assert order.outcomes[1].evidence == {"played": "pass"}


def test_what_is_not_claimed_is_not_blocked_by_a_failure(order, told):
    decide(order, HIGH, Verdict.NOT_CLAIMED)
    decide(order, LOW, Verdict.FAIL)
    assert [one.verdict for one in order.outcomes] == [Verdict.FAIL, Verdict.NOT_CLAIMED]
    assert [verdict for id_, verdict in told if id_ == HIGH] == [Verdict.NOT_CLAIMED]


def test_a_test_without_an_outcome_is_a_kit_error(order):
    decide(order, LOW, Verdict.PASS)
    order.finish({0, 1})
    assert [one.verdict for one in order.outcomes] == [Verdict.PASS, Verdict.KIT_ERROR]


def test_what_blocks_a_test_fails_though_its_own_run_was_sound(order):
    cause = Outcome(LOW, Verdict.FAIL, "count", reason="EXITED")
    decide(order, LOW, Verdict.PASS)
    order.add(Outcome(HIGH, Verdict.BLOCKED, "count", reason="EXITED", blocked_by=[LOW]), [cause])
    found = {one.requirement: one for one in order.outcomes}
    assert (found[LOW].verdict, found[LOW].scenario) == (Verdict.FAIL, "count")
    assert (found[HIGH].verdict, found[HIGH].blocked_by) == (Verdict.BLOCKED, [LOW])


def test_a_failure_that_nobody_asked_for_is_not_told_beside_its_cause(order):
    other = Outcome("DL-AFTER-STAGE", Verdict.FAIL, "count", reason="EXITED", general=LOW)
    for id_, scenario in [*order.awaited]:
        if id_ == LOW:
            failed = Outcome(LOW, Verdict.FAIL, scenario, reason="EXITED", general=LOW)
            order.add(failed, [other])
    assert [one.requirement for one in order.outcomes if one.requirement != HIGH] == [LOW]


@pytest.mark.parametrize(("reason", "verdict"), [("EXITED", "blocked"), ("NO_ANSWER", "fail")])
def test_a_special_run_that_ends_like_a_plain_one_is_the_same_failure(reason, verdict):
    plain = Outcome(LOW, Verdict.FAIL, reason="EXITED", general=LOW)
    special = Outcome(HIGH, Verdict.FAIL, reason=reason, general=LOW)
    behind = Outcome("X", Verdict.BLOCKED, reason=reason, blocked_by=[HIGH])
    first, second, third = folded([plain, special, behind])
    assert first == plain
    assert second.verdict == verdict
    assert third.blocked_by == [LOW if verdict == "blocked" else HIGH]


def left_open(order: TierOrder, requirement: str, reason: Reason) -> list[str]:
    """Have all runs of a requirement end by the machine; return their scenarios."""
    pairs = [pair for pair in order.awaited if pair[0] == requirement]
    for id_, scenario in pairs:
        order.add(Outcome(id_, Verdict.UNKNOWN, scenario, reason=reason))
    return sorted(scenario for _, scenario in pairs)


@pytest.mark.parametrize("second", [Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN])
def test_what_the_machine_left_open_is_awaited_until_it_was_played_again(order, told, second):
    decide(order, HIGH, Verdict.PASS)
    scenarios = left_open(order, LOW, Reason.MACHINE_BUSY)
    assert order.outcomes == [] and told == []
    assert order.to_play_again() == tuple(scenarios)
    for scenario in scenarios:
        order.add(Outcome(LOW, second, scenario, reason=Reason.MACHINE_BUSY))
    found = {one.requirement: one.verdict for one in order.outcomes}
    above = Verdict.BLOCKED if second is Verdict.FAIL else Verdict.PASS
    assert found == {LOW: second, HIGH: above}
    assert order.to_play_again() == ()


def test_an_unknown_for_want_of_evidence_is_not_played_again(order):
    left_open(order, LOW, Reason.KILL_MISSED)
    assert order.to_play_again() == ()


def test_a_point_that_was_missed_is_not_covered_and_decides_nothing_beside_others():
    point = {"points": [{"when": "idle"}]}
    held = Outcome("EO-COVERING", Verdict.PASS, "space-1", evidence=point)
    missed = Outcome("EO-COVERING", Verdict.UNKNOWN, "space-2", reason=Reason.KILL_MISSED)
    failed = Outcome("EO-COVERING", Verdict.FAIL, "space-3", evidence=point)
    assert combined([held, missed]).verdict is Verdict.PASS
    assert combined([held, missed]).evidence == point
    assert combined([missed]).verdict is Verdict.UNKNOWN
    for reason in (Reason.NOT_HELD, Reason.TIME_LIMIT, Reason.INTERRUPTED):
        undecided = Outcome("EO-COVERING", Verdict.UNKNOWN, "space-2", reason=reason)
        assert combined([held, undecided]).reason is reason
    assert combined([held, missed, failed]).verdict is Verdict.FAIL


def test_of_what_is_not_claimed_the_claim_is_named_before_an_app() -> None:
    app = Outcome("EL-RESTART", Verdict.NOT_CLAIMED, actual="offers no market-spread")
    claim = Outcome("EL-RESTART", Verdict.NOT_CLAIMED, actual="claims rescale = none")
    assert combined([app, claim]).actual == combined([claim, app]).actual == claim.actual


def test_of_equals_the_counts_of_a_recorded_market_are_shown() -> None:
    plain = Outcome("MS-MERGED", Verdict.PASS, scenario="market-boundaries")
    counts = Outcome("MS-MERGED", Verdict.PASS, evidence={"by_symbol": {"A": [1, 2]}})
    for found in ([plain, counts], [counts, plain]):
        assert combined(found).evidence == counts.evidence
    failed = Outcome("MS-MERGED", Verdict.FAIL, scenario="market-boundaries")
    assert combined([counts, failed]).verdict is Verdict.FAIL
