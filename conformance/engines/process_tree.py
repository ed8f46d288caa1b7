"""A named process with all that is below it: killed as one, or stopped and watched as one.

A process that topology names answers for the unnamed ones below it, so what is done to it is
done to all of them: a shell that is killed alone leaves the child that does its work.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Sequence
from typing import Final

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.engines.topology import Member

#: How long it may take until all threads of stopped processes stand still.
SETTLE_S: Final = 5.0
#: Processor time that a process may use while it is stopped: none, but for what it takes to read.
_TOLERATED_NS: Final = 1_000_000


class ProcessTree:
    """A member and the processes below it, without ``named`` others and what is below those."""

    def __init__(self, root: Member, named: Collection[int]) -> None:
        self.root = root
        self._apart = {*named} - {root.pid}
        #: All that were seen so far: who loses its parent still belongs to it.
        self._seen: dict[tuple[int, int], Proc] = {}
        #: Processor time of each when all of them stood still.
        self._used: dict[tuple[int, int], int] = {}

    def living(self) -> list[Proc]:
        """Return its living processes, the member first."""
        processes = process_table.table()
        # Looked at after the reading: alive now, so the pid was still this process's.
        if self.root.alive and (root := processes.get(self.root.pid)):
            others = {pid: one for pid, one in processes.items() if pid not in self._apart}
            for one in (root, *process_table.descendants(others, root.pid)):
                self._seen[one.pid, one.started] = one
        now = ((processes.get(pid), started) for pid, started in self._seen)
        found = [one for one, started in now if one is not None and one.started == started]
        return [one for one in found if process_table.living(one)]

    def stop(self) -> bool:
        """Send SIGSTOP and wait until all threads stand still; False where the member is gone."""
        self.root.hold()
        held = process_table.stop_all(self.living, SETTLE_S)
        self._used = {(one.pid, one.started): _used_ns(one) for one in held}
        return self.root.alive

    def ran(self) -> bool:
        """Tell whether any of it went on since `stop`: it used processor time, forked or runs."""
        return self.root.alive and any(
            not process_table.stands(one)
            or _used_ns(one) > self._used.get((one.pid, one.started), -1) + _TOLERATED_NS
            for one in self.living()
        )

    def resume(self) -> None:
        """Send SIGCONT."""
        for one in self.living():
            process_table.send(one, signal.SIGCONT)


def kill(trees: Sequence[ProcessTree]) -> list[int]:
    """Kill trees as one, without waiting for their end; return the pids, members first.

    All are stopped before the first is killed: none sees another die, and none forks on. Who
    replaces them may act at once, so what follows a kill must not wait. The members stand still
    at once: the moment is theirs, and reading the table takes its time.
    """
    for tree in trees:
        tree.root.hold()
    held = process_table.stop_all(lambda: [one for tree in trees for one in tree.living()], 0.0)
    pids = [one.pid for one in held if process_table.send(one, signal.SIGKILL)]
    roots = [tree.root.pid for tree in trees if tree.root.pid in pids]
    return roots + [pid for pid in pids if pid not in roots]


def _used_ns(proc: Proc) -> int:
    """Return the processor time of a process, 0 where it is gone."""
    try:
        return time.clock_gettime_ns((~proc.pid << 3) | 2)
    except OSError:
        return 0
