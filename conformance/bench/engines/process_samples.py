"""Looks at an engine's processes and its state folder while a run goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.conformance.engines import process_table
from tickproof.conformance.usage.process_sample import steal_s
from tickproof.conformance.usage.processor_time import Accounts
from tickproof.conformance.usage.sampler import Looking

#: One look. cpu_s: user and system seconds of the engine since its start. kit_cpu_s: those of
#: the kit. busy_s: those of all processes of the machine, and what a hypervisor took from it.
#: memory: bytes over all processes. state, files: bytes and files under state_dir.
SAMPLE: Final = np.dtype(
    [("t_ns", "<i8"), ("cpu_s", "<f8"), ("kit_cpu_s", "<f8"), ("busy_s", "<f8"), ("memory", "<i8"),
     ("state", "<i8"), ("files", "<i8")]
)  # fmt: skip
PERIOD_S: Final = 0.2


class Sampler:
    """Samples one run from the engine's first start to the end; use as a context manager.

    Hand `listen` to the run as its listener.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._rows: list[tuple[float, ...]] = []
        self._roots: list[int] = []
        self._accounts = Accounts()
        self._looking = Looking(self._look, lambda: self._roots, PERIOD_S)
        self._children_before = _children_cpu_s()
        #: Exact CPU seconds of everything that the run started, once it is over.
        self.cpu_s = 0.0
        #: "pss" (shared pages counted once), or "rss" where the kernel does not tell.
        self.memory_kind = "pss"

    def __enter__(self) -> Sampler:
        self._looking.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._looking.__exit__(*raised)
        # Every process of the engine is waited for by its parent or by the reaper, and the
        # reaper by the kit: nothing that ended between two looks is missing here.
        self.cpu_s = _children_cpu_s() - self._children_before

    def listen(self, event: dict[str, Any]) -> None:
        """Hear of the engine's starts: its parent is the reaper, above all its processes."""
        if event["event"] == "started":
            proc = process_table.read(event["pid"])
            if proc is not None:
                self._roots.append(proc.ppid)

    def samples(self) -> np.ndarray:
        """Return the SAMPLE rows so far; cpu_s never falls."""
        return np.array(self._rows, SAMPLE)

    def _look(self) -> None:
        accounts = self._accounts
        now = time.monotonic_ns()
        engine = accounts.look(process_table.table(), self._roots)
        memory = sum(self._memory(proc.pid) for proc in engine)
        self._rows.append(
            (now, accounts.engine_s, accounts.kit_s, accounts.busy_s + steal_s(),
             memory, *folder_size(self._state_dir))
        )  # fmt: skip

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
