"""Every test of the suites against histories that it must reject or call unknown."""

from __future__ import annotations

import os
import shutil
from collections import ChainMap

import pytest

from tests.suites import (
    cases_connections,
    cases_fault_free,
    cases_faults,
    cases_hosts,
    cases_service,
    cases_state,
    tampering,
)
from tests.suites.cases import Cases
from tickproof.conformance.history.folder import History
from tickproof.conformance.requirements import registry
from tickproof.conformance.scenario import FaultStep
from tickproof.conformance.suites.catalog import CATALOG
from tickproof.conformance.suites.judge import (
    JUDGES,
    Fail,
    KitError,
    NotClaimed,
    Unknown,
    import_suites,
)
from tickproof.conformance.suites.outcomes import outcome_of
from tickproof.conformance.suites.workers import require_at_work
from tickproof.conformance.verdicts import Verdict

import_suites()
TABLES = (
    cases_fault_free, cases_faults, cases_connections, cases_state, cases_hosts, cases_service,
)  # fmt: skip
REJECTS: dict[str, Cases] = dict(ChainMap(*(table.REJECTS for table in TABLES)))
UNKNOWNS: dict[str, Cases] = dict(ChainMap(*(table.UNKNOWNS for table in TABLES)))
#: (requirement, scenario, judge), each test of the suites once.
ALL = [(id_, name, judge) for name, rows in JUDGES.items() for id_, judge in rows]
DAMAGED = (
    "count-damaged-checkpoint", "count-lost-checkpoint", "count-rotten-checkpoint",
    "count-rotten-checkpoint-2", "count-rotten-checkpoint-3",
)  # fmt: skip
#: What they decide does not need the run to come to its end.
DECIDED_EARLY = {
    "test_hello_is_answered",
    "test_deploy_is_answered",
    "test_an_unknown_op_is_refused_definitely",
    "test_requests_are_answered_while_a_drain_is_pending",
}


def _cases(table: dict[str, Cases]) -> list:
    return [
        pytest.param(scenario, judge, tamper, code, id=f"{judge.__name__}-{number}-{code}")
        for _, scenario, judge in ALL
        for number, (tamper, code) in enumerate(table.get(judge.__name__, []))
    ]


def _by_scenario(rows: list) -> list:
    return [pytest.param(scenario, judge, id=judge.__name__) for _, scenario, judge in rows]


@pytest.fixture
def copy_of(recorded, tmp_path):
    def copy(scenario):
        folder = tmp_path / "run"
        shutil.copytree(recorded.run(scenario), folder, copy_function=os.link)
        # The lengths of files are not what is tampered with here.
        tampering.in_run(files={}, sha256={})(folder)
        return folder

    return copy


@pytest.mark.parametrize(("scenario", "judge"), _by_scenario(ALL))
def test_sound_run_is_not_rejected(recorded, scenario, judge):
    history = History(recorded.run(scenario))
    if scenario not in DAMAGED:  # the miniature refuses it
        assert history.ended == {"how": "completed"}
    try:
        judge(history)
    except Unknown as unknown:
        # Evidence is a matter of timing; for a run this small it may be missing.
        assert unknown.reason in {
            "NOTHING_IN_FLIGHT",
            "NO_CUT_BEFORE_KILL",
            "KILL_MISSED",
            "NOT_SEEN",
            "STALL_TOO_SHORT",
        }


@pytest.mark.parametrize(("scenario", "judge", "tamper", "code"), _cases(REJECTS))
def test_rejected(copy_of, scenario, judge, tamper, code):
    folder = copy_of(scenario)
    tamper(folder)
    with pytest.raises(Fail) as failure:
        judge(History(folder))
    assert failure.value.code == code
    assert failure.value.expected
    assert failure.value.actual


def _lacks_evidence(judge, folder):
    try:
        judge(History(folder))
    except Unknown:
        return True
    return False


@pytest.mark.parametrize(("scenario", "judge", "tamper", "reason"), _cases(UNKNOWNS))
def test_unknown(copy_of, recorded, scenario, judge, tamper, reason):
    folder = copy_of(scenario)
    tamper(folder)
    with pytest.raises(Unknown) as unknown:
        judge(History(folder))
    if unknown.value.reason != reason and _lacks_evidence(judge, recorded.run(scenario)):
        pytest.skip("on this machine a fault of the recorded run missed its moment")
    assert unknown.value.reason == reason


@pytest.mark.parametrize(
    ("scenario", "judge"),
    _by_scenario([row for row in ALL if row[2].__name__ not in DECIDED_EARLY]),
)
def test_run_that_the_kit_broke_off_is_no_verdict(copy_of, scenario, judge):
    folder = copy_of(scenario)
    tampering.in_run(ended={"how": "kit-error", "message": "no space left"})(folder)
    with pytest.raises(KitError, match="no space left") as error:
        judge(History(folder))
    outcome = outcome_of("PR-STOP", scenario, error.value, History(folder))
    assert outcome.verdict is Verdict.KIT_ERROR


def test_engine_without_checkpoint_op_does_not_claim_it(copy_of):
    folder = copy_of("count-checkpoint")
    tampering.no_fault(folder)
    step = FaultStep("kill", "engine", "checkpoint").to_json()
    tampering.added("fault-missed", step=step, why="the engine has no checkpoint op")(folder)
    (judge,) = [judge for _, judge in JUDGES["count-checkpoint"]]
    with pytest.raises(NotClaimed):
        judge(History(folder))


def test_mended_gap_is_no_failure(copy_of):
    folder = copy_of("passthrough-drain-first")
    tampering.refused(6, "APPEND")(folder)
    judge = next(j for _, j in JUDGES["passthrough-drain-first"] if "without_gaps" in j.__name__)
    judge(History(folder))


# -- nothing is left out ---------------------------------------------------------------------


def test_every_judge_has_a_history_that_it_rejects():
    assert {judge.__name__ for *_, judge in ALL} == set(REJECTS)
    assert len({judge.__name__ for *_, judge in ALL}) == len(ALL)
    assert all(REJECTS.values())


def test_every_judge_of_tier_3_needs_its_fault():
    tier_3 = {j.__name__ for *_, j in ALL if ".test_t3" in j.__module__}
    for name in tier_3:
        assert "KILL_MISSED" in {reason for _, reason in UNKNOWNS[name]}, name


def test_cases_name_judges_that_exist():
    assert set(UNKNOWNS) <= {judge.__name__ for *_, judge in ALL}


def test_registry_judges_and_catalog_name_each_other():
    known = registry.load()
    assert {id_ for id_, *_ in ALL} == set(known)
    assert set(JUDGES) == set(CATALOG)
    for id_, _, judge in ALL:
        assert f".test_t{known[id_].tier}" in judge.__module__, id_


def test_who_is_struck_at_a_moment_of_its_own_connection_was_at_work(copy_of):
    folder = copy_of("count-worker-death")
    if not History(folder).faults:
        pytest.skip("on this machine the fault of the recorded run missed its moment")
    tampering.all_unseen(folder)
    history = History(folder)
    require_at_work(history, history.faults[0])
    tampering.all_idle(folder)
    history = History(folder)
    with pytest.raises(Unknown, match="NOT_AT_WORK"):
        require_at_work(history, history.faults[0])
