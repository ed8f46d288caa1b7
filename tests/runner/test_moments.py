"""Moments of a life: each comes, and the event of the fault proves that it was that one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.long import LONG
from tickproof.conformance import apps
from tickproof.conformance.engines.spec import find, load
from tickproof.conformance.history.events import DrainAsked, Drained, FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import FaultStep, Scenario

IDLE_S = 0.4
Proof = Callable[[FiredFault, History], bool]


def in_drain(fault: FiredFault, history: History) -> bool:
    asked = min(row.t_ns for row in history.all(DrainAsked))
    return asked < fault.t_ns < min(row.t_ns for row in history.all(Drained))


MOMENTS: dict[str, tuple[dict[str, Any], Proof]] = {
    "before the first cut": ({"at": "cuts", "cuts": 0}, lambda fault, _: fault.cuts == 0),
    "after the first": ({"at": "cuts", "cuts": 1}, lambda fault, _: fault.cuts == 1),
    "after the tenth": ({"at": "cuts", "cuts": 10}, lambda fault, _: fault.cuts >= 10),
    "idle": (
        {"at": "idle", "idle_s": IDLE_S},
        lambda fault, history: fault.idle_s >= IDLE_S and apps.of(history).in_flight(fault) == 0,
    ),
    "in drain": ({"at": "draining"}, in_drain),
    "while a cut is written": (
        {"at": "cutting"}, lambda fault, _: fault.writing.startswith("partition-"),
    ),
}  # fmt: skip


def met(moment: str, folder: Path, seed: int) -> bool:
    """Tell whether an engine was killed at the moment, and went on to the end."""
    step, proof = MOMENTS[moment]
    recipe = {
        "kind": "keyed",
        "seed": seed,
        "records": 8_000,
        "keys": 100,
        "partitions": 4,
        "tick": 8,
    }
    fault = FaultStep("kill", "engine", fraction=0.5, **step)
    scenario = Scenario(
        "moment", "count", {"emit": "every"}, recipe, rate=10_000.0, faults=(fault,)
    )
    play(scenario, load(find("miniature", fixtures())), folder, seed=seed)
    history = History(folder)
    assert history.ended == {"how": "completed"}
    return bool(history.faults) and proof(history.faults[0], history)


@pytest.mark.parametrize("moment", MOMENTS)
def test_moment_comes(tmp_path, moment):
    # One of two: a machine may stand still for a moment.
    assert met(moment, tmp_path / "0", 1) or met(moment, tmp_path / "1", 2)


@LONG
@pytest.mark.parametrize("moment", MOMENTS)
def test_moment_comes_in_nineteen_of_twenty_tries(tmp_path, moment):
    assert sum(met(moment, tmp_path / str(seed), seed) for seed in range(20)) >= 19
