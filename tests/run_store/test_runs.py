"""`tickproof runs`: what is found, what a tag keeps, what is removed and what never is."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.cli.conftest import tickproof as tickproof
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import run_store
from tickproof.conformance.session.runs_folder import KEEP_SESSIONS, runs_folder
from tickproof.conformance.testing.run_folder import RunFolder

RECIPE = {"kind": "numbers", "seed": 1, "records": 10, "partitions": 1}
DAY_S = 86_400


@pytest.fixture
def made(tmp_path):
    """Make a run below out/: its verdict, its age in days, its size in KiB at least."""

    def make(name, verdict="pass", days=0, kib=0, **facts):
        run = RunFolder(tmp_path / "out" / name, Scenario(name, "double", {}, RECIPE))
        run.facts(started=time.time() - days * DAY_S, **facts)
        if verdict:
            write_json(run.folder / "verdict.json", [{"requirement": "X", "verdict": verdict}])
        (run.folder / "stderr.log").write_bytes(bytes(kib << 10))
        for path in [*run.folder.rglob("*"), run.folder]:
            then = time.time() - days * DAY_S
            os.utime(path, (then, then))
        return run.folder

    return make


def listed(tickproof, *options):
    code, out, _ = tickproof("runs", "list", "out", "--json", *options)
    assert code == 0
    return json.loads(out)


def names(rows):
    return [row["scenario"] for row in rows]


def test_runs_are_listed_oldest_first_with_what_they_are(tickproof, made):
    made("young", "fail", days=1)
    made("old", days=9, kib=64)
    rows = listed(tickproof)
    assert names(rows) == ["old", "young"]
    assert [row["verdict"] for row in rows] == ["pass", "fail"]
    assert rows[0]["bytes"] > 64 << 10
    assert rows[0]["engine"] == "made"

    code, out, _ = tickproof("runs", "list", "out")
    assert code == 0
    assert "2 runs" in out
    assert out.index("old") < out.index("young")


def test_runs_are_found_by_verdict_engine_scenario_and_tag(tickproof, made):
    made("a")
    made("b", "fail", engine={"name": "other", "version": "1", "language": "x"})
    made("c", None)
    tickproof("runs", "tag", "out/a", "kept")
    assert names(listed(tickproof, "--verdict", "fail", "--verdict", "none")) == ["b", "c"]
    assert names(listed(tickproof, "--engine", "other")) == ["b"]
    assert names(listed(tickproof, "--scenario", "c")) == ["c"]
    assert names(listed(tickproof, "--tag", "kept")) == ["a"]


def test_a_run_has_the_report_of_its_session(tickproof, made, tmp_path):
    made("runs/session/one")
    (tmp_path / "out" / "report.html").touch()
    assert listed(tickproof)[0]["report"] == "out/report.html"


def test_prune_by_age_leaves_what_is_young(tickproof, made):
    made("old", days=9)
    made("young", days=1)
    code, out, _ = tickproof("runs", "prune", "out", "--older", "7d")
    assert code == 0
    assert "removed  out/old" in out
    assert names(listed(tickproof)) == ["young"]


def test_prune_by_size_removes_the_oldest_first(tickproof, made):
    for days in (3, 1, 2):
        made(f"of-{days}", days=days, kib=1024)
    tickproof("runs", "prune", "out", "--keep", "2200k")
    assert names(listed(tickproof)) == ["of-2", "of-1"]
    tickproof("runs", "prune", "out", "--keep", "1100k", "--verdict", "fail")
    assert names(listed(tickproof)) == ["of-2", "of-1"]


def test_a_dry_run_removes_nothing(tickproof, made):
    made("old", days=9)
    _, out, _ = tickproof("runs", "prune", "out", "--older", "7d", "--dry-run")
    assert "would remove  out/old" in out
    assert names(listed(tickproof)) == ["old"]


def test_a_tag_keeps_a_run_until_it_is_taken_away(tickproof, made):
    made("old", days=9)
    assert tickproof("runs", "tag", "out/old", "b", "a")[1].split() == ["out/old", "a", "b"]
    tickproof("runs", "prune", "out", "--older", "7d", "--keep", "0k")
    assert names(listed(tickproof)) == ["old"]
    tickproof("runs", "tag", "out/old", "--remove", "a")
    assert listed(tickproof)[0]["tags"] == ["b"]
    assert "no tags" in tickproof("runs", "tag", "out/old", "--remove")[1]
    tickproof("runs", "prune", "out", "--keep", "0k")
    assert listed(tickproof) == []


def test_a_session_with_a_tagged_run_is_kept_by_later_ones(made, tmp_path):
    runs = tmp_path / "out" / "runs"
    run_store.tag(made("runs/20200101-000000-seed1/one"), ["kept"])
    made("runs/20200101-000001-seed1/one")
    for number in range(KEEP_SESSIONS + 1):
        (runs / f"2020010{number + 2}-000000-seed1").mkdir()
    with runs_folder(runs, 1):
        left = sorted(path.name for path in runs.iterdir())
    assert left[0] == "20200101-000000-seed1"
    assert "20200101-000001-seed1" not in left


def test_a_session_that_goes_on_is_kept_by_later_ones(tmp_path):
    with runs_folder(tmp_path, 1) as long:
        for seed in range(2, KEEP_SESSIONS + 4):
            with runs_folder(tmp_path, seed):
                assert long.is_dir()
    with runs_folder(tmp_path, 9):
        assert not long.exists()
        assert len(list(tmp_path.iterdir())) == KEEP_SESSIONS + 1


@pytest.mark.parametrize(("days", "left"), [(0, ["running"]), (1, [])])
def test_what_may_still_be_written_is_not_removed(tickproof, made, days, left):
    folder = made("running", None)
    record = json.loads((folder / "run.json").read_text())
    del record["ended"]
    (folder / "run.json").write_text(json.dumps(record))
    for path in [*folder.rglob("*"), folder]:
        then = time.time() - days * DAY_S
        os.utime(path, (then, then))
    tickproof("runs", "prune", "out", "--keep", "0k")
    assert names(listed(tickproof)) == left


def test_what_is_no_run_is_left_alone(tickproof, made, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    folder = made("real", days=9)
    (folder / "link").symlink_to(outside)
    (tmp_path / "out" / "linked").symlink_to(outside)
    for name, text in (("other", "{}"), ("deep", "[" * 100_000), ("not", "no JSON")):
        (tmp_path / "out" / name).mkdir()
        (tmp_path / "out" / name / "run.json").write_text(text)
    tickproof("runs", "prune", "out", "--keep", "0k")
    assert not folder.exists()
    assert (outside / "mine").read_text() == "mine"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "deep",
        "linked",
        "not",
        "other",
    ]


def test_hostile_names_are_escaped(tickproof, made):
    made("a", engine={"name": "\x1b[31mred", "version": "1", "language": "x"})
    _, out, _ = tickproof("runs", "list", "out")
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prune", "out"), "expected --older AGE, --keep SIZE or both"),
        (("prune", "out", "--older", "week"), "--older: expected a number and one of s, m, h, d"),
        (("prune", "out", "--keep", "2"), "--keep: expected a number and one of k, M, G, T"),
        (("list", "gone"), "expected a folder"),
        (("tag", "out/a"), "TAG: expected at least one"),
        (("tag", "out/a", "../x"), "TAG: expected up to 40 letters"),
        (("tag", "gone", "x"), "gone does not exist"),
    ],
)
def test_wrong_usage_is_named(tickproof, made, words, said):
    made("a")
    code, _, error = tickproof("runs", *words)
    assert code == 2
    assert said in error
