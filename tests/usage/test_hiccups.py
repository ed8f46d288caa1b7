"""Real recorders: what they write, whom they follow into death, what they leave."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tickproof.conformance.engines import process_table
from tickproof.conformance.history.rows import HICCUP
from tickproof.conformance.history.tables import read_table
from tickproof.conformance.usage import hiccups
from tickproof.conformance.usage.hiccups import SLEEP_NS, HiccupRecorders

DEADLINE_S = 30


def wait(condition: Callable[[], bool]) -> None:
    tick, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        tick.wait(0.01)


def gone(pid: int) -> bool:
    proc = process_table.read(pid)
    return proc is None or not process_table.living(proc)


def test_each_millisecond_has_its_row(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    path = tmp_path / f"hiccups-{core}.bin"
    began = time.monotonic_ns()
    with HiccupRecorders(tmp_path, [core, -1]) as recorders:
        pinned, free = recorders.pids
        assert os.sched_getaffinity(pinned) == {core}
        assert os.sched_getaffinity(free) == os.sched_getaffinity(0)
        asked = time.monotonic_ns()
        wait(lambda: len(read_table(path, HICCUP)) > 0)
        over = time.monotonic_ns()
    assert gone(pinned) and gone(free)
    rows = read_table(path, HICCUP)
    due = rows["t_ns"] - rows["late_ns"]
    assert (np.diff(due) == SLEEP_NS).all()
    assert (np.diff(rows["t_ns"]) >= 0).all() and (rows["late_ns"] >= 0).all()
    # All of the time within is covered, up to the end.
    assert began < due[0] <= asked + 2 * SLEEP_NS and rows["t_ns"][-1] >= over - SLEEP_NS
    assert len(read_table(tmp_path / "hiccups--1.bin", HICCUP)) > 0


def test_a_stall_has_a_row_for_each_millisecond_that_it_lasts(tmp_path: Path) -> None:
    path = tmp_path / "hiccups--1.bin"
    with HiccupRecorders(tmp_path, [-1]) as recorders:
        (pid,) = recorders.pids
        wait(lambda: len(read_table(path, HICCUP)) > 0)
        os.kill(pid, signal.SIGSTOP)
        wait(lambda: process_table.read(pid).state == "T")
        from_ns = time.monotonic_ns()
        wait(lambda: time.monotonic_ns() > from_ns + 100_000_000)
        to_ns = time.monotonic_ns()
        os.kill(pid, signal.SIGCONT)
        wait(lambda: read_table(path, HICCUP)["t_ns"].max(initial=0) > to_ns)
    rows = read_table(path, HICCUP)
    due = rows["t_ns"] - rows["late_ns"]
    assert (np.diff(due) == SLEEP_NS).all()
    within = rows[(due > from_ns) & (due < to_ns)]
    assert len(within) >= (to_ns - from_ns) // SLEEP_NS - 1
    assert (within["t_ns"] > to_ns).all()
    assert rows["late_ns"].max() >= to_ns - from_ns - SLEEP_NS


def test_recorders_die_with_a_kit_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, threading; from pathlib import Path\n"
        "from tickproof.conformance.usage.hiccups import HiccupRecorders\n"
        "with HiccupRecorders(Path(sys.argv[1]), [-1, -1]) as recorders:\n"
        "    print(*recorders.pids, flush=True)\n"
        "    threading.Event().wait()\n"
    ).replace("[-1, -1]", "[min(__import__('os').sched_getaffinity(0)), -1]")
    kit = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(hiccups.__file__).parents[3])},
    )
    try:
        pids = [int(word) for word in kit.stdout.readline().split()]
        held = [os.pidfd_open(pid) for pid in pids]
        assert len(held) == 2
        killed_ns = time.monotonic_ns()
    finally:
        kit.kill()
        kit.communicate()
    for pidfd in held:
        assert select.select([pidfd], [], [], DEADLINE_S)[0], "it outlived the kit"
        os.close(pidfd)
    for path in tmp_path.iterdir():
        # What was not yet due to be written is there too, and no row is torn.
        rows = read_table(path, HICCUP)
        assert path.stat().st_size == rows.nbytes
        assert rows["t_ns"][-1] >= killed_ns - SLEEP_NS


def test_no_such_core_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    recorders = HiccupRecorders(tmp_path, [-1, 8_191])
    before = {proc.pid for proc in process_table.descendants(process_table.table(), os.getpid())}
    with pytest.raises(OSError, match=r"hiccup recorder of core 8191: cannot run on core 8191"):
        with recorders:
            pass
    children = process_table.descendants(process_table.table(), os.getpid())
    left = [proc for proc in children if process_table.living(proc) and proc.pid not in before]
    assert left == []


def test_a_recorder_that_ended_early_is_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"core -1 ended with -9"):
        with HiccupRecorders(tmp_path, [-1]) as recorders:
            os.kill(recorders.pids[0], signal.SIGKILL)
            wait(lambda: gone(recorders.pids[0]))


def test_a_table_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"core -1: .*No such file or directory"):
        with HiccupRecorders(tmp_path / "none", [-1]):
            pass


def test_wrong_use_says_what_was_expected() -> None:
    done = subprocess.run(
        [sys.executable, hiccups.__file__, "first", "x"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "CORE PATH" in done.stderr
