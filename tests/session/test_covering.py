"""Profile full plays points until no pair of the fault space is left; runs are made up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.engines.spec import load
from tickproof.conformance.faults.space.covering import pairs_of
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.offers import offers, space_of
from tickproof.conformance.faults.space.sessions import points_of
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import tiers
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.tier_order import TierOrder
from tickproof.conformance.suites import space
from tickproof.conformance.suites.schedules import COVERING
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

ENGINE = fixtures() / "engines" / "miniature" / "engine.toml"
REQUEST = Request(profile="full", tiers=(3,), only=(COVERING,))


@pytest.fixture(scope="module")
def offered():
    return offers(load(ENGINE))


def of(name: str, point: Point, verdict: Verdict = Verdict.PASS) -> Outcome:
    reason = Reason.KILL_MISSED if verdict is Verdict.UNKNOWN else ""
    return Outcome(COVERING, verdict, name, reason=reason, evidence={"points": [point.to_json()]})


@pytest.mark.parametrize("rounds_missed", [0, 1, 2, 99])
def test_pairs_that_a_fault_missed_are_played_again(offered, tmp_path, monkeypatch, rounds_missed):
    drawn = points_of(offered, "full")
    lost = set(drawn[5:8])
    requests: list[Request] = []

    def play(engine: Path, request: Request, order: TierOrder) -> None:
        requests.append(request)
        if not request.points:
            names = space.names_for(offered, "full")
            for name, point in zip(names, drawn, strict=True):
                missed = rounds_missed and point in lost
                order.add(of(name, point, Verdict.UNKNOWN if missed else Verdict.PASS))
        for name, point in request.points.items():
            missed = len(requests) <= rounds_missed
            verdict = Verdict.UNKNOWN if missed else Verdict.PASS
            order.add(of(name, Point.from_json(point), verdict))

    monkeypatch.setattr(tiers, "_run_tiers", play)
    done: list[str] = []

    def tell(event: dict) -> None:
        done.append(event["event"])

    (outcome,) = tiers.run_session(ENGINE, Request(**vars(REQUEST) | {"out": tmp_path}), tell)
    assert outcome.verdict is Verdict.PASS
    covered = pairs_of(map(Point.from_json, outcome.evidence["points"]))
    left = space_of(offered, "full").pairs - covered
    assert len(requests) == 1 + min(rounds_missed, tiers.ROUNDS)
    if rounds_missed <= tiers.ROUNDS:
        assert not left
    else:
        assert left <= pairs_of(lost), "what stayed open is said, and is no more than was missed"
    again = [Point.from_json(one) for request in requests for one in request.points.values()]
    assert all(pairs_of([point]) & pairs_of(lost) for point in again), "each is there for a pair"
