"""Tier 3: schedules of several faults: one drawn from the seed, and those that are given."""

from __future__ import annotations

from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.judge import decides
from tickproof.conformance.suites.schedules import held


@decides("EO-SCHEDULE", "count-mixed-deaths")
def test_deaths_of_several_kinds(history: History) -> None:
    held(history)


def test_schedule(history: History, tickproof_schedule: str) -> None:
    """Decide on one given schedule; the plugin makes one of these for each."""
    held(history)
