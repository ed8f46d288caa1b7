"""The processes an engine names: proven to be its own, then held by pidfd."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.text import shown

_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Topology is asked for again where it names a process that has ended: for how long, how often.
_ASK_AGAIN_FOR_S = 2.0
_ASK_AGAIN_S = 0.05
#: For so long a process may show no environment: it is still being started.
_EXEC_TIMEOUT_S = 0.5


class Member:
    """One process of an engine, held by a pidfd: what is said of it is of this process.

    Safe to use from any thread, also after the process or the engine has ended.
    """

    def __init__(self, pid: int, role: str, name: str, pidfd: int) -> None:
        self.pid = pid
        self.role = role
        self.name = name
        self._pidfd = pidfd
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Member({self.pid}, {self.role!r}, {shown(self.name, 60)!r})"

    @property
    def alive(self) -> bool:
        """True if the process runs or is stopped; an unreaped one counts as dead."""
        return not self.wait_gone(0)

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until the process has ended; False at the deadline."""
        with self._lock:
            if self._pidfd < 0:
                return True
            # A copy, so that close() does not have to wait for this poll.
            pidfd = os.dup(self._pidfd)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            return bool(poll.poll(max(0, round(timeout_s * 1000))))
        finally:
            os.close(pidfd)

    def hold(self) -> None:
        """Send SIGSTOP, if the process is there."""
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGSTOP)

    def rss_bytes(self) -> int:
        """Return the resident memory, shared pages included; 0 when the process is gone."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return 0
        # Looked at after the reading: alive now, so the pid was still this process's.
        return pages * _PAGE if self.alive else 0

    def close(self) -> None:
        """Let go; afterwards the member counts as dead."""
        with self._lock:
            if self._pidfd >= 0:
                os.close(self._pidfd)
            self._pidfd = -1


class Roster:
    """All processes that an engine has named since its start; they are below ``above``.

    ``clock`` measures time limits.
    """

    def __init__(self, above: int, run_id: str, clock: FairClock | None = None) -> None:
        self._above = above
        self.clock = clock or FairClock()
        self._run_id = run_id
        #: In how many pid namespaces below the kit's own the engine lives: in none, or in one.
        self._depth = max(0, len(process_table.pids(above)) - 1)
        #: The kit's pids by those that the engine gave in a namespace of its own.
        self._seen: dict[int, int] = {}
        self._known: dict[tuple[int, str, str], Member] = {}

    def ask(
        self,
        answer: Callable[[float], list[dict[str, Any]]],
        exited: Callable[[float], int | None],
        timeout_s: float,
        survives: Collection[str],
        argv_pid: int,
        recovery_s: float,
    ) -> list[Member]:
        """Return the members that ``answer`` names; raises EngineFailure.

        ``answer`` is called again, unless ``exited`` (which waits) says that the engine has
        ended: for a while where a process ended between answer and proof, and for recovery_s
        where no worker is named though ``survives`` asks for one (`check_survives`), for a
        fault may have ended all of them.
        """
        again_s = max(_ASK_AGAIN_FOR_S, recovery_s if survives else 0)
        began = time.monotonic()
        while True:
            processes = answer(max(0.1, timeout_s - self.clock.fair_s(began)))
            try:
                members = self.members(processes)
                check_survives(members, survives, argv_pid)
                return members
            except Unsettled as wrong:
                limit_s = min(timeout_s, again_s)
                if self.clock.overdue(began, limit_s, wrong.message, moves=False):
                    raise
                if exited(_ASK_AGAIN_S) is not None:
                    raise

    def members(self, processes: list[dict[str, Any]]) -> list[Member]:
        """Return the named processes; raises EngineFailure FOREIGN_PID. Signals nobody.

        A known process that has died stays a (dead) member: the engine may not have
        noticed yet.
        """
        named = []
        self._look()
        for row in processes:
            given, role, name = row["pid"], row["role"], row["name"]
            if (pid := self._seen.get(given) if self.closed else given) is None:
                raise _gone(given, role, name)
            named.append(self._member(pid, role, name))
        # An engine that keeps restarting its workers must not use up the descriptors.
        for key, member in list(self._known.items()):
            if member not in named and not member.alive:
                self._known.pop(key).close()
        return named

    def pid_of(self, given: int) -> int | None:
        """Return the kit's pid of a process that the engine named by its own.

        None when there is no such process. One that has died keeps the pid that it had.
        """
        self._look()
        return self._seen.get(given) if self.closed else given

    @property
    def closed(self) -> bool:
        """True if the engine has a pid namespace of its own: no process leaves ``above``."""
        return self._depth > 0

    def living(self) -> list[process_table.Proc]:
        """Return the processes of the engine that live now, those it has not named too."""
        if self.closed:
            return process_table.below(self._above)
        return process_table.own(self._above, self._run_id)

    def _look(self) -> None:
        if not self.closed:
            return
        for proc in process_table.descendants(process_table.table(), self._above):
            known = process_table.pids(proc.pid)
            if len(known) > self._depth:
                self._seen[known[self._depth]] = proc.pid

    def _member(self, pid: int, role: str, name: str) -> Member:
        known = self._known.get((pid, role, name))
        if known is not None:
            now = process_table.read(pid)
            if known.alive or now is None or not process_table.living(now):
                return known
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            raise _gone(pid, role, name) from None
        # Held from here on: should the pid change hands now, the old holder's pidfd is
        # dead and reaches nobody.
        try:
            self._prove(pid, role, name)
        except BaseException:
            os.close(pidfd)
            raise
        if known is not None:
            known.close()
        member = self._known[pid, role, name] = Member(pid, role, name, pidfd)
        return member

    def _prove(self, pid: int, role: str, name: str) -> None:
        # Twice: a chain of parents read while one of them ends may look broken.
        if self._is_below(pid) or self._is_below(pid):
            return
        try:
            if pid != self._above and self._carries_id(pid):
                return
        except PermissionError:
            raise _foreign(pid, role, name, "its environment cannot be read") from None
        except OSError:
            raise _gone(pid, role, name) from None
        where = f"nor carries this run's {process_table.RUN_VARIABLE}"
        raise _foreign(pid, role, name, f"it neither descends from the engine {where}")

    def _carries_id(self, pid: int) -> bool:
        began, what = time.monotonic(), f"process {pid} shows no environment"
        while not (entries := process_table.environment(pid)) and not self.clock.overdue(
            began, _EXEC_TIMEOUT_S, what, moves=False
        ):
            proc = process_table.read(pid)
            if proc is None or not process_table.living(proc):
                return False
            process_table.wait_for_one([proc])
        return process_table.entry(self._run_id) in entries

    def _is_below(self, pid: int) -> bool:
        """Return True if the engine started it: only the engine's processes are below the reaper.

        A daemon that detached from argv's process is adopted by the reaper.
        """
        seen: set[int] = set()
        proc = process_table.read(pid)
        while proc is not None and proc.pid not in seen:
            if proc.ppid == self._above:
                return True
            seen.add(proc.pid)
            proc = process_table.read(proc.ppid)
        return False

    def close(self) -> None:
        """Let go of all members."""
        for member in self._known.values():
            member.close()


class Unsettled(EngineFailure):
    """An answer that may be true of a moment: what is wrong with it may be over soon."""


class NoSuchProcess(Unsettled):
    """A named process is not there: never was, or ended since the answer."""


class NoWorker(Unsettled):
    """No worker is named where one has to be."""


def _gone(pid: int, role: str, name: str) -> NoSuchProcess:
    failure = _foreign(pid, role, name, "there is no such process")
    return NoSuchProcess(failure.code, failure.message)


def _foreign(pid: int, role: str, name: str, why: str) -> EngineFailure:
    who = f"pid {pid} ({role}, {shown(name, 60)})"
    return EngineFailure(Code.FOREIGN_PID, f"topology names {who}, not the engine's own: {why}")


def check_survives(members: list[Member], survives: Collection[str], argv_pid: int) -> None:
    """Raise NoWorker, a BAD_ANSWER, where "worker" is claimed and none has its own process."""
    if "worker" not in survives:
        return
    if not any(member.role == "worker" and member.pid != argv_pid for member in members):
        claim = 'survives holds "worker"'
        message = f"{claim}: topology names no worker whose pid is not argv's ({argv_pid})"
        raise NoWorker(Code.BAD_ANSWER, message)
