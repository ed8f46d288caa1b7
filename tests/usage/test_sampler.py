"""Resources of live engines: short runs, deaths, kept engines; and a sample that breaks."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.long import LONG
from tickproof.conformance.engines.engine_reuse import EnginePool
from tickproof.conformance.engines.spec import load
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history import events, seal
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.usage import sampler
from tickproof.conformance.usage.engine_pids import Reapers
from tickproof.conformance.usage.sampler import SPARING, Periodic, UsageSampler

DEADLINE_S = 30
#: What the copied adapter of the minimal engine does at deploy.
DEPLOY = 'elif op == "deploy":\n'
BURN_S = 0.4
BURNS = f"        while time.process_time() < {BURN_S}: pass\n"
#: The op that the miniature lacks.
UNDEPLOY = """
    def _op_undeploy(self, request: dict) -> None:
        for child in list(self.children.values()):
            self.selector.unregister(child.pipe)
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        self.job, self.children = {}, {}
        self._answer(request["id"])

    def _op_stop("""


def wait(condition: Callable[[], bool]) -> None:
    tick, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        tick.wait(0.01)


def run(folder: Path, name: str = "miniature", records: int = 20_000, **changes) -> History:
    scenario = draw("passthrough-deaths", Context(seed=3))
    recipe = scenario.recipe | {"records": records}
    changes = {"faults": (), "rate": None} | changes
    options = {key: changes.pop(key) for key in ("pool", "usage") if key in changes}
    spec = load(fixtures() / "engines" / name)
    play(replace(scenario, recipe=recipe, **changes), spec, folder, seed=3, **options)
    return History(folder)


def test_a_run_shorter_than_a_second_has_a_first_and_a_last_sample(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sampler, "PERIOD_S", 1_000.0)  # however slow this machine is
    history = run(tmp_path / "run")
    assert history.ended.how == "completed"
    named = {one.pid: one.role for row in history.all(events.Topology) for one in row.processes}
    machine, usage = history.machine, history.usage
    assert len(machine) == 2
    (started,) = history.all(events.Started)
    (drained,) = history.all(events.Drained)
    assert started.t_ns < machine["t_ns"][0] and drained.t_ns < machine["t_ns"][1]
    # All of the engine still ran at the last sample.
    last = usage[usage["t_ns"] == machine["t_ns"][1]]
    assert set(named) <= set(last["pid"].tolist())
    assert (last["rss"] > 2**20).all() and (last["threads"] >= 1).all()
    facts = json.loads((history.folder / "usage.json").read_text())
    assert {pid: facts[str(pid)]["role"] for pid in named} == named
    assert {row["policy"] for row in facts.values()} == {"SCHED_OTHER"}
    for name in ("busy_s", "steal_s", "kit_s", "engine_s"):
        assert (np.diff(machine[name]) >= 0).all()
    assert {"usage.bin", "machine.bin", "others.bin"} <= seal.read(history.folder).keys()


@LONG
def test_an_engine_that_is_killed_is_followed_into_its_next_life(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sampler, "PERIOD_S", 0.02)
    kill = KillEngineStep("fetched", fraction=0.5)
    history = run(tmp_path / "run", records=40_000, rate=20_000.0, faults=(kill,))
    (fault,) = history.faults
    usage = history.usage
    before = set(usage["pid"][usage["t_ns"] < fault.t_ns].tolist())
    after = set(usage["pid"][usage["t_ns"] > history.all(events.Started)[1].t_ns].tolist())
    first, second = (row.pid for row in history.all(events.Started))
    assert first in before and second in after and not before & after
    for name in ("busy_s", "kit_s", "engine_s"):
        assert (np.diff(history.machine[name]) >= 0).all()


def test_an_engine_that_is_kept_is_found_in_the_next_run(tmp_path) -> None:
    folder = tmp_path / "engine"
    shutil.copytree(fixtures() / "engines" / "miniature", folder)
    adapter = folder / "adapter.py"
    text = adapter.read_text("utf-8")
    assert text.count("\n    def _op_stop(") == 1
    adapter.write_text(text.replace("\n    def _op_stop(", UNDEPLOY))
    pool = EnginePool()
    scenario = draw("count", Context(seed=3))
    try:
        for number in (1, 2):
            play(scenario, load(folder / "engine.toml"), tmp_path / str(number), seed=3, pool=pool)
            if number == 1:
                before = set(History(tmp_path / "1").usage["pid"].tolist())
    finally:
        pool.close(DEADLINE_S)
    second = History(tmp_path / "2")
    (taken,) = second.all(events.TakenOver)
    assert taken.pid in before & set(second.usage["pid"].tolist())


def test_time_of_the_engine_is_that_of_the_engine(tmp_path) -> None:
    folder = tmp_path / "engine"
    shutil.copytree(fixtures() / "engines" / "minimal", folder)
    adapter = folder / "adapter.py"
    text = adapter.read_text("utf-8")
    assert text.count(DEPLOY) == 1
    adapter.write_text(f"import time\n{text.replace(DEPLOY, DEPLOY + BURNS)}", "utf-8")
    history = run(tmp_path / "run", str(folder), records=1_000)
    assert history.ended.how == "completed"
    machine, usage = history.machine, history.usage
    assert machine["engine_s"][-1] >= BURN_S - 0.02
    (pid,) = {row.pid for row in history.all(events.Started)}
    last = usage[usage["pid"] == pid][-1]
    assert last["user_s"] + last["system_s"] >= BURN_S - 0.02


def test_a_run_may_go_without(tmp_path) -> None:
    history = run(tmp_path / "run", usage=None)
    assert history.ended.how == "completed"
    assert [len(rows) for rows in (history.usage, history.machine, history.others)] == [0, 0, 0]
    assert not (history.folder / "usage.json").exists()


def test_tables_that_cannot_be_written_are_the_kits_fault(tmp_path, monkeypatch) -> None:
    def full(*_values: float) -> None:
        raise OSError(28, "No space left on device")

    def broken(self: UsageSampler) -> None:
        full()

    monkeypatch.setattr(UsageSampler, "_sample", broken)
    with pytest.raises(KitStopped, match="No space left"):
        run(tmp_path / "run")
    assert History(tmp_path / "run").ended.how == "kit-error"


def test_what_ended_and_was_not_collected_is_left_out(tmp_path) -> None:
    sleeps = [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"]
    children = [
        subprocess.Popen(sleeps, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for child in children:
            child.stdout.readline()
        children[0].kill()
        os.waitid(os.P_PID, children[0].pid, os.WEXITED | os.WNOWAIT)
        with UsageSampler(tmp_path, lambda: [os.getpid()]):
            pass
        facts = json.loads((tmp_path / "usage.json").read_text())
        assert str(children[1].pid) in facts and str(children[0].pid) not in facts
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_before_the_engine_starts_nothing_is_sampled(tmp_path) -> None:
    asked, roots = threading.Event(), []

    def started() -> list[int]:
        asked.set()
        return roots

    samples: list[int] = []
    with Periodic(lambda: samples.append(len(roots)), started, 0.01):
        assert asked.wait(DEADLINE_S) and samples == []
        roots.append(1)
        wait(lambda: len(samples) >= 2)
    assert set(samples) == {1}
    # Without a start there are still a first and a last sample.
    samples.clear()
    with Periodic(lambda: samples.append(0), list, 0.01):
        pass
    assert len(samples) == 2


def test_samples_that_cost_much_come_less_often() -> None:
    samples: list[tuple[float, float]] = []

    def burns() -> None:
        began, at = time.thread_time(), time.monotonic()
        while time.thread_time() < began + 0.002:
            pass
        samples.append((at, time.thread_time() - began))

    with Periodic(burns, lambda: True, 0.001):
        wait(lambda: len(samples) >= 4)
    # The last one is taken on leaving, whatever it cost.
    for (before, took), (after, _) in itertools.pairwise(samples[:-1]):
        assert after - before >= SPARING * took


def test_what_breaks_a_sample_is_raised_on_leaving_unless_something_else_is() -> None:
    def broken() -> Periodic:
        return Periodic(lambda: 1 / 0, lambda: True, 0.01)

    with pytest.raises(ZeroDivisionError), broken():
        pass
    with pytest.raises(KeyError, match="own"), broken():
        raise KeyError("own")


def test_reapers_are_told_by_events_as_they_come(tmp_path) -> None:
    reapers = Reapers(tmp_path)
    assert reapers() == []
    events = EventLog(tmp_path / "events.jsonl")
    events.add("opened", pid=1)
    assert reapers() == []
    events.add("started", pid=os.getpid(), resume=False)
    assert reapers() == [os.getppid()]
    # Of what ended long ago there is nothing to tell, nor of an event with such a word in it.
    events.add("started", pid=2**22 + 1, resume=False)
    events.add("progress", what="started", pid=1)
    events.add("taken-over", pid=os.getppid(), served=1)
    grandparent = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
    assert reapers() == [os.getppid(), grandparent]
    events.close()


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path) -> None:
    reapers = Reapers(tmp_path)
    path = tmp_path / "events.jsonl"
    line = json.dumps({"t_ns": 1, "event": "started", "pid": os.getpid()})
    path.write_text(line[:30])
    assert reapers() == []
    with path.open("a") as file:
        file.write(line[30:] + "\n")
    assert reapers() == [os.getppid()]
