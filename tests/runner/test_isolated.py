"""Paced runs in a process of their own: whole, placed, and gone when they are over."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.conftest import wait_until
from tests.long import LONG
from tickproof import conformance
from tickproof.conformance import resources
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.history.rows import TICK
from tickproof.conformance.history.run_record import Ended
from tickproof.conformance.history.tables import read_table
from tickproof.conformance.runner.isolated import play_isolated
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.suites.require import earns_figures

DEADLINE_S = 60.0
RATE = 20_000
#: What each run of this kind leaves, beside the hiccups of each core.
FILES = {
    "control.jsonl", "events.jsonl", "fetches.bin", "machine.bin", "others.bin", "publishes.bin",
    "releases.bin", "run.json", "stderr.log", "ticks.bin", "usage.bin", "usage.json",
}  # fmt: skip
RECIPES = {
    "passthrough": ({}, {"kind": "payloads", "size": 24}),
    "count": ({"emit": "every"}, {"kind": "keyed", "keys": 200}),
    "market-spread": ({"inputs": "merged", "emit": "rejects"}, {"kind": "market"}),
    "market-two": ({"inputs": "two", "emit": "verdicts"}, {"kind": "market", "inputs": "two"}),
}
#: Plays the scenario on stdin into the folder given, by the miniature.
SCRIPT = """
import json, sys
from pathlib import Path
from tickproof.conformance import resources
from tickproof.conformance.engines import spec
from tickproof.conformance.runner.isolated import play_isolated
from tickproof.conformance.scenario import Scenario
engine = spec.load(resources.fixtures() / "engines" / "miniature")
play_isolated(Scenario.from_json(json.load(sys.stdin)), engine, Path(sys.argv[1]), seed=1)
"""


def scenario(what="count", seconds=0.5, partitions=2, tick_us=1_000, faults=(), **pace):
    params, recipe = RECIPES[what]
    tick = RATE * tick_us // 1_000_000
    recipe = recipe | {
        "seed": 3,
        "records": int(RATE * seconds),
        "partitions": partitions,
        "tick": tick,
    }
    app = "market-spread" if what.startswith("market") else what
    return Scenario(
        f"paced-{what}",
        app,
        params,
        recipe,
        rate=RATE,
        faults=faults,
        pace=Pace(tick_us, 0.1, **pace),
    )


def miniature():
    return spec.load(resources.fixtures() / "engines" / "miniature")


def played(folder: Path, made: Scenario) -> History:
    play_isolated(made, miniature(), folder, seed=1)
    history = History(folder)
    assert history.ended.how == "completed", history.ended
    return history


def offspring() -> set[psutil.Process]:
    """Return all living processes below this one."""
    return set(psutil.Process().children(recursive=True))


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = offspring()
    yield
    assert wait_until(lambda: offspring() <= before, 10), offspring() - before


class Started:
    """A run that goes on; ``script``: in a process of its own, else in a thread of this one."""

    def __init__(self, folder: Path, made: Scenario, script: bool) -> None:
        self.folder, self.raised = folder, []
        before = offspring()
        if script:
            path = [str(Path(conformance.__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
            self.parent = subprocess.Popen(
                [sys.executable, "-c", SCRIPT, str(folder)],
                stdin=subprocess.PIPE,
                text=True,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
            )
            self.parent.stdin.write(json.dumps(made.to_json()))
            self.parent.stdin.close()
            self.parent.stdin = None
        else:
            self.thread = threading.Thread(target=self._play, args=(made,))
            self.thread.start()
        assert wait_until(lambda: len(read_table(folder / "fetches.bin", TICK)), DEADLINE_S)
        self.all = offspring() - before
        (self.child,) = [p for p in self.all if "sys.exit(main(" in " ".join(p.cmdline())]

    def _play(self, made: Scenario) -> None:
        try:
            play_isolated(made, miniature(), self.folder, seed=1)
        except KitStopped as error:
            self.raised.append(str(error))

    def gone(self) -> bool:
        return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in self.all)


# -- whole runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "partitions", "tick_us"),
    [
        pytest.param("passthrough", 2, 1_000, marks=LONG),
        pytest.param("count", 4, 100, marks=LONG),
        pytest.param("market-spread", 4, 1_000, marks=LONG),
        ("market-two", 2, 100),
    ],
)
def test_a_paced_run_is_whole_and_right(tmp_path, what, partitions, tick_us):
    made = scenario(what, partitions=partitions, tick_us=tick_us)
    folder = tmp_path / "run"
    history = played(folder, made)
    earns_figures(history)
    cores = sorted(os.sched_getaffinity(0))
    found = {path.name for path in folder.iterdir()}
    assert found >= FILES | {f"hiccups-{core}.bin" for core in cores}
    assert len(list((folder / "input").glob("plan.*"))) == 1

    pace = history.record.pace
    assert pace.tick_ns == tick_us * 1_000
    assert pace.ticks == 500_000 // tick_us == len(read_table(folder / "ticks.bin", TICK))
    found_cores = history.record.cores
    assert (found_cores.kit, found_cores.engine) == (cores, cores)
    assert found_cores.shared is True
    assert isinstance(found_cores.refused, list)
    assert history.record.scenario == made

    begin, end = pace.t0_ns, read_table(folder / "ticks.bin", TICK)["t_ns"][-1]
    for rows in history.hiccups.values():
        assert rows["t_ns"][0] < begin and rows["t_ns"][-1] > end
    assert history.all(events.Started)[0].pid in history.usage["pid"]


@LONG
def test_engine_and_kit_run_where_they_were_told(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core cannot be shared out")
    kit, engine = cores[:1], cores[1:2]
    made = scenario(seconds=3, kit_cores=tuple(kit), engine_cores=tuple(engine))
    started = Started(tmp_path / "run", made, script=False)
    threads = [os.sched_getaffinity(thread.id) for thread in started.child.threads()]
    assert len(threads) >= 3
    assert all(places == set(kit) for places in threads)
    engines = started.child.children(recursive=True)
    assert len(engines) >= 3
    assert all(p.cpu_affinity() == engine for p in engines)
    started.thread.join(DEADLINE_S)
    assert started.raised == []
    history = History(tmp_path / "run")
    found = history.record.cores
    assert (found.kit, found.engine, found.shared) == (kit, engine, False)
    assert set(history.usage["affinity"].tolist()) == {1 << engine[0]}
    members = {p.pid for row in history.all(events.Topology) for p in row.processes}
    assert members <= set(history.usage["pid"].tolist())
    assert [path.name for path in history.folder.glob("hiccups-*")] == [f"hiccups-{kit[0]}.bin"]
    assert os.sched_getaffinity(0) == set(cores)


@LONG
def test_an_engine_that_dies_in_the_middle_recovers_and_the_schedule_goes_on(tmp_path):
    kill = KillEngineStep("fetched", fraction=0.5)
    history = played(tmp_path / "run", scenario(seconds=1.5, faults=(kill,)))
    earns_figures(history)
    (fault,), (back,) = history.faults, history.all(events.Recovered)
    ticks = read_table(history.folder / "ticks.bin", TICK)["t_ns"]
    assert len(ticks) == history.record.pace.ticks
    away = (ticks > fault.t_ns) & (ticks < back.t_ns)
    gap = back.t_ns - fault.t_ns
    due = min(gap, ticks[-1] - fault.t_ns) / history.record.pace.tick_ns
    assert away.sum() >= 0.8 * due - 1
    # All of it was answered, much of it long after it was due.
    arrivals = read_table(history.folder / "output" / "s0.arrivals", ARRIVAL)
    assert arrivals["t_ns"].max() > back.t_ns


# -- what goes wrong -----------------------------------------------------------------------------


def refused(folder: Path, made: Scenario) -> str:
    with pytest.raises(KitStopped) as raised:
        play_isolated(made, miniature(), folder, seed=1)
    return str(raised.value)


def test_cores_that_do_not_exist_are_named(tmp_path):
    here = min(os.sched_getaffinity(0))
    why = refused(tmp_path / "a", scenario(kit_cores=(4095,), engine_cores=(here,)))
    assert "core 4095" in why
    why = refused(tmp_path / "b", scenario(kit_cores=(here,), engine_cores=(4095,)))
    assert "cores 4095: Invalid argument" in why
    assert History(tmp_path / "b").ended == Ended(how="kit-error", message=why)


def test_a_disk_that_fills_is_named_and_the_folder_kept(tmp_path):
    folder = tmp_path / "run"
    started = Started(folder, scenario(seconds=20), script=False)
    limit = 200_000  # bytes a file: soon less than the output
    resource.prlimit(started.child.pid, resource.RLIMIT_FSIZE, (limit, limit))
    started.thread.join(DEADLINE_S)
    (why,) = started.raised
    assert why == f"recording into {folder} stopped: File too large"
    assert History(folder).ended == Ended(how="kit-error", message=why)
    assert 0 < (folder / "output" / "s0.log").stat().st_size <= limit
    assert wait_until(started.gone, 10)


def test_a_scenario_without_a_pace_is_refused(tmp_path):
    with pytest.raises(ValueError, match="paced-count: expected a pace"):
        play_isolated(replace(scenario(), pace=None), miniature(), tmp_path / "run", seed=1)
    assert list(tmp_path.iterdir()) == []


def test_a_player_that_is_killed_takes_its_engine_along(tmp_path):
    started = Started(tmp_path / "run", scenario(seconds=20), script=False)
    started.child.kill()
    started.thread.join(DEADLINE_S)
    (why,) = started.raised
    assert f"the process that played {tmp_path / 'run'} ended (-9)" in why
    assert wait_until(started.gone, 10)


def test_nothing_outlives_a_kit_that_is_killed(tmp_path):
    started = Started(tmp_path / "run", scenario(seconds=20), script=True)
    started.parent.kill()
    started.parent.wait()
    assert wait_until(started.gone, 10)


def test_ctrl_c_ends_the_engine_and_keeps_the_run(tmp_path):
    started = Started(tmp_path / "run", scenario(seconds=20), script=True)
    os.killpg(started.parent.pid, signal.SIGINT)
    said = started.parent.communicate(timeout=DEADLINE_S)[1]
    assert said.strip().endswith("KeyboardInterrupt")
    assert wait_until(started.gone, 10)
    history = History(tmp_path / "run")
    assert history.ended.message == "interrupted with Ctrl-C"
    assert history.ended == Ended(how="kit-error", message=history.ended.message)
    ticks = read_table(history.folder / "ticks.bin", TICK)
    assert 0 < len(ticks) < history.record.pace.ticks
    assert (np.diff(ticks["t_ns"]) >= 0).all()
