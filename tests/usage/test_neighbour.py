"""A neighbour that burns all cores in the middle of a run: its seconds are the noisy ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.long import LONG
from tickproof.conformance.engines.spec import load
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.usage.hiccups import HiccupRecorders
from tickproof.conformance.usage.noise import SECOND_NS, noisy, seconds
from tickproof.conformance.usage.processor_time import TICKS

BURN_S = 2.0
RECORDS = 60_000
RATE = 10_000.0
#: One burner a core, none of them a descendant of the test. Each tells how much
#: it used, and when it had.
NEIGHBOUR = f"""
import os, time
first = os.getpid()
for core in os.sched_getaffinity(0):
    if os.fork() == 0:
        while os.getppid() == first:
            os.sched_yield()
        os.sched_setaffinity(0, [core])
        end = time.monotonic() + {BURN_S}
        while time.monotonic() < end:
            pass
        os.write(1, f"{{time.process_time()}} {{time.monotonic_ns()}}\\n".encode())
        os._exit(0)
"""


class Neighbour:
    """Burns from when a third of the input was read; hand it to the run as its listener.

    The run is not over before it is: the last sample comes after it.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.from_ns = self.to_ns = 0
        #: CPU seconds of all burners.
        self.used_s = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "progress" and event["served"] > RECORDS / 3 and not self.from_ns:
            self.from_ns = time.monotonic_ns()
            self.process = subprocess.Popen(
                [sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE, text=True
            )
        if event["event"] == "drained":
            assert self.process is not None
            said, _ = self.process.communicate(timeout=60)
            told = [line.split() for line in said.splitlines()]
            assert len(told) == len(os.sched_getaffinity(0))
            self.used_s = sum(float(used) for used, _ in told)
            self.to_ns = max(int(end) for _, end in told)


@LONG
def test_seconds_beside_a_busy_neighbour_are_noisy(tmp_path: Path) -> None:
    scenario = draw("passthrough-deaths", Context(seed=3))
    scenario = replace(
        scenario, faults=(), rate=RATE, recipe=scenario.recipe | {"records": RECORDS}
    )
    neighbour = Neighbour()
    folder = tmp_path / "run"
    with HiccupRecorders(tmp_path, [-1]):
        play(
            scenario, load(fixtures() / "engines" / "miniature"), folder, seed=3, listener=neighbour
        )
    (tmp_path / "hiccups--1.bin").rename(folder / "hiccups--1.bin")
    history = History(folder)
    assert history.ended.how == "completed"
    machine, found = history.machine, seconds(history)
    assert (found.hiccup_ns > 0).all()
    # All that it used is others' time: between the sample before it and the sample after it.
    foreign = machine["busy_s"] - machine["kit_s"] - machine["engine_s"]
    before = int((machine["t_ns"] <= neighbour.from_ns).sum()) - 1
    after = int((machine["t_ns"] < neighbour.to_ns).sum())
    over_s = (machine["t_ns"][after] - machine["t_ns"][before]) / 1e9
    grown = foreign[after] - foreign[before]
    assert grown >= neighbour.used_s - 4 * len(os.sched_getaffinity(0)) / TICKS
    # A second of it shows it nearly as it was on average, or more, and counts as noisy.
    burning = (found.starts_ns + SECOND_NS > machine["t_ns"][before]) & (
        found.starts_ns < machine["t_ns"][after]
    )
    assert found.foreign_s[burning].max() >= 0.5 * grown / over_s
    loud = noisy(found, hiccup_us=1e9, foreign=0.5 * grown / over_s)
    assert loud[burning].any()
    # The work of kit and engine is no noise: less is left to others than there was.
    assert foreign[-1] - foreign[0] < machine["busy_s"][-1] - machine["busy_s"][0]
