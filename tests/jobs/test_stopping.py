"""`poison = "stop"`: how a run says that a job has stopped, or has not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.test_unfinished import BASELINE
from tests.jobs.twins import copy, judged, twins
from tests.kafka.presence import expect_broker
from tests.long import LONG
from tickproof.conformance.engines.failures import EngineFailure
from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.jobs import judge
from tickproof.conformance.jobs.comparison import Finding, Kind
from tickproof.conformance.jobs.judge import Judged
from tickproof.conformance.jobs.records import of_input, poisoned
from tickproof.conformance.jobs.session import Refused, Session, Settings
from tickproof.conformance.jobs.trial import Plan, Run, Trial
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

AT = 7


@pytest.fixture
def trial(tmp_path: Path) -> Any:
    job = copy("totals-stop", tmp_path)
    records = poisoned(of_input(job, "orders", 1), b"\xff", AT)
    plan, folder = Plan(judge.POISON, poisoned="record 7"), tmp_path / "run"
    made: Any = Trial(job, {"orders": records}, plan, folder, Level.NONE, threading.Event())
    made._taken_away = []
    made._take_poison_away = made._taken_away.append
    return made


def ends(trial: Any, *statuses: int) -> None:
    trial.run.exits = [f"worker 0 ended by itself with status {one}" for one in statuses]


def test_the_last_record_of_the_partition_waits(trial: Any) -> None:
    (_, poison), (_, last) = trial._order[AT], trial._held_back[0]
    assert (poison.message, poison.partition) == (b"\xff", last.partition)
    assert last.partition not in {one.partition for _, one in trial._held_back[1:]}
    assert trial._total == len(trial._order) == 6_001 - len(trial._held_back)
    assert sum(trial._ends.values()) == trial._total


def test_a_job_has_stopped_once_its_next_lives_have_too(trial: Any) -> None:
    trial._sent = AT + 1
    for statuses, taken in (((), []), ((1,), []), ((1, -6) * 3, [AT])):
        ends(trial, *statuses)
        trial._look_for_stops()
        assert trial._taken_away == taken


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [(AT, 1, "before the poisoned record was sent: it said nothing"), (AT + 1, 0, "with status 0")],
)
def test_another_end_is_no_stop(trial: Any, sent: int, status: int, said: str) -> None:
    trial._sent = sent
    ends(trial, status)
    with pytest.raises(EngineFailure, match=said):
        trial._look_for_stops()
    assert not trial._taken_away


@pytest.mark.parametrize(
    ("exits", "said"),
    [
        ([], "the job did not stop at the poisoned record; the run ended by settled"),
        (["worker 0"], "the job stopped at the poisoned record once, and not when it was started"),
    ],
)
def test_a_job_that_does_not_stop_fails_by_that(tmp_path: Path, exits: list, said: str) -> None:
    """Why rows are missing that come after it."""
    job = copy("totals-stop", tmp_path)
    run = Run(judge.POISON, ended="settled", poison="record 7", exits=exits, unstopped=True)
    lost = Finding("a", Kind.LOST, "x", "")
    runs = {judge.POISON: Judged(run, Path("poison"), [("totals", lost)])}
    found = {one.requirement: one for one in judge.outcomes(job, BASELINE, runs)}
    failed = found["JB-POISON"]
    assert (failed.verdict, failed.reason) == (Verdict.FAIL, Reason.NO_EXIT)
    assert failed.actual.startswith(said)


def test_a_job_that_also_ends_without_faults_cannot_claim_to_stop(tmp_path: Path) -> None:
    job = copy("totals-stop", tmp_path)
    run = Run("calm", {"totals": [("a", {"customer": "a"})]}, [], stderr=["Killed"])
    run.exits = ["worker 0 ended by itself with status 3"]
    with pytest.raises(Refused, match=r"without faults worker 0 ended .* status 3, .*: Killed"):
        Session(job, Settings(tmp_path, 1), tmp_path)._expect_output(run)
    skipping = job.claiming(poison="skip")
    Session(skipping, Settings(tmp_path, 1), tmp_path)._expect_output(run)


def played(job: Any, folder: Path) -> Outcome:
    expect_broker()
    return judged(job, folder, only=["JB-POISON"])["JB-POISON"]


def test_a_job_that_stops_goes_on_without_the_message(tmp_path: Path) -> None:
    passed = played(copy("totals-stop", tmp_path), tmp_path)
    assert passed.verdict is Verdict.PASS, passed.actual
    assert len(passed.evidence["exits"]) == 6


@LONG
@pytest.mark.parametrize("twin", twins("totals-stop"))
def test_a_twin_is_found_out(tmp_path: Path, twin: str) -> None:
    failed = played(copy("totals-stop", tmp_path, twin=twin), tmp_path)
    assert failed.verdict is Verdict.FAIL
    assert ("did not stop" in failed.actual) == (twin == "silent"), failed.actual
    assert ("2 times, and not" in failed.actual) == (twin == "gives-up"), failed.actual


@LONG
def test_offsets_in_kafka_outlive_the_topic(tmp_path: Path) -> None:
    stops = {"workers = 3\n": 'poison = "stop"\n'}
    passed = played(copy("totals-kafka", tmp_path, replaced=stops), tmp_path)
    assert passed.verdict is Verdict.PASS, passed.actual
    assert len(passed.evidence["exits"]) == 6
