"""Looks at an engine's processes and its state folder while a run goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from conformance.engines import proctable

#: One look. cpu_s: user and system seconds of the engine since its start. kit_cpu_s: those of
#: the kit. busy_s: those of all processors of the machine, whatever they did. memory: bytes
#: over all processes. state, files: bytes and files under state_dir.
SAMPLE: Final = np.dtype(
    [("t_ns", "<i8"), ("cpu_s", "<f8"), ("kit_cpu_s", "<f8"), ("busy_s", "<f8"), ("memory", "<i8"),
     ("state", "<i8"), ("files", "<i8")]
)  # fmt: skip
PERIOD_S: Final = 0.2
#: A look takes at most one part in so many of the time, and makes the period longer else.
SPARING: Final = 30
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: user, system, and both of the children that were waited for, in /proc/PID/stat.
_CPU_FIELDS: Final = slice(11, 15)


class Sampler:
    """Samples one run from the engine's first start to the end; use as a context manager.

    Hand `listen` to the run as its listener.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._rows: list[tuple[float, ...]] = []
        self._root = 0
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._children_before = _children_cpu_s()
        #: Exact CPU seconds of everything that the run started, once it is over.
        self.cpu_s = 0.0
        #: "pss" (shared pages counted once), or "rss" where the kernel does not tell.
        self.memory_kind = "pss"

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        # Every process of the engine is waited for by its parent or by the reaper, and the
        # reaper by the kit: nothing that ended between two looks is missing here.
        self.cpu_s = _children_cpu_s() - self._children_before

    def listen(self, event: dict[str, Any]) -> None:
        """Hear of the engine's start: its parent is the reaper, above all its processes."""
        if event["event"] == "started" and not self._root:
            proc = proctable.read(event["pid"])
            self._root = proc.ppid if proc is not None else 0

    def samples(self) -> np.ndarray:
        """Return the SAMPLE rows so far; cpu_s never falls."""
        rows = np.array(self._rows, SAMPLE)
        rows["cpu_s"] = np.maximum.accumulate(rows["cpu_s"]) if len(rows) else 0
        return rows

    def _run(self) -> None:
        pause = PERIOD_S
        try:
            while not self._stop.wait(pause):
                if not self._root:
                    continue
                began = time.thread_time()
                self._rows.append(self._look())
                pause = max(PERIOD_S, SPARING * (time.thread_time() - began))
        except Exception as error:  # figures that are missing must not look like none
            self._failure = error

    def _look(self) -> tuple[float, ...]:
        engine = proctable.descendants(proctable.table(), self._root)
        pids = [proc.pid for proc in engine]
        memory = sum(self._memory(pid) for pid in pids)
        now = time.monotonic_ns()
        cpu_s = sum(_cpu_s(pid) for pid in (self._root, *pids))
        state = folder_size(self._state_dir)
        return (now, cpu_s, time.process_time(), _busy_s(), memory, *state)

    def _memory(self, pid: int) -> int:
        """Return the resident bytes of a process, 0 when it has ended."""
        name = "smaps_rollup" if self.memory_kind == "pss" else "status"
        wanted = "Pss:" if self.memory_kind == "pss" else "VmRSS:"
        try:
            text = Path(f"/proc/{pid}/{name}").read_text()
        except OSError as error:
            untold = error.errno in (errno.EACCES, errno.ENOENT) and self.memory_kind == "pss"
            if untold and Path(f"/proc/{pid}/status").exists():  # it has not just ended
                self.memory_kind = "rss"
                return self._memory(pid)
            return 0
        for line in text.splitlines():
            if line.startswith(wanted):
                return int(line.split()[1]) * 1024
        return 0


def folder_size(folder: Path) -> tuple[int, int]:
    """Return bytes and number of the files below a folder that may change meanwhile."""
    size = files = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118
                files += 1
    return size, files


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _busy_s() -> float:
    """Return the seconds that all processors were not idle; time that a host took counts too."""
    with Path("/proc/stat").open("rb") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
            int, file.readline().split()[1:]
        )
    return (user + nice + system + irq + softirq + steal) / _TICKS


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of those of its children that it waited for."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0.0
    fields = stat[stat.rindex(b")") + 2 :].split()
    return sum(map(int, fields[_CPU_FIELDS])) / _TICKS
