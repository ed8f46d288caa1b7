"""Moments of a life: each comes, and the event of the fault proves that it was that one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.long import LONG, few
from tickproof.conformance import apps
from tickproof.conformance.engines.spec import find, load
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history.events import DrainAsked, Drained, FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.schedules import held

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
    "after the new file is created": (
        {"at": "created"}, lambda fault, _: fault.writing.endswith(".tmp"),
    ),
    "after the new file is written": (
        {"at": "written"}, lambda fault, _: fault.writing.endswith(".tmp"),
    ),
    "after it has the name of the old one": (
        {"at": "renamed"},
        lambda fault, _: fault.writing.startswith("partition-") and ".tmp" not in fault.writing,
    ),
}  # fmt: skip


def played(engine: Path, step: dict[str, Any], folder: Path, seed: int, **more: int) -> History:
    """Return the history of a run in which an engine is killed at a moment."""
    recipe = {"kind": "keyed", "seed": seed, "records": 8_000, "partitions": 4, "tick": 8}
    fault = KillEngineStep(fraction=0.5, **step)
    scenario = Scenario(
        "moment", "count", {"emit": "every"}, recipe | more, rate=10_000.0, faults=(fault,)
    )
    play(scenario, load(engine), folder, seed=seed)
    return History(folder)


def met(moment: str, folder: Path, seed: int) -> bool:
    """Tell whether an engine was killed at the moment, and went on to the end."""
    step, proof = MOMENTS[moment]
    history = played(find("miniature", fixtures()), step, folder, seed, keys=100)
    assert history.ended.how == "completed"
    return bool(history.faults) and proof(history.faults[0], history)


@pytest.mark.parametrize("moment", few(MOMENTS, 4))
def test_moment_comes(tmp_path, moment):
    # One of two: a machine may stand still for a moment.
    assert met(moment, tmp_path / "0", 1) or met(moment, tmp_path / "1", 2)


_NAMED = '    new = path.with_suffix(".tmp")\n'
_MOVED = "    os.replace(new, path)"
#: The old cut goes before the new one is in its place, which takes as long as with a slow disk.
DEFECT = {
    _NAMED: f"    path.unlink(missing_ok=True)\n{_NAMED}",
    _MOVED: f"    __import__('time').sleep(0.1)\n{_MOVED}",
}


def test_a_kill_between_two_calls_finds_an_engine_without_a_cut(tmp_path):
    shutil.copytree(fixtures() / "engines" / "miniature", tmp_path / "engine")
    defect = tmp_path / "engine" / "checkpoint.py"
    text = defect.read_text()
    for line, other in DEFECT.items():
        assert line in text
        text = text.replace(line, other)
    defect.write_text(text)
    failed = []
    for seed in range(5):
        engine, folder = tmp_path / "engine" / "engine.toml", tmp_path / str(seed)
        history = played(engine, {"at": "deleted"}, folder, seed, keys=50_000, records=20_000)
        with contextlib.suppress(Unknown):
            try:
                held(history)
            except Fail as failure:
                failed.append((failure.code, history.faults[0].writing))
                break
    assert failed and failed[0][1].startswith("partition-")


@LONG
@pytest.mark.parametrize("moment", MOMENTS)
def test_moment_comes_in_nineteen_of_twenty_tries(tmp_path, moment):
    assert sum(met(moment, tmp_path / str(seed), seed) for seed in range(20)) >= 19
