"""The process table of Linux: who descends from whom, who carries a run's id, and their end.

Standard library only, and quick to import: the reaper loads this file by itself.
Signals go through a pidfd that was checked after it was opened, so that a pid that was
given to another process in the meantime is never hit.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import namedtuple
from collections.abc import Callable, Mapping

#: The environment variable that marks every process of an engine.
RUN_VARIABLE = "TICKPROOF_RUN"


# Not typing.NamedTuple, with which the import takes half as long again.
class Proc(
    namedtuple("Proc", "pid ppid state started threads name used waited core", defaults=(0, 0, 0))
):
    """One row of the table.

    ``started`` is in clock ticks since boot: with the pid, it names one process for ever.
    ``state`` is the letter of /proc/PID/stat, ``threads`` a count. ``used`` and ``waited`` are CPU
    time in clock ticks: its own, and that of the children that it waited for with all that these
    had waited for. ``core`` is the one that it ran on last.
    """

    __slots__ = ()
    pid: int
    ppid: int
    state: str
    started: int
    threads: int
    name: str
    used: int
    waited: int
    core: int


# A fork bomb may never be found all stopped; after this many passes it is killed running.
_FREEZE_PASSES = 50


def read(pid: int) -> Proc | None:
    """Return one process, or None when there is none with this pid."""
    try:
        stat = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    opening, closing = stat.index(b"("), stat.rindex(b")")
    fields = stat[closing + 2 :].split()
    name = stat[opening + 1 : closing].decode("utf-8", "backslashreplace")
    user, system, children_user, children_system = map(int, fields[11:15])
    return Proc(
        pid,
        int(fields[1]),
        chr(fields[0][0]),
        int(fields[19]),
        int(fields[17]),
        name,
        user + system,
        children_user + children_system,
        int(fields[36]),
    )


def _stat(pid: int) -> bytes:
    # Without a file object, for it takes three times as long, and a table has hundreds of rows.
    descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def table() -> dict[int, Proc]:
    """Return all processes by pid."""
    rows = (read(int(entry)) for entry in os.listdir("/proc") if entry.isdecimal())  # noqa: PTH208
    return {row.pid: row for row in rows if row is not None}


def living(proc: Proc) -> bool:
    """Tell whether anything of a process still runs, a stopped one included."""
    # The first thread may have ended (Z) while others go on.
    return proc.state not in "ZX" or proc.threads > 1


def descendants(processes: Mapping[int, Proc], root: int) -> list[Proc]:
    """Return the descendants of ``root``, parents before children, without ``root``."""
    children: dict[int, list[Proc]] = {}
    for proc in processes.values():
        children.setdefault(proc.ppid, []).append(proc)
    found = list(children.get(root, ()))
    for proc in found:
        found.extend(children.get(proc.pid, ()))
    return found


def environment(pid: int) -> list[bytes]:
    """Return the entries a process was started with; raises OSError if unreadable.

    Empty for a moment while a program is being started.
    """
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        return [entry for entry in file.read().split(b"\0") if entry]


def command_line(pid: int) -> str:
    """Return the arguments of a process, with blanks between them; empty where it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            arguments = file.read().split(b"\0")
    except OSError:
        return ""
    return b" ".join(arguments).decode("utf-8", "backslashreplace").strip()


def pids(pid: int) -> list[int]:
    """Return all pids of a process: as this one sees it, ... as its own namespace does.

    Empty when there is no such process.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(b"NSpid:"):
                    return [int(word) for word in line.split()[1:]]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [pid]


def entry(run_id: str) -> bytes:
    """Return what stands in the environment of every process of a run."""
    return f"{RUN_VARIABLE}={run_id}".encode()


def below(root: int) -> list[Proc]:
    """Return the living descendants of ``root``."""
    return [proc for proc in descendants(table(), root) if living(proc)]


def own(root: int, run_id: str) -> list[Proc]:
    """Return the living processes of an engine: below ``root``, or carrying the run's id."""
    processes = table()
    found = descendants(processes, root)
    below = {proc.pid for proc in found} | {root}
    began = processes[root].started if root in processes else 0
    for proc in processes.values():
        # What ran before the engine did has its id from nobody.
        later = proc.started >= began
        if later and proc.pid not in below and _surely_carries(proc.pid, run_id):
            found.append(proc)
    return [proc for proc in found if living(proc)]


def _surely_carries(pid: int, run_id: str) -> bool:
    try:
        return entry(run_id) in environment(pid)
    except OSError:
        return False


def send(proc: Proc, number: int) -> bool:
    """Signal exactly this process; False when it is gone or not ours to signal."""
    try:
        pidfd = os.pidfd_open(proc.pid)
    except OSError:
        return False
    try:
        now = read(proc.pid)
        if now is None or now.started != proc.started:
            return False
        signal.pidfd_send_signal(pidfd, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)


def kill_all(
    find: Callable[[], list[Proc]], settled: Callable[[], bool], timeout_s: float
) -> list[Proc]:
    """Kill all that ``find`` names, as one; return what still lives at the deadline.

    All are stopped before the first is killed: none sees another die and acts on it, none
    forks on. ``settled`` has the last word once ``find`` names nothing more.
    """
    deadline = time.monotonic() + timeout_s
    _freeze(find)
    while True:
        left = find()
        for proc in left:
            send(proc, signal.SIGKILL)
        if settled() and not left:
            return []
        if time.monotonic() > deadline:
            return left
        wait_for_one(left)


def stop_all(find: Callable[[], list[Proc]], timeout_s: float) -> list[Proc]:
    """Stop all that ``find`` names, and wait until no thread of them can run; return them."""
    deadline = time.monotonic() + timeout_s
    _freeze(find)
    held = find()
    while not all(map(stands, held)) and time.monotonic() < deadline:
        time.sleep(0.001)
    return held


def stands(proc: Proc) -> bool:
    """Tell whether no thread of a process can run: each is stopped, or has ended."""
    try:
        threads = os.listdir(f"/proc/{proc.pid}/task")  # noqa: PTH208
    except (FileNotFoundError, ProcessLookupError):
        return True
    return all(one is None or one.state in "TtZX" for one in map(read, map(int, threads)))


def _freeze(find: Callable[[], list[Proc]]) -> None:
    stopped: set[tuple[int, int]] = set()
    for _ in range(_FREEZE_PASSES):
        running = [proc for proc in find() if (proc.pid, proc.started) not in stopped]
        if not running:
            return
        for proc in running:
            send(proc, signal.SIGSTOP)
            stopped.add((proc.pid, proc.started))


def wait_for_one(processes: list[Proc]) -> None:
    """Wait until the first of them has ended, 20 ms at most: the others may be quicker."""
    poll = select.poll()
    if not processes:
        poll.poll(1)
        return
    try:
        pidfd = os.pidfd_open(processes[0].pid)
    except OSError:
        return
    poll.register(pidfd, select.POLLIN)
    poll.poll(20)
    os.close(pidfd)
