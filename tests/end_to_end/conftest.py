"""One good run folder, made once a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


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
