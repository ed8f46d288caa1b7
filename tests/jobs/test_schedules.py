"""Schedules for users' own jobs: the file, who may be asked, and a run of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.campaign import ALONE
from tests.jobs.twins import copy
from tests.kafka.presence import expect_broker
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.faults.regressions import FOLDER
from tickproof.conformance.history.job_run import Fired, Strike
from tickproof.conformance.jobs import judge, schedules
from tickproof.conformance.jobs.comparison import Claims, Level
from tickproof.conformance.jobs.judge import Baseline, Judged
from tickproof.conformance.jobs.requirements import JB, SCHEDULE
from tickproof.conformance.jobs.session import Session, Settings
from tickproof.conformance.jobs.trial import IDLE, Run
from tickproof.conformance.report.json_report import Report
from tickproof.conformance.report.session_state import SessionState
from tickproof.conformance.verdicts import Reason, Verdict

KILL = '[[fault]]\ndo = "kill"\ntarget = "worker"\nat = "commit-received"\nnth = 5\n'
#: One that ends no life.
MILD = '[[fault]]\ndo = "slow"\nseconds = 1\n'

moments = st.sampled_from([one for one in schedules.MOMENTS if one != IDLE])
times = st.floats(0.001, 60, allow_nan=False)
deaths = st.builds(
    Strike,
    st.sampled_from(["kill", "restart"]),
    moments,
    st.integers(1, 1_000),
    st.booleans(),
    times | st.just(0.0),
)
strikes = st.one_of(
    deaths,
    st.builds(
        Strike,
        st.sampled_from(["kill", "pause", "restart"]),
        st.sampled_from(["", IDLE]),
        whole=st.booleans(),
    ),
    st.builds(
        Strike,
        st.sampled_from(["upgrade", "downgrade"]),
        st.just("") | moments,
        whole=st.just(True),
    ),
    st.builds(Strike, st.just("kill"), moments, down=st.just(True)),
    st.builds(Strike, st.just("pause"), moments, st.integers(1, 1_000), st.booleans()),
    st.builds(
        Strike,
        st.sampled_from(["cut", "kill-broker", "end-leader"]),
        moments,
        st.integers(1, 1_000),
    ),
    st.builds(
        Strike,
        st.just("kill-leader"),
        moments,
        st.integers(1, 1_000),
        seconds=st.sampled_from((0.0, 0.5)),
    ),
    st.builds(Strike, st.sampled_from(["refuse", "slow"]), st.just("") | moments, seconds=times),
    st.builds(Strike, st.just("refuse"), seconds=times, beside=st.just(True)),
    st.builds(Strike, st.just("error"), st.sampled_from(("", "append-received"))),
)


@given(st.lists(strikes, min_size=1, max_size=9))
def test_a_schedule_reads_as_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, asked: list[Strike]
) -> None:
    path = tmp_path_factory.mktemp("schedules") / "one.toml"
    path.write_text(schedules.to_toml(asked), "utf-8")
    assert schedules.load_all([path, path]) == {"schedule-one": asked, "schedule-one-2": asked}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('do = "kill"', "target: expected worker or engine for kill; got None"),
        ('do = "cut"\ntarget = "worker"', "target: expected no target for cut; got 'worker'"),
        ('do = "pause"\ntarget = "broker"', "target: expected worker or engine for pause"),
        ('do = "pause"\ntarget = "leader"', "target: expected worker or engine for pause"),
        (
            'do = "kill"\ntarget = "broker"\nalone_s = 1',
            "alone_s: expected none but for a kill of leader",
        ),
        ('do = "kill"\ntarget = "sink"', "target: expected one of worker, engine, broker"),
        ('do = "upgrade"\ntarget = "worker"', "target: expected engine for upgrade; got 'worker'"),
        ('do = "upgrade"', "target: expected worker or engine for upgrade; got None"),
        ('do = "refuse"', "seconds: expected a number; got None"),
        (
            'do = "error"\nat = "fetched"',
            "at: expected none or append-received for error; got 'fetched'",
        ),
        ('do = "cut"\nseconds = 1', "seconds: expected none for cut; got 1.0"),
        ('do = "refuse"\nseconds = 61', "seconds: expected a number at most 60"),
        ('do = "cut"\ndelay_s = 1', "delay_s: expected none but for a kill or restart"),
        ('do = "cut"\nnth = 2', "nth: expected 1 without at; got 2"),
        ('do = "cut"\nat = "idle"\nnth = 2', "nth: expected 1 at idle; got 2"),
        ('do = "cut"\nbeside = true', "beside: expected false but to refuse or slow; got True"),
        (
            'do = "kill"\ntarget = "engine"\ndown = true',
            "down: expected false but for a kill of worker; got True",
        ),
        ('do = "cut"\nat = "comitted"', "at: expected a moment (did you mean committed?), one of"),
        ('do = "cut"\nwhen = 1', "when: unknown key; expected one of do, target, at, nth, delay_s"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"[[fault]]\n{line}\n", "utf-8")
    with pytest.raises(InvalidFile, match="bad") as failed:
        schedules.load_all([path])
    assert f"[[fault]] 1: {said}" in str(failed.value)


def test_an_empty_schedule_is_none(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("fault = []\n", "utf-8")
    with pytest.raises(InvalidFile, match="expected a list that is not empty"):
        schedules.load_all([path])


@pytest.mark.parametrize(
    ("survives", "one", "lacking"),
    [
        (["worker"], Strike("kill", whole=True), "engine"),
        (["worker"], Strike("kill"), ""),
        (["engine"], Strike("pause"), "worker"),
        (["worker", "engine"], Strike("kill-broker"), "broker"),
        (["worker", "engine"], Strike("kill-leader"), "broker"),
        (["worker", "engine"], Strike("end-leader"), "broker"),
        (["broker"], Strike("kill-leader", seconds=1.0), ""),
        (["broker"], Strike("kill-broker"), ""),
        (["broker"], Strike("end-leader"), ""),
        (["broker"], Strike("restart", whole=True), ""),
        (["broker"], Strike("cut"), ""),
    ],
)
def test_a_death_that_is_not_claimed_is_not_asked_for(
    tmp_path: Path, survives: list[str], one: Strike, lacking: str
) -> None:
    job = copy("totals-kafka", tmp_path).claiming(survives=survives)
    said = schedules.unclaimed(job, [Strike("cut"), one])
    assert said == (lacking and f"not claimed by survives = {survives}: {lacking}")


def test_the_only_worker_is_the_engine(tmp_path: Path) -> None:
    job = copy("totals-sql", tmp_path).claiming(survives=["engine"])
    assert not schedules.unclaimed(job, [Strike("kill")])
    assert schedules.unclaimed(job.claiming(survives=["broker"]), [Strike("kill")])


def test_another_version_needs_one_and_at_a_moment_the_claim(tmp_path: Path) -> None:
    up = Strike("upgrade", whole=True)
    job = copy("totals-sql", tmp_path)
    assert schedules.unclaimed(job, [up]) == "job.toml has no [upgrade]"
    job = copy("totals-upgrade", tmp_path).claiming(survives=["broker"])
    assert not schedules.unclaimed(job, [up])
    assert "engine" in schedules.unclaimed(job, [replace(up, at="committed")])


CLAIMS = Claims("exactly-once", "exactly-once", ordered=False, knows=True, counts="n")
BASELINE = {"totals": Baseline(Level.MULTISET, {"a": ['{"n": 3}']}, CLAIMS)}
MET = Fired("kill", "committed", 1.0, "worker 0", 7, "an open transaction")
IN_VAIN = Fired("kill", "committed", 1.0, "worker 0", 7, "")


@pytest.mark.parametrize(
    ("fired", "missed", "verdict", "reason"),
    [
        ([MET, MET], [], Verdict.PASS, ""),
        ([MET, IN_VAIN, MET], [], Verdict.PASS, ""),
        ([MET, IN_VAIN], [], Verdict.UNKNOWN, Reason.NOTHING_IN_FLIGHT),
        ([MET], ["kill at staged"], Verdict.UNKNOWN, Reason.KILL_MISSED),
    ],
)
def test_each_fault_has_to_meet_something(
    tmp_path: Path, fired: list[Fired], missed: list[str], verdict: Verdict, reason: str
) -> None:
    run = Run("schedule-two", {"totals": [("a", {"n": 3})]}, fired, missed, asked=2)
    runs = {run.name: Judged(run, Path("two"), [])}
    made = judge.outcomes(copy("totals-sql", tmp_path), BASELINE, runs, {run.name: ""})
    (found,) = (one for one in made if one.requirement == SCHEDULE)
    assert (found.verdict, found.reason) == (verdict, reason)


def test_the_worst_of_several_schedules_decides(tmp_path: Path) -> None:
    job = copy("totals-sql", tmp_path)
    right = Run("schedule-b", {}, [MET], asked=1)
    runs = {right.name: Judged(right, Path("b"), [])}
    given = {"schedule-a": "not claimed", right.name: "", "schedule-c": ""}
    made = judge.outcomes(job, BASELINE, runs, given)
    (found,) = judge.decisive(made, [SCHEDULE])
    assert (found.verdict, found.scenario) == (Verdict.PASS, right.name)
    cut_short = [judge.interrupted(one, {"schedule-c"}, "Ctrl-C") for one in made]
    (found,) = judge.decisive(cut_short, [SCHEDULE])
    assert (found.verdict, found.scenario) == (Verdict.UNKNOWN, "schedule-c")
    (none,) = judge.decisive(judge.outcomes(job, BASELINE, {}), [SCHEDULE])
    assert none.verdict is Verdict.NOT_CLAIMED


def test_what_is_asked_of_a_job_that_has_schedules() -> None:
    paths = [Path("a.toml")]
    assert SCHEDULE not in Settings(Path(), 1).selected
    assert Settings(Path(), 1, regressions=paths).selected.keys() == JB.keys()
    alone = Settings(Path(), 1, schedules=paths)
    assert alone.selected.keys() == {"JB-CALM", SCHEDULE}
    assert alone.plays("schedule-a")
    assert not alone.plays("commit")
    assert str(alone) == "--seed 1 --schedule a.toml"


def test_a_session_has_the_runs_of_claimed_schedules(tmp_path: Path) -> None:
    job = copy("totals-kafka", tmp_path).claiming(survives=["worker"])
    broker = '[[fault]]\ndo = "kill"\ntarget = "broker"\n'
    paths = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for path, text in zip(paths, (MILD, broker), strict=True):
        path.write_text(text, "utf-8")
    made = Session(job, Settings(tmp_path, 1, schedules=paths), tmp_path)
    given = {name: strikes for name, strikes in made._given(lambda name, strikes: (name, strikes))}
    assert given == {"schedule-a": [Strike("slow", seconds=1.0)]}


def test_a_regression_that_fails_again_is_found_and_told(
    tmp_path: Path, tickproof: Callable[..., tuple[int, str]]
) -> None:
    expect_broker()
    job = copy("totals-kafka", tmp_path, twin="forgets", replaced=ALONE["forgets"])
    folder = job.folder / FOLDER
    folder.mkdir()
    (folder / "death.toml").write_text(KILL, "utf-8")
    (folder / "mild.toml").write_text(MILD, "utf-8")
    out = tmp_path / "out"
    status, printed = tickproof("run", job.path, "--only", SCHEDULE, "--seed", 3, "--out", out)
    assert status == 1, printed
    rows = [json.loads(line) for line in (out / job.name / "live.jsonl").read_text().splitlines()]
    assert rows[0]["engine"] == job.name
    assert rows[-1] == {"t": rows[-1]["t"], "event": "session-ended", "verdict": "fail"}
    state = SessionState()
    for row in rows:
        state.take(row)
    assert state.faults == {("kill", "worker"): 1, ("slow", "connections"): 1}
    assert state.runs_ended == {"committed offsets": 3}
    assert state.totals["published"] == state.totals["served"] == 3 * 6_000
    assert state.worst is Verdict.FAIL
    report = Report.read(out / job.name / Report.FILE_NAME)
    found = {one.id: one for one in report.requirements}
    assert found.keys() == {"JB-CALM", SCHEDULE}
    assert found[SCHEDULE].scenario == "schedule-death"
    assert found[SCHEDULE].reason == Reason.WRONG_TOTAL
