"""Whole sessions: gaps, tiers, processes that die, and the suites under plain pytest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.long import LONG
from tickproof import conformance
from tickproof.conformance.resources import fixtures

DEADLINE_S = 120
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

KILLS_THE_KIT = """
import psutil, time
parents = psutil.Process().parents()
above = next(i for i, p in enumerate(parents) if "tickproof.conformance.cli.main" in p.cmdline())
parents[above - 1].kill()  # the process that tests, not the one that leads
time.sleep(60)
"""


def judge(sessions, engine, *only, workers=1):
    """Judge an engine; return the exit status and the results by requirement."""
    chosen = ["--only", ",".join(only)] if only else ["--tier", 0, "--tier", 1]
    done = sessions.tickproof("run", engine, *chosen, "--seed", 1, "--out", "out", "-n", workers)
    (report,) = [json.loads(p.read_text()) for p in sessions.folder.glob("out/*/report.json")]
    return done, {row["id"]: row for row in report["requirements"]}


@pytest.fixture
def miniature(tmp_path):
    """Give a copy of the miniature with known gaps of one's own."""

    def copy(**gaps: str) -> Path:
        folder = tmp_path / "engines" / f"copy{len(list(tmp_path.glob('engines/*')))}"
        shutil.copytree(fixtures() / "engines" / "miniature", folder)
        path = folder / "engine.toml"
        lines = [f'{name.replace("_", "-")} = "{why}"' for name, why in gaps.items()]
        path.write_text("\n".join([path.read_text("utf-8"), "[known_gaps]", *lines]), "utf-8")
        return path

    return copy


def test_gap_that_no_longer_shows_is_an_error(sessions, miniature):
    done, results = judge(
        sessions, miniature(PR_HELLO="never answered hello"), "PR-HELLO", "PR-DEPLOY"
    )
    assert done.status == 1
    assert results["PR-HELLO"]["verdict"] == "gap-fixed"
    assert "never answered hello" in results["PR-HELLO"]["expected"]
    assert results["PR-DEPLOY"]["verdict"] == "pass"


def test_gap_that_shows_is_known_and_no_failure(sessions, miniature):
    path = miniature(PR_STOP="exits with 7")
    adapter = path.parent / "adapter.py"
    text = adapter.read_text("utf-8")
    assert text.count("self._end(0, request") == 1
    adapter.write_text(text.replace("self._end(0, request", "self._end(7, request"), "utf-8")
    done, results = judge(sessions, path, "PR-STOP", "PR-HELLO")
    assert done.status == 0, done.out
    assert results["PR-STOP"]["verdict"] == "known-gap"
    assert results["PR-STOP"]["evidence"]["gap"] == "exits with 7"
    assert results["PR-HELLO"]["verdict"] == "pass"


def test_tier_above_a_failure_is_blocked_and_says_by_what(sessions):
    engine = sessions.toml("exits", ["{python}", "-c", "raise SystemExit(3)"])
    done, results = judge(sessions, engine, workers=2)
    assert done.status == 1
    failed = {id_ for id_, row in results.items() if row["verdict"] == "fail"}
    blocked = {id_: row for id_, row in results.items() if row["verdict"] == "blocked"}
    assert "PR-HELLO" in failed
    assert failed == {"PR-HELLO"}
    assert {row["tier"] for row in blocked.values()} == {0, 1}
    assert all(row["blocked_by"] == ["PR-HELLO"] for row in blocked.values())
    assert {row["reason"] for row in blocked.values() if row["tier"] == 1} == {"LOWER_TIER"}
    assert {row["reason"] for row in blocked.values() if row["tier"] == 0} == {"EXITED"}


@LONG
def test_engine_that_promises_nothing_asked_for_is_not_green(sessions):
    engine = sessions.toml("idle", ["{python}", "-c", "raise SystemExit(3)"])
    done, results = judge(sessions, engine, "EO-ENGINE-DEATH")
    assert done.status == 5
    assert results["EO-ENGINE-DEATH"]["verdict"] == "not-claimed"


@LONG
def test_session_whose_process_died_is_a_kit_error(sessions):
    engine = sessions.toml("killer", ["{python}", "-c", KILLS_THE_KIT])
    # A process of its own: the engine finds the kit by its command line.
    words = ("run", engine, "--only", "PR-HELLO,SL-ONE-WORKER", "-n", 2, "--isolation", "none")
    done = sessions.ended(sessions.start(*words))
    assert done.status == 4, done.out


# -- plain pytest --------------------------------------------------------------------------


def plain(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as after an installation: with the entry points of pyproject.toml."""
    root = str(Path(conformance.__file__).parents[2])
    if PYPROJECT.exists():
        site = folder.parent / f"{folder.name}-site" / "tickproof-0.dist-info"
        site.mkdir(parents=True)
        (site / "METADATA").write_text("Metadata-Version: 2.1\nName: tickproof\nVersion: 0\n")
        points = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["entry-points"]["pytest11"]
        lines = [f"{name} = {module}" for name, module in points.items()]
        (site / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
        root = f"{site.parent}{os.pathsep}{root}"
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--pyargs",
            "tickproof.conformance.suites",
            "-p",
            "no:cacheprovider",
            *arguments,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=os.environ | {"PYTHONPATH": root},
    )


@pytest.mark.parametrize("workers", [[], pytest.param(["-n", "2"], marks=LONG)])
def test_suites_run_under_plain_pytest_in_an_empty_folder(tmp_path, workers):
    done = plain(
        tmp_path,
        "--engine",
        "miniature",
        "--tickproof-only",
        "SL-PASSTHROUGH",
        "--tickproof-only",
        "PR-HELLO",
        *workers,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert list(tmp_path.glob("tickproof-out/pytest/passthrough/run.json"))


def test_suites_without_an_engine_are_skipped_with_the_reason(tmp_path):
    done = plain(tmp_path, "-rs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no engine: say --engine" in done.stdout
    assert "passed" not in done.stdout
    assert "failed" not in done.stdout


def test_a_session_that_judges_nothing_is_not_green_under_plain_pytest(tmp_path):
    done = plain(tmp_path, "--engine", "minimal", "--tickproof-only", "EO-PAUSE")
    assert "1 skipped" in done.stdout
    assert done.returncode == 5, done.stdout + done.stderr


@LONG
def test_unknown_requirement_is_wrong_usage_under_plain_pytest(tmp_path):
    done = plain(tmp_path, "--engine", "minimal", "--tickproof-only", "EO-PAUSES")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--tickproof-only: no requirement EO-PAUSES; the nearest are EO-PAUSE" in done.stderr


@LONG
def test_unknown_engine_is_wrong_usage_under_plain_pytest(tmp_path):
    done = plain(tmp_path, "--engine", "no-such-engine")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no-such-engine" in done.stderr


def test_a_secret_that_is_none_is_wrong_usage_under_plain_pytest(tmp_path):
    done = plain(tmp_path, "--engine", "minimal", "--tickproof-secret", "xyz\x1b")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (said,) = filter(None, done.stderr.splitlines())
    assert said.endswith(r"--tickproof-secret: expected 1 to 32 hexadecimal digits, got 'xyz\x1b'")


@LONG
def test_processes_of_xdist_have_one_secret(tmp_path):
    done = plain(tmp_path, "--engine", "miniature", "--tickproof-tier", "0", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [json.loads(path.read_text()) for path in tmp_path.glob("**/run.json")]
    (secret,) = {run["scenario"]["recipe"]["secret"] for run in runs}
    assert len(runs) > 1 and len(secret) == 32
