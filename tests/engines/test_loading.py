"""Less is done while modules are loaded, and what that takes is not left to engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.launcher import BROKER_VARIABLE

VARIABLE = "OPENBLAS_NUM_THREADS"
ROOT = Path(__file__).parents[2]
LOADS = f"""
import gc, json, os
from tickproof.conformance.engines.loading import loading
with loading():
    within = os.environ["{VARIABLE}"], gc.isenabled()
    import numpy
threads = len(os.listdir("/proc/self/task"))
print(json.dumps([within, (os.environ.get("{VARIABLE}"), gc.isenabled()), threads]))
"""
#: An engine that says what its environment holds, and ends.
SAYS = "import json, os, sys; print(json.dumps(dict(os.environ)), file=sys.stderr)"


@pytest.mark.parametrize(("given", "within"), [(None, "1"), ("2", "2")])
def test_numpy_is_loaded_without_threads_unless_the_user_says_so(given, within) -> None:
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE}
    environment |= {"PYTHONPATH": str(ROOT)} | ({VARIABLE: given} if given else {})
    said = subprocess.check_output([sys.executable, "-c", LOADS], env=environment, text=True)

    *switches, threads = json.loads(said)
    assert switches == [[within, False], [given, True]]
    assert given is not None or threads == 1


def test_the_collector_stays_off_where_it_was_off() -> None:
    code = "import gc; gc.disable()" + LOADS
    said = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert json.loads(said)[1][1] is False


@pytest.mark.parametrize("workers", [1, 2])
def test_an_engine_has_the_environment_of_the_command(
    sessions: Any, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setenv(BROKER_VARIABLE, "where the kit's broker is, with its password")
    engine = sessions.toml("telling", ["{python}", "-c", SAYS])
    # A process of its own, which loads all that it needs.
    words = ("run", engine, "--only", "PR-HELLO,PR-DRAIN", "--out", "out", "-n", workers)
    sessions.ended(sessions.start(*words))

    said = [json.loads((run / "stderr.log").read_text()) for run in sessions.runs()]
    assert said
    for environment in said:
        given = os.environ | {"PYTHONPATH": environment["PYTHONPATH"], "CI": "1"}
        # pytest loads readline, which says how large the terminal is to all that it starts.
        own = {process_table.RUN_VARIABLE, "TMPDIR", "LC_CTYPE", "COLUMNS", "LINES"}
        kept = (BROKER_VARIABLE, "PYTEST_")
        assert {k: v for k, v in environment.items() if k not in own} == {
            k: v for k, v in given.items() if k not in own and not k.startswith(kept)
        }
