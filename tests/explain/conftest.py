"""Small real runs of mutants and of the sound miniature, one of each, played once a session."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path

import pytest

from conformance import mutants
from conformance.engines.spec import load
from conformance.requirements import registry
from conformance.resources import fixtures
from conformance.runner import play

# The recorded runs and the ways to tamper with them are those of the suites' tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "suites"))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    from recorded import shared

    return shared(tmp_path_factory)


@pytest.fixture
def copy_of(recorded, tmp_path):
    """Copy a run of the sound miniature, to be tampered with."""
    import tampering

    def copy(scenario: str) -> Path:
        folder = tmp_path / "run"
        shutil.copytree(recorded.run(scenario), folder, copy_function=os.link)
        tampering.in_run(files={})(folder)
        return folder

    return copy


@pytest.fixture(scope="session")
def mutant_run(tmp_path_factory):
    """Return the folder of a small run of a mutant, the same for all processes of a session."""
    from recorded import SEED, small

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    base = base / "mutant-runs"
    base.mkdir(exist_ok=True)

    def run(id_: str, scenario: str) -> Path:
        folder = base / f"{id_}-{scenario}"
        with (base / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                found = mutants.find(f"mutant:{id_}", fixtures())
                engine = mutants.make(found, fixtures(), base / f"engine-{folder.name}")
                play(small(scenario), load(engine, registry.load()), folder, seed=SEED)
        return folder

    return run
