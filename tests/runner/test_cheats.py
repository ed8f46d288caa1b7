"""Each cheat that once passed everything passes no more: in a sandbox, with three seeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import cheats
from tests.judging import judge_of
from tests.long import LONG, few
from tickproof.conformance.engines import isolation
from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.spec import load
from tickproof.conformance.history.folder import History
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.scenarios import Context
from tickproof.generators import recipes

SECRET = "5ca1ab1e"


@dataclass(frozen=True)
class Cheat:
    """An engine, what it is judged on, and why it does not pass; "": that depends on the seed.

    write: makes its engine.toml in a new folder, for a scenario.
    """

    requirement: str
    scenario: str
    write: Callable[[Path, Scenario], Path]
    reason: str = ""


def single(requirement: str, scenario: str, *cheat: str, reason: str = "") -> Cheat:
    """Return a cheat of engine single."""
    return Cheat(requirement, scenario, lambda e, _: cheats.single(e, *cheat, drain_s=5), reason)


def workers(requirement: str, scenario: str, name: str, reason: str) -> Cheat:
    """Return a cheat of an engine whose workers only seem to work."""
    return Cheat(requirement, scenario, lambda e, _: cheats.workers(e, name), reason)


def makes_its_input_again(folder: Path, played: Scenario) -> Path:
    recipe = folder.with_name("recipe.json")
    recipe.write_text(json.dumps({k: v for k, v in played.recipe.items() if k != "secret"}))
    return cheats.single(folder, "seed", recipe, drain_s=5)


def has_its_input(folder: Path, played: Scenario) -> Path:
    kept = folder.with_name("kept")
    kept.mkdir()
    recipes.build(played.recipe, kept)
    return cheats.data(folder, "Foresees", kept)


DEATH = ("EO-ENGINE-DEATH", "count-engine-death")
WORKER_DEATH = ("EO-WORKER-DEATH", "count-worker-death")
DAMAGE = ("EO-DAMAGED-CHECKPOINT", "count-damaged-checkpoint")
ROT = ("EO-DAMAGED-CHECKPOINT", "count-rotten-state")
FULL = ("EO-FULL-DISK", "count-full-disk")
CHEATS = {
    "an orphan does the work of a worker": workers(*WORKER_DEATH, "Orphaned", "NOT_AT_WORK"),
    "damage is drawn to what comes before a cut": single(*DAMAGE, "decoy", "before"),
    "a state without a checksum lies before its cut": single(*ROT, "apart", "state"),
    "cuts are links, for which no disk is full": single(*FULL, "links", "cut", reason="NOT_HELD"),
    "a limit is raised for each write": single(*FULL, "limit", "again"),
    "state is made again from the seed": Cheat(*DEATH, makes_its_input_again),
    "all output comes before its records": Cheat(
        "SL-PASSTHROUGH", "passthrough", has_its_input, "ahead-of-fetch"
    ),
    "a child does the work of a worker": workers(*WORKER_DEATH, "Shelled", "EXITED"),
    "a pause is ended": workers("EO-PAUSE", "count-pause", "Wakes", "NOT_HELD"),
    "damage is drawn to what comes after a cut": single(*DAMAGE, "decoy", "after"),
    "state is kept in scratch": single(*DEATH, "within", "scratch/{}"),
    "a limit is raised for good": single(*FULL, "limit", "once"),
}


def verdict_of(cheat: Cheat, folder: Path, seed: int, level: Level) -> str:
    """Return the reason why a cheat does not pass, "" if it does."""
    scenario = draw(cheat.scenario, Context(seed=seed, secret=SECRET))
    spec = load(cheat.write(folder / "engine", scenario))
    if why := isolation.obstacle(level, spec):
        pytest.skip(f"no {level} here: {why}")
    play(scenario, spec, folder / "run", seed=seed, isolation=Isolation(level, (folder / "run",)))
    try:
        judge_of(cheat.requirement, cheat.scenario)(History(folder / "run"))
    except Fail as failure:
        return failure.code
    except Unknown as unknown:
        return unknown.reason
    return ""


@pytest.mark.parametrize("name", few(CHEATS, 3))
def test_no_cheat_passes_in_a_sandbox(tmp_path, name):
    reason = verdict_of(CHEATS[name], tmp_path, 1, Level.SANDBOX)
    assert reason
    assert CHEATS[name].reason in ("", reason)


@LONG
@pytest.mark.parametrize("name", CHEATS)
@pytest.mark.parametrize(
    ("seed", "level"), [(2, Level.SANDBOX), (3, Level.SANDBOX), (4, Level.NONE)]
)
def test_nor_with_another_seed_nor_outside_of_one(tmp_path, name, seed, level):
    assert verdict_of(CHEATS[name], tmp_path, seed, level)
