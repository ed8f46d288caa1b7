"""Connections that are refused, answers that come late, and how soon a job goes on."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.twins import copy
from tickproof.conformance.jobs import judge
from tickproof.conformance.jobs.comparison import Claims, Level
from tickproof.conformance.jobs.judge import Baseline, Judged
from tickproof.conformance.jobs.ledger import Ledger
from tickproof.conformance.jobs.session import Settings
from tickproof.conformance.jobs.trial import Fired, Run
from tickproof.conformance.log_server.obstacle import Obstacle
from tickproof.conformance.verdicts import Outcome, Verdict

CLAIMS = Claims("exactly-once", "exactly-once", ordered=False, knows=True)
BASELINE = {"totals": Baseline(Level.MULTISET, {"a": ['{"n": 3}']}, CLAIMS)}
KILL = Fired("kill", "committed", 1.0, "worker 0", 7, "an open transaction")


def test_only_what_met_it_is_counted() -> None:
    one = Obstacle()
    assert (one.turns_away(), one.lag(), one.met) == (False, 0.0, 0)
    one.set(away=True)
    assert (one.turns_away(), one.lag(), one.met) == (True, 0.0, 1)
    one.set(lag_s=2.0)
    assert (one.turns_away(), one.lag(), one.lag(), one.met) == (False, 2.0, 2.0, 2)


@pytest.fixture
def ledger():
    with Ledger(["charges"], lambda *_: None, itertools.count(-1, -1)) as made:
        yield made


def answered(ledger: Ledger) -> int:
    client = http.client.HTTPConnection("127.0.0.1", ledger.port, timeout=30)
    try:
        client.request("GET", "/")
        return client.getresponse().status
    finally:
        client.close()


def test_a_server_that_is_away_comes_back(ledger: Ledger) -> None:
    ledger.obstacle.set(away=True)
    for met in (1, 2):
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            answered(ledger)
        assert ledger.obstacle.met == met
    ledger.obstacle.set()
    assert answered(ledger) == 200


def test_an_answer_that_is_late_comes(ledger: Ledger) -> None:
    ledger.obstacle.set(lag_s=3_600.0)
    asking = threading.Thread(target=lambda: suppressed(ledger), daemon=True)
    asking.start()
    deadline = threading.Event()
    while not ledger.obstacle.met and asking.is_alive():
        deadline.wait(0.01)
    assert ledger.obstacle.met == 1
    assert asking.is_alive()  # it still waits
    ledger.obstacle.set()
    assert answered(ledger) == 200


def suppressed(ledger: Ledger) -> None:
    with contextlib.suppress(http.client.HTTPException, OSError):
        answered(ledger)


@pytest.mark.parametrize(
    ("claimed", "seen", "verdict"),
    [
        (None, [3.0], Verdict.NOT_CLAIMED),
        (10.0, [3.0, 12.0], Verdict.FAIL),
        (12.0, [3.0, 12.0], Verdict.PASS),
        (12.0, [], Verdict.UNKNOWN),
    ],
)
def test_the_longest_recovery_is_held_to_the_claim(
    tmp_path: Path, claimed: float | None, seen: list[float], verdict: Verdict
) -> None:
    job = copy("totals-sql", tmp_path).claiming(recovery_s=claimed)
    rows = {"totals": [("a", {"n": 3})]}
    quick = Run("restart", rows, [replace(KILL, do="restart")], recoveries_s=seen[:1])
    slow = Run("commit", rows, [KILL], recoveries_s=seen[1:])
    runs = {run.name: Judged(run, Path(run.name), []) for run in (quick, slow)}
    found = {one.requirement: one for one in judge.outcomes(job, BASELINE, runs)}
    one: Outcome = found["JB-RECOVERY"]
    assert one.verdict is verdict, one
    if verdict is Verdict.FAIL:
        assert (one.scenario, one.actual) == ("commit", "it went on after 12.0 s")


def test_a_recovery_asks_for_the_runs_that_kill_the_whole_job() -> None:
    settings = Settings(Path(), 1, only=["JB-RECOVERY"])
    runs = ("restart", "commit", "all-at-once", "cut", "refuse", "slow")
    assert [one for one in runs if settings.plays(one)] == ["restart", "commit", "all-at-once"]
