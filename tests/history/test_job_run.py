"""The record of a job's run: what is written is read, and nothing else is believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.explain import job_runs
from tickproof.conformance.history import job_run
from tickproof.conformance.history.job_run import Fired, Strike
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

STRUCK = {"do": "kill", "at": "staged", "t_s": 1.5, "worker": "worker 0", "fetched": 7}
FACTS: dict[str, Any] = {
    "job": "/there/job.toml",
    "job_name": "orders",
    "name": "commit",
    "seed": 5,
    "started": 1_795_000_000.0,
    "seconds": 20.5,
    "ended": "committed offsets",
    "strikes": [{"do": "kill", "at": "staged", "nth": 2, "whole": False, "seconds": 0.0}],
    "fired": [STRUCK | {"under_way": "a held commit"}, STRUCK | {"under_way": ""}],
    "missed": ["pause at staged"],
    "exits": ["worker 0 ended by itself with status 1"],
    "timeouts": {"session": "6 s, asked for 45 s"},
    "recoveries_s": [2.5],
    "stderr": ["the last words"],
}


def lost(requirement: str, actual: str = "nothing") -> Outcome:
    return Outcome(
        requirement,
        Verdict.FAIL,
        scenario="commit",
        reason=Reason.LOST,
        expected="a row",
        actual=actual,
        story={"brief": ["one sentence", "another"]},
        evidence={"keys": [f"key {n}" for n in range(12)]},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    job_run.write(tmp_path, FACTS, {"totals": [("a", {"n": 1}), ("b", {"n": 2})]})
    return tmp_path


def test_what_was_written_is_read(folder: Path) -> None:
    run = job_run.read(folder)
    assert run.strikes == [Strike("kill", "staged", 2)]
    assert run.fired[0] == Fired("kill", "staged", 1.5, "worker 0", 7, "a held commit")
    assert run.rows == {"totals": 2}
    lines = (folder / "output" / "totals.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [["a", {"n": 1}], ["b", {"n": 2}]]


def test_a_run_whose_session_did_not_end_has_decided_nothing(folder: Path) -> None:
    assert job_run.verdict(folder) == []
    job_run.save_verdict(folder, [lost("JB-LOST")])
    (decided,) = job_run.verdict(folder)
    assert (decided.requirement, decided.verdict, decided.run) == ("JB-LOST", Verdict.FAIL, ".")


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("format", 1, "format"),
        ("seed", "5", "seed"),
        ("started", float(10**13), "started"),
        ("strikes", [{"do": "rm -rf"}], "strikes.0.do"),
        ("strikes", [{"do": "kill", "nth": 0}], "strikes.0.nth"),
        ("strikes", [{"do": "pause", "seconds": 1e30}], "strikes.0.seconds"),
        ("fired", [{"do": "kill"}], "fired.0.at"),
        ("timeouts", {"session": 6}, "timeouts.session"),
        ("rows", [], "rows"),
    ],
)
def test_a_record_of_another_shape_is_refused_with_its_key(
    folder: Path, key: str, value: Any, where: str
) -> None:
    path = folder / job_run.FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(HistoryError, match=f"{path}: {where}: "):
        job_run.read(folder)


@pytest.mark.parametrize("missing", sorted(FACTS.keys() - {"job"}))
def test_each_fact_is_expected(tmp_path: Path, missing: str) -> None:
    job_run.write(tmp_path, {k: v for k, v in FACTS.items() if k != missing}, {})
    with pytest.raises(HistoryError, match=f"{missing}: Field required"):
        job_run.read(tmp_path)


def test_a_link_is_not_followed(folder: Path) -> None:
    (folder / "elsewhere").write_text((folder / job_run.FILE).read_text())
    (folder / job_run.FILE).unlink()
    (folder / job_run.FILE).symlink_to(folder / "elsewhere")
    with pytest.raises(HistoryError, match="found a link"):
        job_run.read(folder)


def test_a_verdict_that_there_is_not_is_refused(folder: Path) -> None:
    row = lost("JB-LOST").to_json() | {"verdict": "splendid"}
    (folder / job_run.VERDICT).write_text(json.dumps([row]))
    with pytest.raises(HistoryError, match=r"verdict\.json: 0\.verdict"):
        job_run.verdict(folder)


def test_a_run_is_told_with_each_fault_and_what_it_met(folder: Path) -> None:
    (done,) = job_runs.parts(job_run.read(folder), [])
    assert done.title == "commit of orders, seed 5"
    assert list(done.fields) == [
        ("fault", "1.5 s: worker 0 killed at staged, during a held commit"),
        ("fault", "1.5 s: worker 0 killed at staged; it met nothing under way"),
        ("missed", "pause at staged"),
        ("exit", "worker 0 ended by itself with status 1"),
        ("timeout", "session: 6 s, asked for 45 s"),
        ("went on", "2.5 s after its death"),
        ("output", "totals: 2 rows"),
        ("end", "after 20.5 s: committed offsets"),
        ("stderr", "the last words"),
    ]


def test_what_two_requirements_see_alike_is_told_once(folder: Path) -> None:
    outcomes = [lost("JB-LOST"), lost("JB-COMMIT"), lost("JB-VALUES", "another row")]
    _, both, other = job_runs.parts(job_run.read(folder), outcomes)
    assert (both.title, other.title) == ("JB-LOST, JB-COMMIT fail: lost", "JB-VALUES fail: lost")
    assert both.fields[:4] == [
        ("expected", "a row"),
        ("actual", "nothing"),
        ("story", "one sentence"),
        ("", "another"),
    ]
    assert both.fields[4][1].endswith("key 9, and 2 more")


def test_the_jobs_own_words_are_escaped_and_cut(tmp_path: Path) -> None:
    hostile = "\x1b[31mred" + "long " * 1_000
    job_run.write(tmp_path, FACTS | {"stderr": [hostile], "job_name": hostile}, {})
    (done,) = job_runs.parts(job_run.read(tmp_path), [])
    said = dict(done.fields)["stderr"]
    assert said.startswith("\\x1b[31mred")
    assert len(said) < 1_100
    assert "\x1b" not in done.title
