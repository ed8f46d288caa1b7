"""What pytest loads of the kit in the projects of others changes nothing there."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tickproof.conformance.jobs import pytest_plugin as of_jobs
from tickproof.conformance.session import pytest_options

ROOT = Path(__file__).parents[2]
TESTS = """
import signal
import sys

import pytest


@pytest.fixture
def history():
    return "mine"


@pytest.mark.decides("all by itself")
def test_somebody_elses(history):
    assert history == "mine"


def test_the_kit_is_not_loaded():
    light = {"session", "session.pytest_options", "jobs", "jobs.pytest_plugin"}
    kit = {name for name in sys.modules if name.startswith("tickproof.conformance.")}
    assert kit == {f"tickproof.conformance.{name}" for name in light}


def test_signals_are_as_before():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["here", "xdist"])
def test_a_project_of_others_runs_as_without_the_kit(tmp_path: Path, workers: list[str]) -> None:
    (tmp_path / "test_theirs.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = decides: what they mean by it\n")
    plugins = ("-p", pytest_options.__name__, "-p", of_jobs.__name__)
    xdist = ("-p", "xdist.plugin") if workers else ()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *xdist, "-p", "no:cacheprovider", *workers],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize(("given", "seed"), [((), 1), (("--tickproof-seed", "7"), 7)])
def test_a_job_in_a_test_gets_the_seed_of_the_command(
    tmp_path: Path, given: tuple[str, ...], seed: int
) -> None:
    (tmp_path / "test_seed.py").write_text(f"def test(tickproof): assert tickproof.seed == {seed}")
    plugins = ("-p", pytest_options.__name__, "-p", of_jobs.__name__)
    words = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    called = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    done = called([*words, *given])
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(called([*words, "--help"]).stdout.split())
    assert "--tickproof-seed=N Decides inputs and kills. Default: 1" in said
