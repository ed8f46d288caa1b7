"""Searches and given schedules on live engines, as users start them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.engines.test_network import needs_hosts
from tests.long import LONG
from tests.machine import needs, no_shared_memory
from tickproof.conformance.faults import schedule_file
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest import mutants
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_OK, EXIT_UNKNOWN

needs_processes = needs(no_shared_memory())  # a search plays runs in several

MUTANT = "second-life-forgotten"
TWO_DEATHS = """
app = "count"
workers = 1
rate = 100.0
params = { emit = "every" }
input = { records = 40, keys = 2, partitions = 1 }

[[fault]]
do = "kill"
target = "engine"
at = "fetched"
fraction = 0.25
cut = true

[[fault]]
do = "kill"
target = "engine"
at = "fetched"
fraction = 0.6
"""
PARTITION = """
app = "count"
rate = 2000.0
params = { emit = "every" }
input = { records = 4000, keys = 20 }
[[fault]]
do = "partition"
target = "host"
peer = "log"
at = "fetched"
fraction = 0.3
seconds = 0.5
"""
NO_INPUT = TWO_DEATHS.replace("records = 40", "records = 0")
USAGE, INTERRUPTED = 2, 130


@pytest.fixture
def schedule(tmp_path):
    path = tmp_path / "two-deaths.toml"
    path.write_text(TWO_DEATHS)
    return path


def miniature(folder: Path, *regressions: str) -> Path:
    """Copy the miniature into a folder, with regressions beside it."""
    shutil.copytree(fixtures() / "engines" / "miniature", folder)
    (folder / "regressions").mkdir(exist_ok=True)
    for number, text in enumerate(regressions):
        (folder / "regressions" / f"number-{number}.toml").write_text(text)
    return folder / "engine.toml"


def printed(out: str) -> schedule_file.Schedule:
    """Return the schedule that a counterexample prints to be copied."""
    lines = out.split("  schedule\n", 1)[1].splitlines()
    text = "\n".join(itertools.takewhile(lambda line: line[:4] in ("    ", ""), lines))
    return schedule_file.parse(text, "it")


@LONG
@pytest.mark.parametrize(
    ("id_", "shrink_s", "most_records"), [("restart-from-zero", 1, None), (MUTANT, 20, 50)]
)
@needs_processes
def test_a_defect_is_found_shrunk_and_saved(sessions, id_, shrink_s, most_records):
    done = sessions.tickproof(
        "explore",
        f"mutant:{id_}",
        "--budget",
        "90s",
        "--shrink",
        f"{shrink_s}s",
        "--times",
        2,
        "--seed",
        1,
        "--out",
        "out",
        "-n",
        2,
    )
    assert done.status == EXIT_FAIL, done.out + done.err
    out = sessions.folder / "out" / f"miniature-{id_}"
    summary = json.loads((out / "explore" / "explore.json").read_text())
    failure = summary["failure"]
    first = schedule_file.parse(failure["first"], "first")
    (saved,) = (out / "regressions").glob("*.toml")
    smallest = schedule_file.load(saved)
    assert schedule_file.parse(failure["smallest"], "it").fault == smallest.fault
    assert smallest.failure.confidence == failure["confidence"] == "2 of 2"
    assert smallest.failure.reason == failure["kind"]
    assert len(smallest.fault) <= len(first.fault)
    assert smallest.input.records <= first.input.records
    if most_records is not None:
        assert smallest.input.records <= most_records < first.input.records
    assert printed(done.out).fault == smallest.fault
    shown = (out / "explore" / "report.html").read_text()
    assert "It fails in 2 of 2 runs" in shown
    assert '<svg class="timeline"' in shown, "the run that was kept is drawn"
    # The run that proves it is kept, and judged the same from disk.
    again = sessions.tickproof("check", out / "explore" / "failed")
    assert again.status == EXIT_FAIL
    # The same schedule, played by `run`, in the name of the mutant and of the sound engine.
    played = sessions.tickproof("run", f"mutant:{id_}", "--schedule", saved, "--out", "run")
    assert played.status == EXIT_FAIL
    result = played.results_of(f"miniature+{id_}")["EO-SCHEDULE"]
    assert result["evidence"]["schedule"]


@LONG
@needs_processes
def test_sound_engine_survives_a_short_search(sessions):
    done = sessions.tickproof(
        "explore", "miniature", "--budget", "6s", "--seed", 5, "--out", "out", "--save", "kept"
    )
    assert done.status == EXIT_OK, done.out + done.err
    summary = json.loads((sessions.folder / "out/miniature/explore/explore.json").read_text())
    assert summary["failure"] is None
    assert summary["verdicts"].keys() <= {"pass", "unknown"}
    assert summary["verdicts"]["pass"] > 0
    assert summary["faults_fired"] > 0
    shown = (sessions.folder / "out/miniature/explore/report.html").read_text()
    assert "No schedule broke it." in shown
    assert not (sessions.folder / "kept").exists()


@LONG
def test_given_schedule_is_played_instead_of_the_suites(sessions, schedule):
    done = sessions.tickproof("run", "miniature", "--schedule", schedule, "--out", "out")
    assert done.status == EXIT_OK, done.out
    assert set(done.results) == {"EO-SCHEDULE"}
    assert [run.name for run in sessions.runs()] == ["schedule-two-deaths"]
    result = done.results["EO-SCHEDULE"]
    said = schedule_file.to_scenario(schedule_file.parse(result["evidence"]["schedule"], "it"))
    assert said.faults == schedule_file.to_scenario(schedule_file.load(schedule)).faults
    assert len(result["evidence"]["faults"]) == 2
    assert "--schedule two-deaths.toml" in result["reproduce"]


@LONG
def test_counterexample_of_a_schedule_prints_it_to_be_copied(sessions, schedule):
    done = sessions.tickproof("run", f"mutant:{MUTANT}", "--schedule", schedule, "--out", "out")
    assert done.status == EXIT_FAIL, done.out
    assert printed(done.out).fault == schedule_file.load(schedule).fault


@LONG
def test_fault_that_misses_is_unknown(sessions, tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text(NO_INPUT)
    done = sessions.tickproof("run", "miniature", "--schedule", path, "--out", "out")
    assert done.status == EXIT_UNKNOWN, done.out
    assert done.results["EO-SCHEDULE"]["reason"] == "KILL_MISSED"


@LONG
def test_regressions_beside_the_engine_are_played_with_its_tier(sessions, tmp_path):
    engine = miniature(tmp_path / "engine", TWO_DEATHS, TWO_DEATHS.replace("40", "60"))
    done = sessions.tickproof("run", engine, "--only", "EO-SCHEDULE", "--out", "out", "-n", 2)
    assert done.status == EXIT_OK, done.out
    names = {run.name for run in sessions.runs()}
    assert names >= {"count-mixed-deaths", "schedule-number-0", "schedule-number-1"}


@needs_hosts
@LONG
def test_a_regression_of_hosts_is_played_on_hosts_and_named_without(sessions, tmp_path):
    engine = miniature(tmp_path / "engine", TWO_DEATHS, PARTITION)
    words = ["run", engine, "--only", "EO-SCHEDULE", "--out", "out"]
    done = sessions.tickproof(*words)
    assert done.status == EXIT_OK, done.out
    assert "schedule-number-1" not in {run.name for run in sessions.runs()}
    assert "1 not asked (about several hosts: needs --hosts)" in " ".join(done.out.split())
    done = sessions.tickproof(*words, "--hosts", 3)
    assert done.status == EXIT_OK, done.out
    assert "schedule-number-1" in {run.name for run in sessions.runs()}
    assert "pass on 3 hosts" in done.out


@LONG
@needs_hosts
@needs_processes
def test_a_search_on_hosts_strikes_them(sessions):
    done = sessions.tickproof(
        "explore", "miniature", "--hosts", 3, "--budget", "20s", "--seed", 5, "--out", "out"
    )
    assert done.status == EXIT_OK, done.out + done.err
    assert " host at " in done.out


@LONG
def test_a_regression_that_comes_back_fails(sessions, tmp_path):
    mutant = mutants.find(f"mutant:{MUTANT}", fixtures())
    engine = mutants.make(mutant, fixtures(), tmp_path / "engine")
    folder = engine.parent / "regressions"
    folder.mkdir(exist_ok=True)
    (folder / "old.toml").write_text(TWO_DEATHS)
    done = sessions.tickproof("run", engine, "--only", "EO-SCHEDULE", "--out", "out")
    assert done.status == EXIT_FAIL, done.out
    assert {run.name for run in sessions.runs()} >= {"schedule-old"}


def test_what_an_engine_does_not_claim_is_not_played(sessions, schedule):
    done = sessions.tickproof("run", sessions.rogue("Sound"), "--schedule", schedule)
    result = done.results_of("Sound")["EO-SCHEDULE"]
    assert result["verdict"] == "not-claimed", result
    assert sessions.runs() == []
    done = sessions.tickproof("explore", sessions.rogue("Sound"), "--budget", "5s")
    assert done.status == USAGE
    assert "expected an app with state exactly-once" in done.err


def test_wrong_schedules_and_options_are_usage_errors(sessions, schedule, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text(TWO_DEATHS.replace("kill", "stroke"))
    for words, said in (
        (["run", "miniature", "--schedule", bad], "bad.toml: [[fault]] 1: do: expected one of"),
        (["run", miniature(tmp_path / "e", "app = 3")], "number-0.toml: app: expected"),
        (["run", "miniature", "--schedule", schedule, "--tier", 3], "without --tier"),
        (["explore", "miniature", "--budget", "soon"], "expected a time such as 90s, 10m"),
        (["explore", "miniature", "--budget", "0s"], "expected a time such as 90s, 10m"),
    ):
        done = sessions.tickproof(*words)
        assert done.status == USAGE, words
        assert said in done.err.replace("\n", ""), done.err
    assert sessions.runs() == []


@LONG
@needs_processes
def test_ctrl_c_ends_a_search_and_leaves_nothing(sessions):
    search = sessions.start("explore", "miniature", "--budget", "90s", "--out", "out")
    for line in search.stdout:
        if "pass" in line:
            break
    os.killpg(search.pid, signal.SIGINT)
    done = sessions.ended(search)
    assert done.status == INTERRUPTED
    assert "Traceback" not in done.err
