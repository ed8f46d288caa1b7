"""Plays a recorded run again: the same input, faults and seed, on the same engine or another."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tickproof.conformance.engines import network
from tickproof.conformance.engines.isolation import Isolation
from tickproof.conformance.engines.spec import FINER_PRICES_EXPECTED, EngineSpec
from tickproof.conformance.errors import HistoryError, RequestError
from tickproof.conformance.explain import with_stories
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.input_replay import same_input
from tickproof.conformance.history.run_record import RunRecord
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging, playing
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.judge import NotClaimed
from tickproof.conformance.suites.requirement import check_claims
from tickproof.conformance.verdicts import Outcome
from tickproof.generators.spread_rule import DECIMALS, decimals_of

OnRun = Callable[[int, list[Outcome]], None]


@dataclass(frozen=True)
class Replayed:
    """then: the recorded run, judged again. now: a list for each replay, same requirements."""

    then: list[Outcome]
    now: list[list[Outcome]]


def engine_of(run: RunRecord) -> str:
    """Return the path of the engine.toml that a run was made with, "" if it does not say."""
    return run.made_at.engine if run.made_at else ""


def replay(
    run_folder: Path, spec: EngineSpec, runs: Path, *, times: int, reproduce: str, on_run: OnRun
) -> Replayed:
    """Play a recorded run on the engine of ``spec``, each time into a new folder in ``runs``.

    ``on_run(number, outcomes)`` is called after each. Raises RequestError for an engine that
    claims nothing of what the run decides, HistoryError for a run that cannot be judged or
    whose input cannot be had again, KitStopped where the kit cannot record, OSError.
    """
    history = History(run_folder)
    then = judging.recheck(run_folder)
    _expect_claimed(history, spec, [outcome.requirement for outcome in then])
    now = []
    for number in range(1, times + 1):
        outcomes = _once(history, spec, runs / f"run-{number}", then, reproduce)
        now.append(outcomes)
        on_run(number, outcomes)
    return Replayed(then, now)


def _expect_claimed(history: History, spec: EngineSpec, requirements: list[str]) -> None:
    """Raise RequestError unless the engine claims something that the run decides."""
    scenario = history.record.scenario
    if not spec.offers(scenario.app, scenario.params):
        params = " ".join(f"{name}={value}" for name, value in scenario.params.items())
        raise RequestError(f"{spec.path}: does not offer app {scenario.app} {params}".strip())
    if decimals_of(history.record.input.recipe) > DECIMALS and not spec.finer_prices:
        raise RequestError(f"{spec.path}: {FINER_PRICES_EXPECTED}")
    claims = spec.claims(scenario.app, scenario.params)
    known = registry.load()
    missing = []
    for requirement in requirements:
        try:
            check_claims(known[requirement].needs, claims, scenario)
        except NotClaimed as error:
            missing.append(f"{requirement}: {error}")
    if len(missing) == len(requirements):
        raise RequestError(f"{spec.path}: nothing to judge: {'; '.join(missing)}")


def play_again(history: History, spec: EngineSpec, folder: Path, scenario: Scenario) -> History:
    """Play a scenario on the input of a recorded run, with its seed, into a new folder.

    Raises HistoryError where the input cannot be had again; then there is no folder.
    """
    # Of isolation none is needed: no verdict of an engine depends on it.
    isolation = Isolation(hosts=history.record.hosts)
    if isolation.hosts:
        network.demand(spec.placement, spec.name)
    try:
        playing.play(
            scenario,
            spec,
            folder,
            seed=history.record.seed,
            inputs=same_input(history.folder, history.record),
            isolation=isolation,
        )
    except HistoryError:  # without its input nothing was played
        shutil.rmtree(folder)
        raise
    played = History(folder)
    playing.add_facts(played, spec)
    return played


def _once(
    history: History, spec: EngineSpec, folder: Path, then: list[Outcome], reproduce: str
) -> list[Outcome]:
    """Play once, judge, and save the verdict with the run."""
    started = time.monotonic()
    played = play_again(history, spec, folder, history.record.scenario)
    judged = judging.recheck(folder)
    wanted = {outcome.requirement for outcome in then}
    wanted.update(blocker for outcome in judged for blocker in outcome.blocked_by)
    outcomes = [
        replace(outcome, seconds=round(time.monotonic() - started, 3), reproduce=reproduce)
        for outcome in judged
        if outcome.requirement in wanted
    ]
    outcomes = with_stories(outcomes)
    judging.save(folder, outcomes)
    playing.tidy(played)
    return outcomes
