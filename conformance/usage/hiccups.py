"""The hiccup recorder: how late a process wakes up that only asks for a short sleep.

``python -m tickproof.conformance.usage.hiccups CORE PATH`` records until SIGTERM or the
death of its parent. What delays it is the platform: hypervisor, interrupts, a busy core.
It runs ahead of all ordinary processes where that is allowed, as an engine that keeps a core
busy must not look like a machine that stalls; other programs show by their CPU time.

Standard library only: it is started by its path, and is up within some 30 ms.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SLEEP_NS: Final = 1_000_000
#: What was recorded is written each so many nanoseconds.
BLOCK_NS: Final = 250_000_000
#: Below the kernel's own threads, above every generator.
PRIORITY: Final = 98
#: How long a recorder may take to start, and to end.
START_S: Final = 30.0
END_S: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_TIMERSLACK: Final = 29


class HiccupRecorders:
    """Recorders on some cores while the context lasts: ``hiccups-<core>.bin`` in a folder.

    Core -1 is any core. Tables hold HICCUP rows (conformance/history/tables.py).
    ``refused`` says in words what could not be set; the recorders run all the same. Raises
    OSError where one cannot be started, or ended before its time.
    """

    def __init__(self, folder: Path, cores: Sequence[int]) -> None:
        self._folder, self._cores = folder, tuple(cores)
        self._started: dict[int, subprocess.Popen[str]] = {}
        self.refused: list[str] = []

    def __enter__(self) -> HiccupRecorders:
        try:
            for core in self._cores:
                self._started[core] = _launch(core, self._folder / f"hiccups-{core}.bin")
            deadline = time.monotonic() + START_S
            for core, process in self._started.items():
                self._await(core, process, deadline)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        broken = self._end()
        if broken and kind is None:
            raise OSError("; ".join(broken))

    @property
    def pids(self) -> list[int]:
        """The processes of the recorders that were started."""
        return [process.pid for process in self._started.values()]

    def _await(self, core: int, process: subprocess.Popen[str], deadline: float) -> None:
        """Wait for the line that a recorder writes once it records."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
        line = process.stdout.readline() if ready else f"did not start within {START_S:g} s"
        word, _, text = line.strip().partition(" ")
        if word != "records":
            raise OSError(f"the hiccup recorder of core {core}: {line.strip() or 'did not start'}")
        if text:
            self.refused.append(f"hiccup recorder of core {core}: {text}")

    def _end(self) -> list[str]:
        """End all recorders; return which had ended before, or with an error."""
        broken = []
        for process in self._started.values():
            process.terminate()
        for core, process in self._started.items():
            try:
                status = process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            assert process.stdout is not None
            with process.stdout:
                said = process.stdout.read().strip()
            if status:
                broken.append(f"the hiccup recorder of core {core} ended with {status}: {said}")
        self._started.clear()
        return broken


def _launch(core: int, path: Path) -> subprocess.Popen[str]:
    # By its path and without site-packages: it works wherever the kit was imported from.
    command = [sys.executable, "-I", "-S", __file__, str(core), str(path.resolve())]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    )


def main(core: int, path: str, parent: int) -> int:
    """Record the hiccups of a core to ``path``; return the exit status."""
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends this one
    try:
        refused = _settle(core)
        if os.getppid() != parent:
            return 0  # it died before prctl could ask for the signal
        table = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with contextlib.suppress(BrokenPipeError):
            os.write(1, f"records {refused}\n".encode())
        _record(table, stop)
    except OSError as error:
        with contextlib.suppress(BrokenPipeError):
            os.write(1, f"{error}\n".encode())
        return 1
    return 0


def _settle(core: int) -> str:
    """Move to the core and set the priority; return what was refused. OSError for no such core."""
    gc.disable()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for option, value in ((_PR_SET_PDEATHSIG, signal.SIGTERM), (_PR_SET_TIMERSLACK, 1)):
        if prctl(option, value, 0, 0, 0):
            raise OSError(ctypes.get_errno(), f"prctl {option}")
    if core >= 0:
        try:
            os.sched_setaffinity(0, {core})
        except OSError as error:
            raise OSError(f"cannot run on core {core}: {error.strerror}") from error
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except OSError as error:
        return f"SCHED_FIFO: {error.strerror}: an engine that keeps the core busy delays it too"
    return ""


def _record(table: int, stop: list[int]) -> None:
    """Sleep to each millisecond in turn until ``stop`` holds something.

    A wake-up that comes after further milliseconds are due stands for all of them: each has
    a row, so that percentiles count a stall for as long as it lasted.
    """
    clock, sleep = time.monotonic_ns, time.sleep
    rows = array.array("q")
    add = rows.append
    due = clock()
    written = due
    while True:
        due += SLEEP_NS
        sleep(max(0, due - clock()) / 1e9)  # to its end, signal or not
        woke = clock()
        add(woke)
        add(woke - due)
        while due + SLEEP_NS <= woke:
            due += SLEEP_NS
            add(woke)
            add(woke - due)
        if stop or woke - written >= BLOCK_NS:
            _write(table, rows)
            if stop:
                return
            del rows[:]
            written = woke


def _write(table: int, rows: array.array[int]) -> None:
    left = memoryview(rows).cast("B")
    while left:
        left = left[os.write(table, left) :]
    left.release()


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].lstrip("-").isdecimal():
        sys.exit("usage: hiccups CORE PATH (CORE -1: any core)")
    sys.exit(main(int(sys.argv[1]), sys.argv[2], os.getppid()))
