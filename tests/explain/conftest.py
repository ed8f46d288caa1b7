"""Small real runs of mutants and of the sound miniature, one of each, played once a tiers."""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tickproof.conformance.engines.spec import load
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.selftest import mutants
from tickproof.conformance.session import judging
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Verdict

# The recorded runs and the ways to tamper with them are those of the suites' tests.
#: Runs of mutants: records, the seconds that they take by their pace, runs at most. On a busy
#: machine more than half may miss a defect: a cut lies just before the fault.
RECORDS, PACED_S, TRIES = 30_000, 1.0, 20


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    from tests.suites.recorded import shared

    return shared(tmp_path_factory)


@pytest.fixture
def copy_of(recorded, tmp_path):
    """Copy a run of the sound miniature, to be tampered with."""
    from tests.suites import tampering

    def copy(scenario: str) -> Path:
        folder = tmp_path / "run"
        shutil.copytree(recorded.run(scenario), folder, copy_function=os.link)
        tampering.unsealed(folder)
        return folder

    return copy


@pytest.fixture(scope="session")
def mutant_run(tmp_path_factory):
    """Return the folder of a small run of a mutant, the same for all processes of a tiers."""
    from tests.suites.recorded import SEED, small

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    base = base / "mutant-runs"
    base.mkdir(exist_ok=True)

    def run(id_: str, scenario: str, requirement: str) -> Path:
        """Play until the requirement fails: a small run may miss a defect by chance."""
        folder = base / f"{id_}-{scenario}"
        with (base / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                found = mutants.find(f"mutant:{id_}", fixtures())
                engine = mutants.make(found, fixtures(), base / f"engine-{folder.name}")
                spec, scene = load(engine, registry.load()), small(scenario)
                # Longer than the sound runs: there is to be a cut before the fault.
                scene = replace(
                    scene, recipe=scene.recipe | {"records": RECORDS}, rate=RECORDS / PACED_S
                )
                for number in range(TRIES):
                    tried = base / f"{folder.name}-{number}"
                    play(scene, spec, tried, seed=SEED + number)
                    if _failed(tried, requirement):
                        break
                tried.rename(folder)
        return folder

    return run


def _failed(folder: Path, requirement: str) -> bool:
    outcomes = judging.recheck(folder)
    return any(o.requirement == requirement and o.verdict is Verdict.FAIL for o in outcomes)
