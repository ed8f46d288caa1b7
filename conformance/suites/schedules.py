"""Schedules as scenarios of tier 3: named schedule-NAME, judged as a whole."""

from __future__ import annotations

from typing import Final

from conformance.faults.language import PREFIX
from conformance.history.folder import History
from conformance.suites.evidence import CHANGED, LOSS, ORDER_KINDS, VALUES, whole
from conformance.suites.judging import JUDGES, Judge, Unknown, fired, judged
from conformance.suites.promises import twice

#: The requirement that every schedule decides.
REQUIREMENT: Final = "EO-SCHEDULE"
#: At these moments an engine may hold nothing.
_IDLE: Final = frozenset(("recovery", "drained", "checkpoint"))


def held(history: History) -> None:
    """All that the engine claims held, and every fault met what it was meant for.

    Where output may come twice and a replay may differ, two versions of it are no fault.
    """
    kinds = [*VALUES, *LOSS, *twice(history)]
    if history.app == "count":
        kinds += ORDER_KINDS
    if history.claims["delivery"] == "exactly-once":
        kinds += CHANGED
    judged(history, whole(history), kinds)
    steps = history.run["scenario"]["faults"]
    for fault in fired(history, len(steps), in_flight=False):
        if fault.step.at not in _IDLE and fault.in_flight <= 0:
            raise Unknown(
                "NOTHING_IN_FLIGHT", "records fetched and not yet released at each fault",
                f"none: {fault.fetched} fetched, {fault.released} released", fault=fault.text,
            )  # fmt: skip


def judges_of(scenario: str) -> list[tuple[str, Judge]]:
    """Return the (requirement, test) pairs that a scenario decides, by its name."""
    given = [(REQUIREMENT, held)] if scenario.startswith(PREFIX) else []
    return JUDGES.get(scenario, given)
