"""Every test of the suites against histories that it must reject or call unknown."""

from __future__ import annotations

import importlib
import os
import shutil
from collections import ChainMap
from functools import partial
from pkgutil import iter_modules

import pytest
from _pytest.mark import ParameterSet

from tests.judging import judge_of
from tests.long import LONG
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
from tests.suites.recorded import MOST_CHECKPOINTS
from tickproof.conformance.explain.outcomes import outcome_of
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites import families, registry
from tickproof.conformance.suites.catalog import CATALOG, JUDGES
from tickproof.conformance.suites.judge import Fail, KitError, NotClaimed, Unknown
from tickproof.conformance.suites.scenarios import Entry
from tickproof.conformance.suites.workers import require_at_work
from tickproof.conformance.verdicts import Verdict

TABLES = (
    cases_fault_free, cases_faults, cases_connections, cases_state, cases_hosts, cases_service,
)  # fmt: skip
REJECTS: dict[str, Cases] = dict(ChainMap(*(table.REJECTS for table in TABLES)))
UNKNOWNS: dict[str, Cases] = dict(ChainMap(*(table.UNKNOWNS for table in TABLES)))
#: Scenarios that take long to play.
SLOW = {
    "count-deaths-of-one-worker", "count-host-death", "count-links-down", "count-net-mute",
    "count-net-one-way", "count-net-packets", "count-net-partition", "count-net-slow",
    "count-rescale", "count-rescale-backlog", "count-rescale-steady", "count-scale-death",
    "count-scale-then-death", "count-scale-trouble", "count-silence", "market-rescale",
    "market-scale-then-death", "market-two-fresh", "market-two-links-cut", "market-two-losing",
    "market-two-ends", "market-two-net-mute", "market-two-rejects-deaths", "market-two-sparse",
}  # fmt: skip
#: The miniature keeps all in files: test_kafka_judges.py has what the judges of these reject.
ON_THE_BROKER = {"kafka-empty-disk"}
#: (requirement, scenario, judge), each pair once.
ALL = [
    (id_, name, judge)
    for name, rows in JUDGES.items()
    for id_, judge in rows
    if name not in ON_THE_BROKER
]
DAMAGED = (
    "count-damaged-checkpoint", "count-lost-checkpoint", "count-rotten-checkpoint",
    "count-rotten-checkpoint-2", "count-rotten-checkpoint-3", "count-removed-checkpoint",
    "count-rotten-state",
)  # fmt: skip
#: What they decide does not need the run to come to its end.
DECIDED_EARLY = {
    "PR-HELLO:passthrough",
    "PR-DEPLOY:passthrough",
    "PR-OPTIONAL-OPS:passthrough",
    "PR-CONCURRENT-ANSWERS:passthrough-drain-first",
}


def _of(judge: object) -> object:
    """Return what tells a judge from others, though each scenario may have a copy of it."""
    if isinstance(judge, partial):
        return _of(judge.func), repr(judge.args), repr(judge.keywords)
    return judge


def _judged_alike() -> set[str]:
    """Return the scenarios each judge of which has another scenario to show what it rejects."""
    seen: set[object] = set()
    alike = set()
    for scenario, rows in JUDGES.items():
        judges = {_of(judge) for _, judge in rows}
        if scenario not in SLOW and judges <= seen:
            alike.add(scenario)
        seen |= judges if scenario not in SLOW else set()
    return alike


ALIKE = _judged_alike()


def _case(scenario: str, *values: object, id: str) -> ParameterSet:
    long = scenario in SLOW or scenario in ALIKE
    return pytest.param(scenario, *values, id=id, marks=LONG if long else ())


def _cases(table: dict[str, Cases]) -> list[ParameterSet]:
    return [
        _case(scenario, judge, tamper, code, id=f"{id_}:{scenario}-{number}-{code}")
        for id_, scenario, judge in ALL
        for number, (tamper, code) in enumerate(table.get(f"{id_}:{scenario}", []))
    ]


def _by_scenario(rows: list) -> list[ParameterSet]:
    return [_case(name, judge, id=f"{id_}:{name}") for id_, name, judge in rows]


