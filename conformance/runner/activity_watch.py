"""Looks at the engine's processes while it runs: who holds which data connection, who computes.

A look takes some milliseconds, so it is never part of serving: connections that are new are
looked at by a thread of its own, and the runner looks at moments that count.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.history.event import ActiveProcess, EventKind, UsedConnection
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.history.events import Activity
from tickproof.conformance.history.work import work
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.text import shown
from tickproof.conformance.usage.socket_holders import holders

#: Connections that are opened within this time share a look.
GATHER_S: Final = 0.02
#: The thread looks for at most one part in so many of the time, and so often at most.
SPARING: Final = 30
PERIOD_S: Final = 0.1
#: So many processes and connections are listed at most in a look.
MOST: Final = 256
_NAME: Final = 16


class ActivityWatch:
    """Writes what looks find to the events of a run; use as a context manager.

    ``port`` gives that of the log server, ``living`` the processes of the engine at a moment.
    """

    def __init__(
        self, events: EventLog, port: Callable[[], int], living: Callable[[], Sequence[Proc]]
    ) -> None:
        self._events, self._port, self._living = events, port, living
        self._lock = threading.Lock()
        #: Connections that were greeted since the look before, and those that were still open.
        self._new: deque[ConnectionUse] = deque()
        self._open: dict[int, ConnectionUse] = {}
        self._pids: dict[int, tuple[int, ...]] = {}
        #: Of the current deployment.
        self._looks: list[Activity] = []
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._follow, name="activity", daemon=True)

    def __enter__(self) -> ActivityWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._wake.set()
        self._thread.join()

    def greeted(self, use: ConnectionUse) -> None:
        """Hear of a new connection; never waits."""
        self._new.append(use)
        self._wake.set()

    def begin(self) -> None:
        """Begin anew: the engine has answered deploy."""
        with self._lock:
            self._looks = []

    def look(self) -> None:
        """Look now, and write what is seen."""
        with self._lock:
            self._look()

    def at_work(self, named: Collection[int]) -> set[int]:
        """Return which of the named processes had handled records by the last look."""
        with self._lock:
            return {pid for pid, done in work(self._looks, named).items() if done.worked}

    def holders(self, connection: int) -> tuple[int, ...]:
        """Return which processes held a connection at the last look; none where that is unknown."""
        with self._lock:
            return self._pids.get(connection, ())

    def _follow(self) -> None:
        while True:
            self._wake.wait()
            if self._over.wait(GATHER_S):
                return
            self._wake.clear()
            with self._lock:
                began = time.monotonic()
                if self._new:
                    self._look()
                took_s = time.monotonic() - began
            if self._over.wait(max(PERIOD_S, SPARING * took_s)):
                return

    def _look(self) -> None:
        while self._new:
            use = self._new.popleft()
            self._open[use.number] = use
        # What is counted after this belongs to the next look.
        used = [(use.number, use.fetched, use.sent, use.over) for use in self._open.values()]
        used.sort(key=lambda one: -(one[1] + one[2]))
        processes = self._living()
        ports = {use.port: use.number for use in self._open.values() if not use.over}
        pids = holders([proc.pid for proc in processes], ports, self._port())
        self._pids |= {ports[port]: tuple(found) for port, found in pids.items()}
        look = Activity(
            t_ns=time.monotonic_ns(),
            running=self._running(processes, {pid for found in pids.values() for pid in found}),
            used=tuple(
                UsedConnection(number, self._pids.get(number, ()), fetched, sent)
                for number, fetched, sent, _ in used[:MOST]
            ),
        )
        self._looks.append(look)
        self._events.add(EventKind.ACTIVITY, look.t_ns, running=look.running, used=look.used)
        for number, *_, over in used:
            if over:
                del self._open[number]
                self._pids.pop(number, None)

    def _running(self, processes: Sequence[Proc], holding: set[int]) -> tuple[ActiveProcess, ...]:
        """List the processes, those that hold a connection first."""
        found = []
        for proc in sorted(processes, key=lambda one: one.pid not in holding)[:MOST]:
            try:
                cpu_us = time.clock_gettime_ns((~proc.pid << 3) | 2) // 1_000
            except OSError:
                continue  # it has ended
            found.append(ActiveProcess(proc.pid, proc.ppid, cpu_us, shown(proc.name, _NAME)))
        return tuple(found)
