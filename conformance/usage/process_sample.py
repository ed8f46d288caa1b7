"""Sample one process, and the sockets of all, from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.text import shown
from tickproof.conformance.usage.processor_time import TICKS

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_SOCKET: Final = "socket:["
#: The line before that of the involuntary ones.
_SWITCHES: Final = b"\nvoluntary_ctxt_switches:"
_POLICIES: Final = {
    getattr(os, name): name
    for name in ("SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_FIFO", "SCHED_RR")
} | {6: "SCHED_DEADLINE"}
#: What SCHED_RESET_ON_FORK adds to a policy.
_RESET_ON_FORK: Final = 0x40000000


class Threads(NamedTuple):
    """Sums over the living threads of a process; wait_ns is -1 where the kernel hides it."""

    living: int
    voluntary: int
    involuntary: int
    wait_ns: int


class Thread(NamedTuple):
    """Processor time of a thread, how long it waited for a core (0 where that is not told), state.

    state: the letter of /proc, "D" while it waits for a disk.
    """

    used_ns: int
    wait_ns: int
    state: str


def row(t_ns: int, proc: Proc, queues: Mapping[int, tuple[int, int]] | None) -> tuple[Any, ...]:
    """Return a USAGE row; raises OSError when the process has ended.

    ``queues`` come from `socket_queues`; None: not looked at, which is -1 in the row. A process
    whose sockets this user may not see has none.
    """
    pid = proc.pid
    rss = int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE
    summed = threads(pid)
    affinity = sum(1 << core for core in os.sched_getaffinity(pid) if core < 64)
    received, sent = _waiting(pid, queues) if queues is not None else (-1, -1)
    user_s, system_s, core = _stat(pid)  # last: raises if it has ended since
    return (t_ns, pid, user_s, system_s, rss, *summed, core, received, sent, affinity)


def _waiting(pid: int, queues: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    found = [queues[inode] for inode in sockets(pid) if inode in queues]
    return sum(received for received, _ in found), sum(sent for _, sent in found)


def scheduling(proc: Proc) -> dict[str, Any]:
    """Return name, scheduling policy and nice value; raises OSError when it has ended."""
    policy = os.sched_getscheduler(proc.pid) & ~_RESET_ON_FORK
    return {
        "name": shown(proc.name, 60),
        "policy": _POLICIES.get(policy, str(policy)),
        "nice": os.getpriority(os.PRIO_PROCESS, proc.pid),
    }


def _stat(pid: int) -> tuple[float, float, int]:
    """Return user and system seconds of a living process, and the core that it ran on last."""
    stat = _read(f"/proc/{pid}/stat")
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in b"ZX" and int(fields[17]) <= 1:
        raise ProcessLookupError(pid)
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS, int(fields[36])


def threads(pid: int) -> Threads:
    """Sum over the threads of a process; raises OSError when it has ended."""
    count = voluntary = involuntary = wait_ns = 0
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        try:
            status = _read(f"/proc/{pid}/task/{task}/status")
            wait = _read(f"/proc/{pid}/task/{task}/schedstat") if _HAS_SCHEDSTAT else b"0 0 0"
        except OSError:
            continue  # a thread that has just ended
        words = status[status.index(_SWITCHES) :].split(maxsplit=4)
        count += 1
        voluntary += int(words[1])
        involuntary += int(words[3])
        wait_ns += int(wait.split()[1])
    if not count:
        raise ProcessLookupError(pid)
    return Threads(count, voluntary, involuntary, wait_ns if _HAS_SCHEDSTAT else -1)


def thread_times(pid: int) -> dict[tuple[int, int], Thread]:
    """Return the living threads of a process, by pid and number; raises OSError if it has ended."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        try:
            stat = _read(f"/proc/{pid}/task/{task}/stat")
            times = _read(f"/proc/{pid}/task/{task}/schedstat") if _HAS_SCHEDSTAT else b""
        except OSError:
            continue  # a thread that has just ended
        fields = stat[stat.rindex(b")") + 2 :].split(maxsplit=13)
        if times:
            used_ns, wait_ns = map(int, times.split()[:2])
        else:
            used_ns, wait_ns = (int(fields[11]) + int(fields[12])) * 1_000_000_000 // TICKS, 0
        found[pid, int(task)] = Thread(used_ns, wait_ns, chr(fields[0][0]))
    return found


def sockets(pid: int) -> list[int]:
    """Return the inodes of a process's sockets; none where they may not be seen."""
    found = []
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except PermissionError:
        return []
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            continue  # closed meanwhile
        if target.startswith(_SOCKET):
            found.append(int(target[len(_SOCKET) : -1]))
    return found


def socket_queues(pid: int) -> dict[int, tuple[int, int]]:
    """Return inode -> bytes that wait to be read, and to be sent, of TCP sockets with any.

    Those of the network that a process is in; none when it has ended.
    """
    folder = f"/proc/{pid}/net"
    found: dict[int, tuple[int, int]] = {}
    with contextlib.suppress(OSError):
        found = _queues(_read(f"{folder}/tcp"))
        # To list them takes a walk through a large table, however few there are.
        if not _read(f"{folder}/sockstat6").startswith(b"TCP6: inuse 0\n"):
            found |= _queues(_read(f"{folder}/tcp6"))
    return found


def _queues(table: bytes) -> dict[int, tuple[int, int]]:
    found = {}
    for line in table.splitlines()[1:]:
        if b" 00000000:00000000 " in line:
            continue  # nothing waits, as nearly always
        fields = line.split()
        # A socket that listens shows how many connections wait there, not bytes.
        if fields[3] != b"0A":
            send, receive = fields[4].split(b":")
            found[int(fields[9])] = (int(receive, 16), int(send, 16))
    return found


def steal_s() -> float:
    """Return the CPU seconds that a hypervisor took from all cores since boot."""
    return int(_read("/proc/stat", 4096).split(maxsplit=9)[8]) / TICKS


def pressure_us() -> int:
    """Return how long anything waited for a core since boot, -1 where the kernel hides it."""
    seconds = pressure_s("cpu")
    return -1 if seconds is None else round(seconds * 1e6)


def pressure_s(resource: str) -> float | None:
    """Return how long anything waited for "cpu", "io" or "memory" since boot, None if untold."""
    try:
        some = _read(f"/proc/pressure/{resource}").splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition(b"total=")[2]) / 1e6


def _read(path: str, most: int = -1) -> bytes:
    with open(path, "rb", 0) as file:  # noqa: PTH123 (ten times as quick)
        return file.read(most)


_HAS_SCHEDSTAT: Final = Path("/proc/self/schedstat").exists()