@pytest.fixture
def copy_of(recorded, tmp_path):
    def copy(scenario):
        folder = tmp_path / "run"
        shutil.copytree(recorded.run(scenario), folder, copy_function=os.link)
        # The lengths of files are not what is tampered with here.
        tampering.unsealed(folder)
        return folder

    return copy


@pytest.mark.parametrize(("scenario", "judge"), _by_scenario(ALL))
def test_sound_run_is_not_rejected(recorded, scenario, judge):
    history = History(recorded.run(scenario))
    if scenario not in DAMAGED:  # the miniature refuses it
        assert history.ended.how == "completed"
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
    made = outcome_of("EO-MADE", scenario, failure.value, None)
    assert made.expected
    assert made.actual


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
    _by_scenario([row for row in ALL if f"{row[0]}:{row[1]}" not in DECIDED_EARLY]),
)
def test_run_that_the_kit_broke_off_is_no_verdict(copy_of, scenario, judge):
    folder = copy_of(scenario)
    tampering.in_run(ended={"how": "kit-error", "message": "no space left"})(folder)
    with pytest.raises(KitError, match="no space left") as error:
        judge(History(folder))
    outcome = outcome_of("PR-STOP", scenario, error.value, History(folder))
    assert outcome.verdict is Verdict.KIT_ERROR


@pytest.mark.parametrize(
    "scenario", [_case(one, id=one) for one in JUDGES if not one.startswith("service")]
)
def test_a_run_with_output_from_the_future_fails(copy_of, scenario):
    folder = copy_of(scenario)
    if not len(tampering.read_output(folder)[0]):
        pytest.skip("a run without output")
    tampering.ahead(folder)
    found = set()
    for _, judge in JUDGES[scenario]:
        try:
            judge(History(folder))
        except Fail as failure:
            found.add(failure.code)
        except Unknown:
            pass  # on this machine a fault of the recorded run missed its moment
    assert found & {"ahead-of-fetch", "from-the-future"}


def test_engine_without_checkpoint_op_does_not_claim_it(copy_of):
    folder = copy_of("count-checkpoint")
    tampering.no_fault(folder)
    step = KillEngineStep("checkpoint").to_json()
    tampering.added("fault-missed", step=step, why="the engine has no checkpoint op")(folder)
    with pytest.raises(NotClaimed):
        judge_of("EO-CHECKPOINT-OP", "count-checkpoint")(History(folder))


def test_an_engine_that_refuses_all_of_many_checkpoints_does_not_claim_them(copy_of):
    folder = copy_of("many-checkpoints")
    assert len(History(folder).all(events.Checkpointed)) > MOST_CHECKPOINTS // 2
    tampering.without("checkpointed")(folder)
    with pytest.raises(NotClaimed):
        judge_of("EO-CHECKPOINT-OP", "many-checkpoints")(History(folder))


def test_mended_gap_is_no_failure(copy_of):
    folder = copy_of("passthrough-drain-first")
    tampering.refused(6, "APPEND")(folder)
    judge_of("PR-SEQUENCE", "passthrough-drain-first")(History(folder))


# -- nothing is left out ---------------------------------------------------------------------


def test_every_judge_has_a_history_that_it_rejects():
    assert {f"{id_}:{scenario}" for id_, scenario, _ in ALL} == set(REJECTS)
    assert all(REJECTS.values())


def test_every_judge_of_tier_3_needs_its_fault():
    known = registry.load()
    for id_, scenario, _ in ALL:
        if known[id_].tier == 3:
            reasons = {reason for _, reason in UNKNOWNS[f"{id_}:{scenario}"]}
            assert "KILL_MISSED" in reasons, (id_, scenario)


def test_cases_name_judges_that_exist():
    assert set(UNKNOWNS) <= {f"{id_}:{scenario}" for id_, scenario, _ in ALL}


def test_every_scenario_of_a_family_decides_something():
    modules = [
        importlib.import_module(one.name)
        for one in iter_modules(families.__path__, f"{families.__name__}.")
    ]
    written = {one for module in modules for one in vars(module).values() if isinstance(one, Entry)}
    assert written <= set(CATALOG.values())
    assert len({entry.name for entry in written}) == len(written)
    assert set(JUDGES) == set(CATALOG)


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
