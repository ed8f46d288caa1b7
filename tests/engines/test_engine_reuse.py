"""Engines that outlive their run, and serve the next one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tickproof.conformance.engines.engine_reuse import EnginePool
from tickproof.conformance.engines.spec import EngineSpec, load
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.require import require_correct
from tickproof.conformance.suites.scenarios import Context

#: The end of the miniature's own op undeploy.
ANSWERS = """        self.draining.clear()
        self._answer(request["id"])

    def _op_stop("""


def miniature(folder: Path, answer: str = 'self._answer(request["id"])') -> EngineSpec:
    """Return a copy of the miniature that answers undeploy in another way."""
    shutil.copytree(fixtures() / "engines" / "miniature", folder)
    path = folder / "adapter.py"
    source = path.read_text("utf-8")
    assert source.count(ANSWERS) == 1
    changed = ANSWERS.replace('self._answer(request["id"])', answer)
    path.write_text(source.replace(ANSWERS, changed), "utf-8")
    return load(folder / "engine.toml")


@pytest.fixture
def spec(tmp_path: Path) -> EngineSpec:
    return miniature(tmp_path / "engine")


@pytest.fixture
def pool() -> Iterator[EnginePool]:
    room = EnginePool()
    yield room
    room.close(10)


def run(name: str, spec: EngineSpec, folder: Path, pool: EnginePool, **changes) -> History:
    drawn = draw(name, Context(seed=4))
    records = {"records": min(drawn.recipe["records"], 20_000)}
    scenario = replace(drawn, recipe=drawn.recipe | records, **changes)
    play(scenario, spec, folder, seed=4, pool=pool)
    return History(folder)


def pids(history: History, kind: type[events.Event]) -> list[int]:
    return [row.pid for row in history.all(kind)]


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_next_run_has_the_engine_and_its_own_record(spec, tmp_path, pool):
    first = run("count", spec, tmp_path / "1", pool)
    second = run("double", spec, tmp_path / "2", pool)
    assert (
        pids(first, events.Started) == pids(first, events.Parked) == pids(second, events.TakenOver)
    )
    assert pids(second, events.Started) == []
    assert second.all(events.TakenOver)[0].served == 1
    state_dirs = []
    for history in (first, second):
        require_correct(history)
        asked = [json.loads(row["line"]) for row in history.control if row["direction"] == "to"]
        assert asked[-1]["op"] == "undeploy"
        (deploy,) = [line for line in asked if line["op"] == "deploy"]
        # Each has a state_dir of its own, in the folders of the engine that both had.
        state_dirs.append(Path(deploy["state_dir"]))
        assert not state_dirs[-1].is_relative_to(tmp_path)
    assert state_dirs[0].parent == state_dirs[1].parent
    assert state_dirs[0] != state_dirs[1] and not state_dirs[0].exists()
    assert second.record.hello == first.record.hello
    assert second.record.id != first.record.id
    assert lives(pids(first, events.Parked)[0])
    pool.close(10)
    assert not lives(pids(first, events.Parked)[0])


def test_what_the_engine_says_on_stderr_goes_to_the_run_that_has_it(spec, tmp_path, pool):
    run("count", spec, tmp_path / "1", pool)
    run("count-worker-death", spec, tmp_path / "2", pool)
    assert "ended" not in (tmp_path / "1" / "stderr.log").read_text("utf-8")
    assert "ended: -9" in (tmp_path / "2" / "stderr.log").read_text("utf-8")


def test_an_engine_that_recovered_is_kept_too(spec, tmp_path, pool):
    first = run("count-engine-death", spec, tmp_path / "1", pool)
    started = pids(first, events.Started)
    assert len(started) == 2
    second = run("count-engine-death", spec, tmp_path / "2", pool)
    assert pids(second, events.TakenOver) == started[1:]
    require_correct(second)
    assert len(second.faults) == 1


def test_a_failed_engine_is_ended(tmp_path, pool):
    spec = miniature(tmp_path / "engine", 'print("noise", flush=True)')
    first = run("count", spec, tmp_path / "1", pool)
    assert first.ended.code == "BAD_LINE"
    assert not lives(pids(first, events.Started)[0])
    second = run("count", spec, tmp_path / "2", pool)
    assert pids(second, events.TakenOver) == []


def test_an_engine_that_died_in_between_fails_the_next_run(spec, tmp_path, pool):
    first = run("count", spec, tmp_path / "1", pool)
    idle = pool.take(2)
    assert idle is not None
    os.kill(idle.engine.pid, signal.SIGKILL)
    assert idle.engine.wait_exit(10) == -signal.SIGKILL
    pool._idle = idle
    second = run("count", spec, tmp_path / "2", pool)
    assert second.ended.code == "EXITED"
    assert "was killed by SIGKILL before deploy was asked" in second.ended.message
    third = run("count", spec, tmp_path / "3", pool)
    assert pids(third, events.Started) != pids(first, events.Started)
    require_correct(third)


def test_what_it_says_between_two_runs_fails_the_second(tmp_path, pool):
    says = 'self._answer(request["id"]); time.sleep(0.3); print("noise", flush=True)'
    spec = miniature(tmp_path / "engine", says)
    first = run("count", spec, tmp_path / "1", pool)
    assert first.ended.how == "completed"
    engine = pool._idle.engine
    tick, deadline = threading.Event(), time.monotonic() + 10
    while not engine.violations and time.monotonic() < deadline:
        tick.wait(0.01)
    second = run("count", spec, tmp_path / "2", pool)
    assert pids(second, events.TakenOver) == pids(first, events.Parked)
    assert second.ended.code == "BAD_LINE"


def test_another_number_of_workers_has_an_engine_of_its_own(spec, tmp_path, pool):
    first = run("count", spec, tmp_path / "1", pool)
    alone = run("count", spec, tmp_path / "2", pool, workers=1)
    assert not lives(pids(alone, events.Started)[0])
    assert pids(run("count", spec, tmp_path / "3", pool), events.TakenOver) == pids(
        first, events.Started
    )


def test_runs_that_look_at_start_and_end_have_an_engine_of_their_own(spec, tmp_path, pool):
    first = run("count", spec, tmp_path / "1", pool)
    for number, name in enumerate(("passthrough", "stdin-eof"), 2):
        alone = run(name, spec, tmp_path / str(number), pool)
        assert pids(alone, events.TakenOver) == pids(alone, events.Parked) == []
        assert len(alone.all(events.Exited)) == 1
    assert lives(pids(first, events.Parked)[0])


def test_an_engine_without_the_op_is_asked_once(tmp_path, pool):
    spec = load(fixtures() / "engines" / "single" / "engine.toml")
    asked = []
    for number in (1, 2):
        history = run("count", spec, tmp_path / str(number), pool)
        require_correct(history)
        assert len(history.all(events.Exited)) == 1
        asked.append(sum("undeploy" in row["line"] for row in history.control))
    assert asked == [2, 0]  # the request and the answer that names it
