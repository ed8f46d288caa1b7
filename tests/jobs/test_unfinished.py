"""A run that was still at work when its time was over is no failure, and no evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.twins import copy
from tickproof.conformance.jobs import judge
from tickproof.conformance.jobs.comparison import Claims, Level
from tickproof.conformance.jobs.judge import Baseline, Judged
from tickproof.conformance.jobs.session import Session, Settings
from tickproof.conformance.jobs.trial import Fired, Run
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

CLAIMS = Claims("exactly-once", "exactly-once", ordered=False, knows=True, counts="n")
BASELINE = {"totals": Baseline(Level.MULTISET, {"a": ['{"n": 3}'], "b": ['{"n": 1}']}, CLAIMS)}
KILL = Fired("kill", "committed", 1.0, "worker 0", 7, "an open transaction")


def run_that(**facts: Any) -> Run:
    rows = [("a", {"n": facts.pop("n")}), ("b", {"n": 1})]
    return Run("commit", {"totals": rows}, [KILL], ended="its limit of 9 s", **facts)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(copy("totals-sql", tmp_path), Settings(tmp_path, 1), tmp_path, print)


def judged(session: Session, run: Run) -> dict[str, Outcome]:
    runs = {"commit": Judged(run, Path("commit"), session._findings(run, BASELINE))}
    found = judge.outcomes(session._job, BASELINE, runs, "again")
    return {one.requirement: one for one in found}


def test_what_is_not_there_yet_is_not_lost(session: Session) -> None:
    found = judged(session, run_that(n=2, unfinished=True))
    assert found["JB-COMMIT"].verdict is Verdict.UNKNOWN
    assert found["JB-COMMIT"].reason is Reason.TIME_LIMIT
    assert {found[id_].verdict for id_ in ("JB-LOST", "JB-TWICE", "JB-VALUES")} == {Verdict.UNKNOWN}


def test_what_is_there_twice_is_a_mistake_all_the_same(session: Session) -> None:
    found = judged(session, run_that(n=4, unfinished=True))
    assert (found["JB-TWICE"].verdict, found["JB-COMMIT"].verdict) == (Verdict.FAIL, Verdict.FAIL)


def test_a_job_that_stood_still_fails(session: Session) -> None:
    found = judged(session, run_that(n=2, stalled=True))
    assert found["JB-COMMIT"].reason is Reason.NO_RECOVERY
    assert found["JB-LOST"].verdict is Verdict.PASS


def test_without_faults_the_time_limit_is_named(session: Session) -> None:
    late = session._refused("still at work", run_that(n=2, unfinished=True))
    assert (late[0].verdict, late[0].reason) == (Verdict.UNKNOWN, Reason.TIME_LIMIT)
    assert {one.verdict for one in late[1:]} == {Verdict.BLOCKED}


@pytest.mark.parametrize(
    ("at", "verdict"), [("committed", Verdict.PASS), ("appended", Verdict.UNKNOWN)]
)
def test_kills_that_meet_no_commit_say_nothing_of_commits(
    tmp_path: Path, at: str, verdict: Verdict
) -> None:
    """Kafka Streams commits every 30 s, which may be longer than the input lasts."""
    job = copy("totals-kafka", tmp_path)
    run = Run("commit", {}, [replace(KILL, at=at)], ended="committed offsets")
    runs = {"commit": Judged(run, Path("commit"), [])}
    found = {one.requirement: one for one in judge.outcomes(job, BASELINE, runs, "again")}
    assert found["JB-COMMIT"].verdict is verdict


def test_after_an_interrupt_what_was_found_stays_found(session: Session) -> None:
    def cut_short(n: int) -> dict[str, Verdict]:
        found = judged(session, run_that(n=n)).values()
        left = [judge.interrupted(one, {"cut"}, "interrupted with Ctrl-C") for one in found]
        assert all(one.reason is Reason.INTERRUPTED for one in left if one.verdict == "unknown")
        return {one.requirement: one.verdict for one in left}

    lost, right = cut_short(2), cut_short(3)
    assert (lost["JB-LOST"], lost["JB-COMMIT"]) == (Verdict.FAIL, Verdict.FAIL)
    assert (right["JB-LOST"], right["JB-COMMIT"]) == (Verdict.UNKNOWN, Verdict.PASS)
    assert (right["JB-CUT"], right["JB-PAUSE"]) == (Verdict.UNKNOWN, Verdict.NOT_CLAIMED)
