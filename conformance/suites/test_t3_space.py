"""Tier 3: what an engine claims holds at every point of the fault space that a session draws."""

from __future__ import annotations

from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.judge import decides
from tickproof.conformance.suites.schedules import point_held


@decides("EO-COVERING", "space-1")
def test_first_point(history: History) -> None:
    point_held(history)


def test_point(history: History, tickproof_point: str) -> None:
    """Decide on one point more; the plugin makes one of these for each that the session plays."""
    point_held(history)
