"""One scenario played on one engine and judged by all its tests: the cells of the matrix."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.spec import EngineSpec, load
from tickproof.conformance.explain import story
from tickproof.conformance.explain.outcomes import with_causes
from tickproof.conformance.history.folder import History
from tickproof.conformance.selftest.model import Cell, Trial
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.scenario_player import ScenarioPlayer
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import JUDGES
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Outcome, Verdict

#: Stands for a test where a run that broke off fails a requirement that it does not decide.
BROKEN_OFF: Final = "test_the_run_comes_to_its_end"
#: Longest text of a cell, in characters.
_SAID: Final = 2000
#: Of a scenario that is played on several.
HOSTS: Final = 3


@dataclass(frozen=True)
class Task:
    """One scenario of the catalog for one engine.

    subject: name of the engine in the matrix. toml: its engine.toml. folder: gets the run.
    """

    subject: str
    toml: Path
    scenario: str
    seed: int
    folder: Path


def tests_of(
    requirements: set[str] | None = None, transport: str = ""
) -> dict[str, list[tuple[str, Any]]]:
    """Return scenario -> (requirement, test), where a test of ``requirements`` needs it.

    ``transport``: leave out what does not apply to an engine that speaks it.
    """
    known = registry.load()
    found = {}
    for scenario, judges in JUDGES.items():
        mine = [
            (requirement, judge)
            for requirement, judge in judges
            if not transport or known[requirement].needs.applies_over(transport)
        ]
        if mine and (requirements is None or requirements & {one for one, _ in mine}):
            found[scenario] = mine
    return found


@cache
def alone(scenario: str) -> bool:
    """Tell whether a scenario needs the machine to itself, because it measures time."""
    known = registry.load()
    return any(known[one].tier == registry.LATENCY_TIER for one, _ in tests_of()[scenario])


@cache
def on_hosts(scenario: str) -> bool:
    """Tell whether a scenario is played on several hosts."""
    known = registry.load()
    return any(known[one].needs.hosts for one, _ in tests_of()[scenario])


def attempt(task: Task) -> Trial:
    """Play a task and judge it as `tickproof run` would; one cell for each of its tests.

    One more stands for what blocks them, if none of them does.
    """
    began = time.monotonic()
    spec = _spec(task.toml)
    judges = tests_of(transport=spec.transports[0])[task.scenario]
    hosts = HOSTS if spec.placement and on_hosts(task.scenario) else 0
    player = ScenarioPlayer(spec, Request(out=task.folder, seed=task.seed, hosts=hosts))
    found = [player.decide(requirement, task.scenario, judge) for requirement, judge in judges]
    # What blocks one of them may be a requirement that the scenario does not decide.
    outcomes = with_causes(found, spec.known_gaps)
    tests = [task.scenario] * len(judges)
    tests += [BROKEN_OFF] * (len(outcomes) - len(tests))
    history = player.played(task.scenario)
    cells = [_cell(history, outcome, test) for outcome, test in zip(outcomes, tests, strict=True)]
    player.tidy()
    return Trial(
        subject=task.subject,
        scenario=task.scenario,
        seed=task.seed,
        played=history is not None,
        seconds=round(time.monotonic() - began, 3),
        cells=cells,
        run=str(history.folder) if history is not None else "",
    )


@cache
def _spec(toml: Path) -> EngineSpec:
    return load(toml, registry.load())


def _cell(history: History | None, outcome: Outcome, test: str) -> Cell:
    headline = ""
    if outcome.verdict is Verdict.FAIL and history is not None:
        headline = story(history, outcome).headline
    return Cell(
        requirement=outcome.requirement,
        test=test,
        verdict=outcome.verdict,
        reason=outcome.reason,
        said=shown(outcome.actual, _SAID),
        headline=headline,
    )
