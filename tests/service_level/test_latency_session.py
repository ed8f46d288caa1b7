"""Whole sessions: real engines, a profile of their own, the verdict and the figures."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from tests.long import LONG, only_if_asked
from tests.service_level import session_profiles
from tests.suites import tampering
from tickproof.conformance.latency.samples import latencies
from tickproof.conformance.performance.measurement import RecordedRun

HOLDING = Path(__file__).parent / "engines" / "holding" / "engine.toml"
HELD_NS = 20_000_000


@pytest.fixture(scope="module")
def session(session_type, tmp_path_factory):
    """Judge the engine that holds each record for 20 ms; give what was printed, and the folder."""
    only_if_asked()
    sessions = session_type(tmp_path_factory.mktemp("latency"))
    profile = session_profiles.write(sessions.folder)
    done = sessions.tickproof("latency", HOLDING, "--profile", profile, "--seed", 7, "--out", "out")
    yield sessions, done, next((sessions.folder / "out").glob("*seed7"))
    sessions.close()


def read(folder: Path) -> dict:
    return json.loads((folder / "latency.json").read_text())


def tidy_copy(folder: Path, parent: Path) -> Path:
    """Copy a session as it was left: without what other tests made again."""
    return shutil.copytree(folder, parent / "elsewhere", ignore=shutil.ignore_patterns("input"))


def played(folder: Path, name: str) -> np.ndarray:
    """Return the steady latencies of a kept run, in nanoseconds."""
    return latencies(RecordedRun(folder / name).steady)


def test_a_session_passes_and_says_so_first(session):
    _, done, folder = session
    assert done.status == 0, done.out + done.err
    first, *rest = done.out.strip().splitlines()
    assert first.split() == ["✓", "pass", "holding", "1.0.0", "on", "profile", "short"]
    assert all(len(line) <= 80 for line in rest if "reproduce" not in line and "folder" not in line)
    assert f"tickproof latency {HOLDING} --profile" in done.out
    assert "run 5 of 5: judging" in done.err
    assert not list(folder.glob("*/input")) and not list(folder.glob("*/state"))
    found = read(folder)
    assert found["decision"]["reasons"] == []
    assert [run["ended"] for run in found["runs"]] == ["completed"] * 5
    assert [run["seed"] for run in found["runs"]] == [7, 8, 9, 10, 11]


def test_a_known_delay_is_measured_from_end_to_end(session):
    """From p1 to p99: 20 ms, and as much more as the machine showed in the same minute."""
    _, _, folder = session
    numbers = range(1, 6)
    runs = [played(folder, f"run-{number}") for number in numbers]
    floors = [played(folder, f"floor-{number}") for number in numbers]
    assert min(map(np.min, runs)) >= HELD_NS
    assert all(len(run) == 2_000 for run in runs)
    stirred = max(row["hiccup"]["p99"] + row["late"]["p99"] for row in read(folder)["runs"]) * 1e3
    for percentile in (1, 10, 50, 90, 99):
        held = np.median([np.percentile(run, percentile) for run in runs]) - HELD_NS
        floor = np.median([np.percentile(floor, percentile) for floor in floors])
        # The engine is a Python of several threads, the null engine one of one.
        assert held <= 10 * floor + stirred, percentile


def test_runs_leave_a_log_for_other_tools(session):
    sessions, _, folder = session
    for run in read(folder)["runs"]:
        log = folder / run["run"] / "latency.hlog"
        whole = HdrHistogram(1, 3_600_000_000_000, 3)
        reader = HistogramLogReader(str(log), whole)
        while (interval := reader.get_next_interval_histogram()) is not None:
            if interval.get_tag() == "steady":
                whole.add(interval)
        assert whole.get_total_count() == run["samples"]
        assert whole.get_max_value() / 1e3 == pytest.approx(run["percentiles"]["max"], rel=2e-3)
        assert (folder / run["run"] / "host.json").is_file()
    assert not sessions.processes()


def test_again_gives_the_same_from_the_folder_alone(session, tmp_path):
    sessions, done, folder = session
    copy = tidy_copy(folder, tmp_path)
    again = sessions.tickproof("latency", "--again", copy, "--json")
    assert again.status == done.status
    before, after = read(folder), json.loads(again.out)
    assert after["runs"] == before["runs"] and after["decision"] == before["decision"]
    assert not list(copy.glob("*/input"))
    assert read(copy) == before  # nothing is written


def test_what_lies_in_the_folder_decides(session, tmp_path):
    """A limit below the floor is unknown; a wrong answer is a fail, whatever its speed."""
    sessions, _, folder = session
    copy = tidy_copy(folder, tmp_path)
    data = read(copy)
    data["profile"]["limits"]["p50"] = 1.0
    (copy / "latency.json").write_text(json.dumps(data))
    again = sessions.tickproof("latency", "--again", copy)
    assert again.status == 3
    assert "KIT_FLOOR" in again.out and "limit 1 us, below twice" in again.out

    with (copy / "run-3" / "output" / "s0.log").open("r+b") as log:
        log.seek(1_000)
        log.write(b"\xff\xfe\xfd\xfc")
    again = sessions.tickproof("latency", "--again", copy)
    assert again.status == 2
    assert "run-3/output/s0.log: changed after it was recorded" in again.err
    tampering.sealed(copy / "run-3")
    again = sessions.tickproof("latency", "--again", copy)
    assert again.status == 1
    assert "WRONG_ANSWERS" in again.out and "run-3" in again.out


def test_a_folder_that_is_not_whole_is_named(session, tmp_path):
    sessions, _, folder = session
    copy = tidy_copy(folder, tmp_path)
    (copy / "run-2" / "output" / "s0.log").unlink()
    again = sessions.tickproof("latency", "--again", copy)
    assert again.status == 2
    assert "run-2/output/s0.log" in again.err and "Traceback" not in again.err


@LONG
def test_an_engine_that_fails_is_a_fail(sessions):
    profile = session_profiles.write(sessions.folder, duration=0.4)
    ends = sessions.toml("ends", ["{python}", "-c", "pass"])
    done = sessions.tickproof("latency", ends, "--profile", profile, "--out", "out")
    assert done.status == 1
    assert "ENGINE_FAILURE run-1: EXITED" in " ".join(done.out.split())
    (folder,) = sessions.folder.glob("out/*ends*")
    again = sessions.tickproof("latency", "--again", folder)
    assert (again.status, again.out.splitlines()[:4]) == (1, done.out.splitlines()[:4])


@LONG
def test_ctrl_c_leaves_no_process(sessions, wait_until):
    profile = session_profiles.write(sessions.folder, duration=30.0)
    process = sessions.start("latency", HOLDING, "--profile", profile, "--out", "out")
    assert wait_until(lambda: list(sessions.folder.glob("out/*/floor-1/ticks.bin")), 60)
    assert sessions.processes()
    os.killpg(process.pid, signal.SIGINT)
    done = sessions.ended(process)
    assert done.status == 130
    assert done.err.rstrip().splitlines()[-1].startswith("tickproof: interrupted")
    assert "Traceback" not in done.err
    assert wait_until(lambda: not sessions.processes(), 10)


def test_a_session_leaves_its_page_and_report_makes_it_again(session):
    sessions, _, folder = session
    html = (folder / "report.html").read_text("utf-8")
    assert "It answers in time: every limit of the profile holds." in html
    assert html.count('<svg class="timeline"') == 4  # percentiles, and the three slowest runs
    assert html.count('class="limit" d=') == 2
    assert "No picture of the run" not in html

    done = sessions.tickproof("report", folder, "-o", "mine.html")
    assert done.status == 0, done.err
    assert (sessions.folder / "mine.html").read_text("utf-8") == html


def test_runs_that_are_gone_cost_their_pictures_only(session, tmp_path):
    sessions, _, folder = session
    (tmp_path / "alone").mkdir()
    shutil.copy(folder / "latency.json", tmp_path / "alone")
    done = sessions.tickproof("report", tmp_path / "alone")
    assert done.status == 0, done.err
    html = (tmp_path / "alone" / "report.html").read_text("utf-8")
    assert html.count('<svg class="timeline"') == 1
    assert html.count("No picture of the run: HistoryError") == 3
