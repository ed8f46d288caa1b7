"""Samples of a bench besides the usage: an engine's memory and the folder of its state."""

from __future__ import annotations

import errno
import json
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.engines.workspace import folder_size
from tickproof.conformance.history.json_lines import read_json_lines
from tickproof.conformance.usage.sampler import MachineSample, UsageSampler

#: One sample. cpu_s: user and system seconds of the engine since its start. kit_cpu_s: those of
#: the kit. busy_s: those of all processes of the machine, and what a hypervisor took from it.
#: memory: bytes over all processes. state: bytes under state_dir.
SAMPLE: Final = np.dtype(
    [("t_ns", "<i8"), ("cpu_s", "<f8"), ("kit_cpu_s", "<f8"), ("busy_s", "<f8"), ("memory", "<i8"),
     ("state", "<i8")]
)  # fmt: skip
PERIOD_S: Final = 0.2


class EngineSamples:
    """The samples of one run, every ``period_s``; pass `sampler` to `play` as its usage."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._rows: list[tuple[float, ...]] = []
        self._folder, self._state_dir = Path(), Path()
        #: "pss" (shared pages counted once), or "rss" where the kernel does not report that.
        self.memory_kind = "pss"
        #: Exact CPU seconds of everything that the run started, once it is over.
        self.cpu_s = 0.0

    def sampler(self, folder: Path) -> UsageSampler:
        """Return the sampler of a run, which adds its samples here."""
        self._folder, self._state_dir = folder, Path()
        return UsageSampler(folder, period_s=self._period_s, on_sample=self._add)

    def rows(self) -> np.ndarray:
        """Return the SAMPLE rows so far; cpu_s never falls."""
        return np.array(self._rows, SAMPLE)

    def _add(self, machine: MachineSample, engine: Sequence[Proc]) -> None:
        memory = sum(self._memory(proc.pid) for proc in engine)
        busy_s = machine.busy_s + machine.steal_s
        if self._state_dir == Path():
            self._state_dir = _state_dir(self._folder)
        size = folder_size(self._state_dir)[0] if self._state_dir != Path() else 0
        self._rows.append((machine.t_ns, machine.engine_s, machine.kit_s, busy_s, memory, size))

    def _memory(self, pid: int) -> int:
        """Return the resident bytes of a process, 0 when it has ended."""
        name = "smaps_rollup" if self.memory_kind == "pss" else "status"
        wanted = "Pss:" if self.memory_kind == "pss" else "VmRSS:"
        try:
            text = Path(f"/proc/{pid}/{name}").read_text()
        except OSError as error:
            unknown = error.errno in (errno.EACCES, errno.ENOENT) and self.memory_kind == "pss"
            if unknown and Path(f"/proc/{pid}/status").exists():  # it has not just ended
                self.memory_kind = "rss"
                return self._memory(pid)
            return 0
        for line in text.splitlines():
            if line.startswith(wanted):
                return int(line.split()[1]) * 1024
        return 0


def _state_dir(folder: Path) -> Path:
    """Return the state_dir that a run's engine was told, Path() before that."""
    path = folder / "control.jsonl"
    for row in read_json_lines(path) if path.exists() else []:
        if row["direction"] == "to" and '"state_dir"' in row["line"]:
            return Path(json.loads(row["line"])["state_dir"])
    return Path()


def children_cpu_s() -> float:
    """Return the CPU seconds of all children that have ended.

    Every process of an engine is waited for by its parent or by the reaper, and the reaper by
    the kit: this includes what ended between two samples.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
