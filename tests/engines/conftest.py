"""Engines made of fixtures/rogues/rogue.py, and proof that nothing of them is left."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import psutil
import pytest

from tests import modest_engine
from tickproof.conformance.engines import process_table, spec
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.resources import fixtures

ROGUE = fixtures() / "rogues" / "rogue.py"


class Workshop:
    """Makes engines; remembers their run ids and what was said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_ids: list[str] = []
        self.workspaces: list[Workspace] = []
        self.said: list[tuple[str, str, int]] = []

    def toml(self, argv: list[str]) -> Path:
        path = self.folder / "engine.toml"
        path.write_text(modest_engine.toml("rogue", argv, language="python"))
        return path

    def engine(self, *rogue: str, argv: list[str] | None = None, **options) -> Engine:
        command = argv or ["{python}", str(ROGUE), *rogue]
        run_id = uuid.uuid4().hex
        self.run_ids.append(run_id)
        stderr = self.folder / "stderr.log"
        loaded = spec.load(self.toml(command))
        self.workspaces.append(workspace := Workspace())
        say = lambda *line: self.said.append(line)  # noqa: E731
        return Engine(loaded, run_id, stderr, say, workspace, **options)


def open_to_others(file: Path) -> None:
    """Let other users reach a file, through the folders that pytest closes to them."""
    for folder in file.parents[:4]:
        if folder.stat().st_mode & 0o077 == 0:
            folder.chmod(0o711)


def carriers(run_id: str) -> list[int]:
    """Every process that carries the run's id, by psutil: not the code under test."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(process_table.RUN_VARIABLE) == run_id:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def below_us() -> set[int]:
    """Every living process below the test, zombies not counted."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def parents(pid: int) -> set[int]:
    try:
        return {parent.pid for parent in psutil.Process(pid).parents()}
    except psutil.NoSuchProcess:
        return set()


def eventually(condition, timeout_s: float = 10.0) -> bool:
    """Wait for a condition, 10 s at most; return what it was at last."""
    deadline = time.monotonic() + timeout_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(met)


@pytest.fixture(name="eventually")
def _eventually():
    return eventually


@pytest.fixture(name="carriers")
def _carriers():
    return carriers


@pytest.fixture
def rogue_path() -> Path:
    return ROGUE


@pytest.fixture
def workshop(tmp_path):
    """Give a Workshop; afterwards no process that it started may live."""
    before = below_us()
    made = Workshop(tmp_path)
    yield made
    for run_id in made.run_ids:
        assert carriers(run_id) == []
    # A process from before, such as another test's Spark, may start its own meanwhile.
    assert {pid for pid in below_us() - before if not before & parents(pid)} == set()
    for workspace in made.workspaces:
        workspace.remove()
