"""Run folders with a timetable of ticks of 1 ms, each published 70 us after it was due."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.run_folder import RunFolder

T0 = 5_000_000_000
TICK = 1_000_000


def make_run(
    folder: Path,
    recipe: dict[str, Any],
    app: str = "passthrough",
    params: dict[str, str] | None = None,
    *,
    ticks: int | None = None,
) -> RunFolder:
    """Make a run of a recipe; ``ticks``: how many were published (all)."""
    run = RunFolder(folder, Scenario("made", app, params or {}, recipe))
    run.timetable(T0, TICK, late_ns=70_000, ticks=ticks)
    return run
