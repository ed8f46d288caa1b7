"""The record that a session leaves, and the reports that are made of it after any end."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from tickproof.conformance.engines.spec import load
from tickproof.conformance.errors import HistoryError, RequestError
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import out_folder, session_record, session_reports, tiers
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.session_record import SessionRecord
from tickproof.conformance.session.tier_order import TierOrder
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

ENGINE = fixtures() / "engines" / "miniature" / "engine.toml"
ONE, OTHER, HIGH = "PR-HELLO", "PR-STOP", "ST-TOTALS"
EXPECTED = [(ONE, "a"), (ONE, "b"), (OTHER, "a"), (HIGH, "c")]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """The folder of a session that asked for three requirements, by four tests."""
    folder = tmp_path / "toy" / "runs" / "20260101-000000-seed1"
    folder.mkdir(parents=True)
    SessionRecord.of(load(ENGINE), Request(only=(ONE, OTHER, HIGH)), EXPECTED).write(folder)
    return folder


def report_of(session: Path) -> dict[str, tuple[Verdict, str]]:
    report = session_reports.of_lost(session, session.parents[1])
    return {one.id: (one.verdict, one.reason) for one in report.requirements}


LEFT = (Verdict.UNKNOWN, Reason.INTERRUPTED)


def test_a_requirement_is_judged_once_all_its_tests_are(session):
    session_record.note(session, [Outcome(ONE, Verdict.PASS, "a")])
    session_record.note(session, [Outcome(OTHER, Verdict.PASS, "a")])
    assert report_of(session) == {ONE: LEFT, OTHER: (Verdict.PASS, ""), HIGH: LEFT}
    session_record.note(session, [Outcome(ONE, Verdict.PASS, "b")])
    assert report_of(session)[ONE] == (Verdict.PASS, "")


def test_one_failed_test_is_a_failure_whatever_the_others_would_have_said(session):
    session_record.note(session, [Outcome(ONE, Verdict.FAIL, "b", reason="lost")])
    assert report_of(session)[ONE] == (Verdict.FAIL, "lost")


def test_a_session_that_judged_everything_before_it_died_is_whole(session):
    for requirement, scenario in EXPECTED:
        session_record.note(session, [Outcome(requirement, Verdict.PASS, scenario)])
    report = session_reports.of_lost(session, session.parents[1])
    assert (report.interrupted, report.exit_status, report.verdict) == (None, 0, Verdict.PASS)


def test_the_report_says_what_ended_the_session(session):
    session_record.note(session, [Outcome(OTHER, Verdict.PASS, "a")])
    report = session_reports.of_lost(session, session.parents[1])
    assert str(report.interrupted) == "ended early: its process died after 1 of 3 requirements"
    assert (report.exit_status, report.session) == (137, session.name)
    record = session_record.read(session)
    record.model_copy(update={"cut": ("ended by SIGTERM", 143)}).write(session)
    report = session_reports.of_lost(session, session.parents[1])
    assert str(report.interrupted) == "ended by SIGTERM after 1 of 3 requirements"
    assert report.exit_status == 143


@pytest.mark.parametrize(
    "torn", [b'[{"requirement": "PR-HE', b"[1]", b"{}", b"\xff\x00", b"[" * 9999]
)
def test_a_line_that_was_cut_costs_itself_alone(session, torn):
    session_record.note(session, [Outcome(ONE, Verdict.PASS, "a")])
    with (session / session_record.OUTCOMES).open("ab") as file:
        file.write(torn)
    session_record.note(session, [Outcome(OTHER, Verdict.PASS, "a")])
    assert [one.requirement for (one,) in session_record.noted(session)] == [ONE, OTHER]


def test_runs_are_found_where_the_session_lies_now(session, tmp_path):
    run = str(session / "passthrough")
    session_record.note(session, [Outcome(ONE, Verdict.PASS, "a", run=run)])
    session_record.note(session, [Outcome(ONE, Verdict.PASS, "b", run="../../../etc")])
    session_record.note(session, [Outcome(OTHER, Verdict.PASS, "a", run="/etc")])
    moved = session.rename(tmp_path / "moved")
    runs = [one.run for (one,) in session_record.noted(moved)]
    assert runs == [str(moved / "passthrough"), "", ""]


def test_a_record_that_cannot_be_used_says_why(session):
    (session / session_record.FILE_NAME).write_text("{}")
    with pytest.raises(HistoryError, match=r"session.json: expected a session: engine: Field req"):
        session_reports.of_lost(session, session.parents[1])


def order(tmp_path: Path) -> TierOrder:
    known = registry.load()
    selected = {id_: known[id_] for id_ in (ONE, OTHER, HIGH)}
    return TierOrder(ENGINE, Request(), selected, tmp_path, lambda _: None, EXPECTED)


def test_a_full_disk_is_one_error_and_blocks_nothing(tmp_path):
    found = order(tmp_path)
    full = Outcome(ONE, Verdict.KIT_ERROR, "a", reason=Reason.NO_SPACE, actual="no space left on x")
    for outcome in (full, replace(full, requirement=OTHER), replace(full, scenario="b")):
        found.add(outcome)
    found.stop(tiers.FULL)
    verdicts = {one.requirement: (one.verdict, one.reason) for one in found.outcomes}
    assert verdicts == {ONE: (Verdict.KIT_ERROR, Reason.NO_SPACE), OTHER: LEFT, HIGH: LEFT}


def test_points_of_the_fault_space_do_not_hide_those_that_are_left(tmp_path):
    found = order(tmp_path)
    found.add(Outcome(ONE, Verdict.PASS, "a", evidence={"points": [{"app": "count"}]}))
    found.stop("ended by SIGTERM")
    (one,) = (outcome for outcome in found.outcomes if outcome.requirement == ONE)
    assert (one.verdict, one.reason) == LEFT


def _hold(folder: Path, ready, go_on) -> None:
    with out_folder.held(folder):
        ready.set()
        go_on.wait()


def test_a_folder_is_held_by_one_process_until_it_ends(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, go_on = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, go_on))
    holder.start()
    try:
        assert ready.wait(60)
        with pytest.raises(RequestError, match=f"in use by process {holder.pid},"):
            with out_folder.held(tmp_path):
                pass
    finally:
        holder.kill()
        holder.join()
    with out_folder.held(tmp_path):
        pass
