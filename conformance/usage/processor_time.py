"""Attribute processor time to kit, engine or others, by the times of processes, not of cores.

/proc/stat counts a core as busy when a clock tick finds it so: periodic work, such as a
publisher's, may fall between two ticks and be missed, or be met each time. The time of a
process is exact.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tickproof.conformance.engines.process_table import Proc, descendants
from tickproof.conformance.history.rows import ANY_CORE

TICKS: Final = os.sysconf("SC_CLK_TCK")
_KERNEL_THREADS: Final = 2


class Accounts:
    """CPU seconds used so far, brought up to date by each `update`; they never decrease.

    The first update counts all that the processes there have used before. The kit is this process
    with all that it started, except the engine, and the processes ``kit``. Kernel threads count
    for nobody: most of their work is for kit and engine.
    """

    def __init__(self, kit: Collection[int] = ()) -> None:
        self._kit = kit
        self._all, self._engine, self._others = _Meter(), _Meter(), _Meter()
        #: Core -> what others used on it since the update before.
        self.others: dict[int, float] = {}

    @property
    def engine_s(self) -> float:
        """Seconds that the engine used, in all of its lives."""
        return self._engine.total / TICKS

    @property
    def kit_s(self) -> float:
        """Seconds that the kit used."""
        return (self._all.total - self._engine.total) / TICKS

    @property
    def busy_s(self) -> float:
        """Seconds that all processes used."""
        return (self._all.total + self._others.total) / TICKS

    def update(self, processes: Mapping[int, Proc], roots: Collection[int]) -> list[Proc]:
        """Add a process table; return the engine's processes, which are those below the roots."""
        engine = below(processes, roots)
        # What a reaper uses is the kit's, what it waited for the engine's.
        waiting = [processes[root]._replace(used=0) for root in roots if root in processes]
        self._engine.read([*waiting, *engine])
        roots_of_ours = [os.getpid(), *self._kit]
        ours = {proc.pid: proc for proc in below(processes, roots_of_ours)}
        ours |= {pid: processes[pid] for pid in roots_of_ours if pid in processes}
        self._all.read(ours.values())
        known = {os.getpid(), *ours, *(proc.pid for proc in engine)}
        kernel = processes.get(_KERNEL_THREADS)
        if kernel is not None and kernel.name == "kthreadd":
            known |= {kernel.pid, *(proc.pid for proc in descendants(processes, kernel.pid))}
        grown = self._others.read([p for p in processes.values() if p.pid not in known])
        self.others = {core: ticks / TICKS for core, ticks in grown.items() if ticks > 0}
        return engine


def below(processes: Mapping[int, Proc], roots: Iterable[int]) -> list[Proc]:
    """Return the descendants of all roots, each once, without the roots."""
    found = {p.pid: p for root in roots for p in descendants(processes, root)}
    return list(found.values())


class _Meter:
    """The ticks that a group of processes used, though its members come and go."""

    def __init__(self) -> None:
        self.total = 0
        self._before: dict[tuple[int, int], tuple[int, int]] | None = None

    def read(self, group: Iterable[Proc]) -> dict[int, int]:
        """Add what the group used since the last reading; return it by core."""
        now, cores = {}, {}
        for proc in group:
            now[proc.pid, proc.started] = (proc.used, proc.waited)
            cores[proc.pid, proc.started] = proc.core
        first = self._before is None
        before = self._before or {}
        self._before = now
        # What ended was waited for by a living process, whose time includes it. Where nobody
        # waited it is lost: then all that is known is what the living used.
        whole = sum(map(sum, now.values())) - sum(map(sum, before.values()))
        grown: dict[int, int] = {}
        for key, (used, _) in now.items():
            own = used - before[key][0] if key in before else used
            grown[cores[key]] = grown.get(cores[key], 0) + own
        own = sum(grown.values())
        self.total += max(whole, own)
        if first:
            return {}
        grown[ANY_CORE] = max(0, whole - own)
        return grown
