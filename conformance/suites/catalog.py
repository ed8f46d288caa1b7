"""Scenarios by name, and the judges of each."""

from __future__ import annotations

from typing import Final

from tickproof.conformance.faults.schedule_file import PREFIX
from tickproof.conformance.faults.space.scenarios import PREFIX as POINT_PREFIX
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites import registry, schedules
from tickproof.conformance.suites.judge import Judge
from tickproof.conformance.suites.require import earns_figures
from tickproof.conformance.suites.scenarios import Context, Entry

#: Scenario name -> its entry, and -> the requirements that it decides, each with its judge.
CATALOG: Final[dict[str, Entry]] = {}
JUDGES: Final[dict[str, list[tuple[str, Judge]]]] = {}
#: Scenario of a bench -> the requirement that comes closest; the judge is that of figures.
BENCHED: Final = {
    "bench-passthrough": "SL-PASSTHROUGH",
    "bench-double": "SL-DOUBLE",
    "bench-count": "ST-TOTALS",
    "bench-market-spread": "MS-REJECTS",
    "bench-latency": "DL-COMPLETE",
    "bench-kill-worker": "EO-WORKER-DEATH",
    "bench-kill-engine": "EO-ENGINE-DEATH",
}

for _one in registry.load().values():
    for _entry, _judge in _one.judges.items():
        CATALOG[_entry.name] = _entry
        JUDGES.setdefault(_entry.name, []).append((_one.id, _judge))


def judges_of(scenario: str) -> list[tuple[str, Judge]]:
    """Return the (requirement, judge) pairs that a scenario decides, by its name."""
    given: list[tuple[str, Judge]] = []
    if scenario.startswith(PREFIX):
        given = [(schedules.REQUIREMENT, schedules.held)]
    elif scenario.startswith(POINT_PREFIX):
        given = [(schedules.COVERING, schedules.point_held)]
    elif scenario in BENCHED:
        given = [(BENCHED[scenario], earns_figures)]
    return JUDGES.get(scenario, given)


def draw(name: str, context: Context) -> Scenario:
    """Return the scenario of a name; raises ValueError for a carrier that it does not name."""
    return CATALOG[name].draw(context)


def seconds(name: str) -> float:
    """Estimate how long a scenario lasts in profile quick: for the order of play only."""
    drawn = draw(name, Context(seed=0, freshness_s=5.0))
    paced = drawn.recipe.get("records", 0) / drawn.rate if drawn.rate else 0.0
    paused = sum(step.longest_s for step in drawn.faults)
    return paced + paused + (drawn.hold[1] if drawn.hold else 0.0) + drawn.sink.stall_s
