"""One good run folder, made once a process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tickproof.conformance.cli.main import main


@pytest.fixture(scope="module")
def polite_run(session_type) -> Callable[[Path], Path]:
    """Return a function that plays passthrough on a sound engine, and gives its run folder."""

    def play(folder: Path) -> Path:
        made = session_type(folder)
        done = made.judge([made.rogue("Polite")], "SL-PASSTHROUGH", "PR-FRAMES")
        made.close()
        assert done.status == 0
        (run,) = made.runs()
        return run

    return play


@pytest.fixture(scope="module")
def failed_run(session_type, tmp_path_factory) -> Path:
    """The folder of a run that a mutant failed."""
    made = session_type(tmp_path_factory.mktemp("failed"))
    done = made.tickproof(
        "run",
        "mutant:offset-not-state",
        "--only",
        "EO-ENGINE-DEATH",
        "--seed",
        7,
        "--secret",
        "c0ffee",
        "--out",
        "out",
        "-n",
        1,
    )
    made.close()
    assert done.status == 1, done.out + done.err
    (run,) = (path for path in made.runs() if path.name == "count-engine-death")
    return run


@pytest.fixture(scope="session")
def tickproof() -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command in this process: its status, all that it printed."""

    def run(*words: object) -> tuple[int, str]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            with pytest.raises(SystemExit) as ended:
                main([str(word) for word in words])
        return int(ended.value.code or 0), printed.getvalue()

    return run
