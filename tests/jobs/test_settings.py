"""What is judged of a job, and how: its requirements, and the options that give the same again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.twins import copy
from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.history.job_run import Fired
from tickproof.conformance.jobs import session
from tickproof.conformance.jobs.comparison import Claims, Finding, Kind
from tickproof.conformance.jobs.comparison import Level as Compared
from tickproof.conformance.jobs.judge import Baseline
from tickproof.conformance.jobs.records import Record
from tickproof.conformance.jobs.requirements import JB, SCHEDULE
from tickproof.conformance.jobs.session import Ground, Refused, Session, Settings
from tickproof.conformance.jobs.trial import IDLE, Plan, Run
from tickproof.conformance.report import judged
from tickproof.conformance.verdicts import Verdict

CLAIMS = Claims("exactly-once", "exactly-once", ordered=False, knows=True, counts="")


@pytest.mark.parametrize(
    ("only", "selected", "played"),
    [
        ((), JB.keys() - {SCHEDULE}, {"restart", "cut", "commit"}),
        (["JB-CUT"], {"JB-CALM", "JB-CUT"}, {"cut"}),
        (["JB-LOST"], {"JB-CALM", "JB-LOST"}, {"restart", "cut", "commit"}),
        (["JB-CALM"], {"JB-CALM"}, set()),
    ],
)
def test_what_is_asked_for_is_played(only: list[str], selected: set[str], played: set[str]) -> None:
    settings = Settings(Path(), 1, only=only)
    assert settings.selected.keys() == selected
    assert {one for one in ("restart", "cut", "commit") if settings.plays(one)} == played


def test_what_is_required_is_judged_beside_what_is_asked_for() -> None:
    settings = Settings(Path(), 1, only=["JB-CUT"], require=["JB-LOST"])
    assert settings.selected.keys() == {"JB-CALM", "JB-CUT", "JB-LOST"}
    assert Settings(Path(), 1, require=["JB-LOST"]).selected.keys() == JB.keys() - {SCHEDULE}


def test_another_session_is_the_same_with_what_is_printed() -> None:
    assert str(Settings(Path(), 7)) == "--seed 7"
    once = Settings(Path(), 7, level=Level.NONE, at_once=1, only=["JB-CUT", "JB-LOST"])
    assert str(once) == "--seed 7 -n 1 --isolation none --only JB-CUT --only JB-LOST"


@pytest.mark.parametrize(("busy", "runs"), [(0.0, 3), (0.5, 3), (0.9, 3), (1.0, 2), (2.0, 2)])
def test_a_third_run_is_played_where_one_leaves_room(
    busy: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.machine, "usable_cpus", lambda: 2)
    assert session._room(busy) == runs


UP, DOWN = "upgrade", "downgrade"


@pytest.mark.parametrize(
    ("back", "survives", "played"),
    [
        (True, ["engine"], [(UP, ""), ("kill", "committed"), (DOWN, ""), (UP, "committed")]),
        (True, ["broker"], [(UP, ""), (DOWN, ""), (UP, "")]),
        (False, ["engine"], [(UP, "committed"), ("kill", "committed")]),
        (False, ["broker"], [(UP, "")]),
    ],
)
def test_versions_follow_each_other(
    tmp_path: Path, back: bool, survives: list[str], played: list[tuple[str, str]]
) -> None:
    changed = {} if back else {"workers = 2": "workers = 2\nback = false"}
    job = copy("totals-upgrade", tmp_path, replaced=changed).claiming(survives=survives)
    session = Session(job, Settings(tmp_path, 1, level=Level.NONE), tmp_path)
    calm = Run("calm")
    calm.moments.update({"committed": 9})
    session.moments = lambda _: ["committed"]  # type: ignore[method-assign]
    plans = {plan.name: plan.strikes for plan in session._plans(calm, partial(Plan))}
    assert [(one.do, one.at) for one in plans["upgrade"]] == played
    assert all(one.whole for one in plans["upgrade"])


@pytest.mark.parametrize("survives", [["worker", "engine"], ["worker"], ["engine"]])
@pytest.mark.parametrize("one_command", [True, False])
def test_who_is_killed(tmp_path: Path, survives: list[str], one_command: bool) -> None:
    """One of several workers; all at once where no single one may die, or it is not who commits."""
    roles = '\n[job.roles]\nworker = "app"\n'
    changed = {', INSTANCE = "{worker}" }': " }" + roles} if one_command else {}
    changed |= {"workers = 3\n": ""}
    job = copy("totals-kafka", tmp_path, replaced=changed).claiming(survives=survives)
    session = Session(job, Settings(tmp_path, 1, level=Level.NONE), tmp_path)
    calm = Run("calm")
    calm.moments.update({"commit-received": 9, "fetched": 9})
    runs = {plan.name: plan.strikes for plan in session._plans(calm, partial(Plan))}
    whole = {name: {one.whole for one in strikes} for name, strikes in runs.items()}
    assert whole["restart"] == {True}
    assert whole["commit"] == {survives == ["engine"] or ("engine" in survives and one_command)}
    assert ("pause" in runs) == ("rebalance" in runs) == ("worker" in survives)
    assert ("all-at-once" in runs) == ("engine" in survives)
    if "worker" in survives:
        assert whole["rebalance"] == {False}
        at = "fetched" if one_command else "commit-received"
        assert {one.at for one in runs["pause"]} == {at}


@pytest.mark.parametrize(
    ("moments", "at"),
    [
        (["commit-received", "committed", "staged"], ["commit-received", "staged"]),
        (["staged", "appended"], ["staged"]),
        (["append-received", "appended"], ["append-received"]),
    ],
)
def test_a_restart_comes_amid_a_transaction_too(
    tmp_path: Path, moments: list[str], at: list[str]
) -> None:
    session = Session(copy("totals-kafka", tmp_path), Settings(tmp_path, 1), tmp_path)
    session.moments = lambda _: moments  # type: ignore[method-assign]
    runs = {plan.name: plan.strikes for plan in session._plans(Run("calm"), partial(Plan))}
    assert [one.at for one in runs["restart"]] == [IDLE, *at]


def test_a_failure_is_played_again_alone(tmp_path: Path) -> None:
    job = copy("totals-sql", tmp_path)
    made = Session(job, Settings(tmp_path, 7, at_once=1, require=["JB-CUT"]), tmp_path)
    command = f"tickproof run {job.path} --seed 7 -n 1 --only"
    wrong = Finding(Kind.LOST, "a", '{"n": 3}', "")
    base = Baseline(Compared.MULTISET, {"a": ['{"n": 3}']}, CLAIMS)
    kill = Fired("kill", "committed", 1.0, "worker 0", 7, "an open transaction")
    run = Run("cut", {"totals": []}, [kill])
    ground = Ground([Run("calm")], {"totals": base}, partial(Plan), 1)
    found = made._judged(ground, {"cut": (run, tmp_path / "cut")})
    again = {one.requirement: one.reproduce for one in found if one.verdict is Verdict.FAIL}
    assert again == {"JB-LOST": f"{command} JB-CUT", "JB-CUT": f"{command} JB-CUT"}
    assert made._refused("nothing", run).reproduce == f"{command} JB-CALM"
    ((told, alike),) = judged.told_once([one for one in found if one.verdict is Verdict.FAIL])
    assert (told.requirement, [one.requirement for one in alike]) == ("JB-CUT", ["JB-LOST"])
    assert wrong in [one for _, one in made._findings(run, ground.baselines)]
    made.reproduce = "tickproof replay RUN"
    assert made._again("JB-CUT") == "tickproof replay RUN"


@pytest.mark.parametrize("twice", [False, True])
def test_a_table_with_several_rows_of_an_identity_has_no_last_one(
    tmp_path: Path, twice: bool
) -> None:
    """A table without a primary key, into which each total was inserted, was judged by one."""
    job = copy("totals-sql", tmp_path)
    session = Session(job, Settings(tmp_path, 1, level=Level.NONE), tmp_path)
    rows = session._due_rows("totals")
    calm = Run("calm", rows={"totals": [(rows[0][0], {"n": 0}), *rows] if twice else rows})
    if not twice:
        assert session._baseline("totals", [calm]).level is Compared.MULTISET
        return
    with pytest.raises(
        Refused, match=r"one row for each identity; 2 have .* more fields than cust"
    ):
        session._baseline("totals", [calm])


def test_an_oracle_gives_no_key_beside_identity(tmp_path: Path) -> None:
    """The key would be held against a field that no message has."""
    job = copy("totals-kafka", tmp_path)
    session = Session(job, Settings(tmp_path, 1, level=Level.NONE), tmp_path)
    record = Record(1, "a", 0, {"customer": "a"}, b"")
    session._due = [(record, {"customer": "a", "@key": "b"})]
    with pytest.raises(InvalidFile, match=r"the oracle, at .*: @key says nothing beside identity"):
        session._due_rows("totals")
    job.outputs["totals"].identity.clear()
    assert [name for name, _ in session._due_rows("totals")] == ["b"]


@given(
    st.booleans(),
    st.sampled_from(["at-least-once", "exactly-once"]),
    st.sampled_from(["at-least-once", "exactly-once"]),
)
def test_only_rows_in_an_order_are_held_to_the_last(ordered: bool, state: str, delivery: str):
    levels = Claims(state, delivery, ordered=ordered, knows=False).levels
    assert ordered or not {Compared.LAST, Compared.SEQUENCE} & set(levels)
