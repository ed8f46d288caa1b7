"""A search for faults that a user's own job does not survive."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.jobs.twins import copy
from tests.kafka.presence import expect_broker
from tests.long import LONG
from tickproof.conformance.errors import KitStopped, RequestError
from tickproof.conformance.explore import search
from tickproof.conformance.explore.page import SearchReport
from tickproof.conformance.history.job_run import Fired, Strike
from tickproof.conformance.jobs import exploring, schedules
from tickproof.conformance.jobs.exploring import JobSubject
from tickproof.conformance.jobs.requirements import CALM, SCHEDULE
from tickproof.conformance.jobs.session import Ground
from tickproof.conformance.jobs.trial import Plan, Run
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

MOMENTS = ("fetched", "staged", "commit-received", "committed")
ERROR = Strike("error")


@pytest.mark.parametrize("survives", [["worker"], ["engine"], ["worker", "engine", "broker"]])
def test_the_same_seed_draws_the_same_and_only_what_is_claimed(
    tmp_path: Path, survives: list[str]
) -> None:
    job = copy("totals-kafka", tmp_path).claiming(survives=survives)
    made = list(islice(exploring.drawn(job, MOMENTS, ERROR, 3), 300))
    assert made == list(islice(exploring.drawn(job, MOMENTS, ERROR, 3), 300))
    assert len({*made}) == 300
    struck = [one for some in made for one in some]
    assert {one.at for one in struck} == {"", *MOMENTS}
    for do in ("kill-broker", "kill-leader", "end-leader"):
        assert (do in {one.do for one in struck}) == ("broker" in survives)
    killed = {one.whole for one in struck if one.do == "kill"}
    assert killed == {name == "engine" for name in survives if name != "broker"}
    assert 1 <= min(map(len, made)) < max(map(len, made)) <= exploring.MOST_FAULTS


@pytest.mark.parametrize("error", [ERROR, Strike("error", "append-received", 2), None])
def test_an_error_is_drawn_for_who_meets_one(tmp_path: Path, error: Strike | None) -> None:
    drawn = exploring.drawn(copy("totals-kafka", tmp_path), MOMENTS, error, 3)
    struck = {one for some in islice(drawn, 300) for one in some if one.do == "error"}
    assert {one.at for one in struck} == ({error.at} if error else set())
    # An answer to output is one of many: which one differs.
    assert len(struck) > 1 if error and error.at else len(struck) == bool(error)


@given(st.integers(0, 2**32))
def test_what_is_drawn_can_be_saved(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("drawn")
    job = copy("totals-kafka", folder)
    path = folder / "one.toml"
    error = Strike("error", "append-received", 2) if seed % 2 else ERROR
    for made in islice(exploring.drawn(job, MOMENTS, error, seed), 5):
        for one in (made, *exploring.simpler(made)):
            path.write_text(schedules.to_toml(one), "utf-8")
            assert schedules.load_all([path])["schedule-one"] == list(one)


class Scripted:
    """A session in place of a real one, whose runs fail as a predicate says."""

    def __init__(self, fails: Callable[[tuple[Strike, ...]], bool]) -> None:
        self.fails, self.played, self.stopped = fails, 0, False

    def moments(self, _calm: Run) -> list[str]:
        return [*MOMENTS]

    def error(self, _calm: Run) -> Strike | None:
        return ERROR

    def stop(self) -> None:
        self.stopped = True

    def tried(self, _ground: Ground, plan: Plan, folder: Path) -> tuple[Run, list[Outcome]]:
        self.played += 1
        folder.mkdir()
        strikes = tuple(plan.strikes)
        verdict = Verdict.FAIL if self.fails(strikes) else Verdict.PASS
        run = Run(plan.name, asked=len(strikes))
        run.fired = [Fired(one.do, one.at, 1.0, "worker 0", 7, "work") for one in strikes]
        reason = Reason.LOST if verdict is Verdict.FAIL else ""
        found = Outcome(SCHEDULE, verdict, reason=reason, actual="gone", run=str(folder))
        return run, [found]


def searched(tmp_path: Path, session: Any, budget_s: float = 20.0) -> tuple[int, SearchReport]:
    job = copy("totals-kafka", tmp_path)
    ground = Ground([Run("calm")], {}, partial(Plan), 2)
    subject = JobSubject(job, session, ground, parallel=2, seed=1)
    asked = search.Search(tmp_path / "explore", tmp_path / "saved", budget_s, 20, 1, 2, "again")
    status = search.explore(subject, asked, Console(file=io.StringIO()))
    return status, SearchReport.read(asked.out / SearchReport.FILE_NAME)


def test_a_mistake_is_found_made_smaller_and_saved(tmp_path: Path) -> None:
    session = Scripted(lambda strikes: any(one.do == "kill" and one.whole for one in strikes))
    status, report = searched(tmp_path, session)
    assert status == 1
    assert report.fault_space is None
    assert report.failure is not None
    assert report.failure.kind == Reason.LOST
    assert report.failure.confidence == "2 of 2"
    (saved,) = (tmp_path / "saved").iterdir()
    assert str(saved) == report.failure.saved
    (strikes,) = schedules.load_all([saved]).values()
    assert [(one.do, one.whole, one.nth, one.seconds) for one in strikes] == [("kill", True, 1, 0)]
    assert f"--schedule {saved}" in report.failure.result.reproduce
    page = (tmp_path / "explore" / "report.html").read_text("utf-8")
    assert "A schedule broke it." in page
    assert "fault space" not in page


def test_a_sound_job_is_played_until_the_budget_is_used_up(tmp_path: Path) -> None:
    session = Scripted(lambda _: False)
    status, report = searched(tmp_path, session, budget_s=0.2)
    assert (status, report.failure) == (0, None)
    assert report.verdicts == {Verdict.PASS: session.played}
    assert not (tmp_path / "saved").exists()
    assert not list((tmp_path / "explore").glob("runs/*"))


def test_an_error_of_the_kit_is_no_failure_of_the_job(tmp_path: Path) -> None:
    class Broken(Scripted):
        def tried(self, *_: object) -> tuple[Run, list[Outcome]]:
            raise KitStopped("the proxy stopped")

    status, report = searched(tmp_path, Broken(lambda _: False))
    assert status == 4
    assert report.broke is not None
    assert "the proxy stopped" in report.broke.actual


def test_an_interrupt_ends_the_runs_that_go_on(tmp_path: Path) -> None:
    class Interrupted(JobSubject):
        def drawn(self) -> Iterator[exploring.Strikes]:
            yield (Strike("kill"),)
            raise KeyboardInterrupt

    session: Any = Scripted(lambda _: False)
    ground = Ground([Run("calm")], {}, partial(Plan), 2)
    subject = Interrupted(copy("totals-kafka", tmp_path), session, ground, parallel=2, seed=1)
    asked = search.Search(tmp_path / "explore", tmp_path / "saved", 20, 20, 1, 2, "again")
    with pytest.raises(KeyboardInterrupt):
        search.explore(subject, asked, Console(file=io.StringIO()))
    assert session.stopped
    assert SearchReport.read(asked.out / SearchReport.FILE_NAME).interrupted


def test_a_job_that_gives_nothing_is_not_searched(tmp_path: Path) -> None:
    class Refused:
        def without_faults(self) -> Outcome:
            return Outcome(CALM, Verdict.FAIL, actual="the job gave nothing")

    session: Any = Refused()
    with pytest.raises(RequestError, match="JB-CALM fail: the job gave nothing"):
        exploring.subject(copy("totals-kafka", tmp_path), session, 1, 1)


def test_options_of_engines_are_refused(
    tmp_path: Path, tickproof: Callable[..., tuple[int, str]]
) -> None:
    job = copy("totals-kafka", tmp_path)
    for option in (("--hosts", 2), ("--secret", "ab")):
        status, said = tickproof("explore", job.path, *option, "--out", tmp_path)
        assert status == 2
        assert f"{option[0]}: expected for engines only" in said


@LONG
def test_the_mistake_of_a_twin_is_found(
    tmp_path: Path, tickproof: Callable[..., tuple[int, str]]
) -> None:
    expect_broker()
    job, out = copy("totals-sql", tmp_path, twin="late"), tmp_path / "out"
    options = ("--budget", "10m", "--shrink", "2m", "--times", 2, "--seed", 1, "--out", out)
    status, said = tickproof("explore", job.path, *options)
    assert status == 1, said
    (saved,) = (job.folder / "regressions").iterdir()
    assert schedules.load_all([saved])
    found = SearchReport.read(out / job.name / "explore" / SearchReport.FILE_NAME)
    assert found.failure is not None
    assert found.failure.kind == Reason.DUPLICATE
