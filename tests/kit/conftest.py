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
