"""One look at real processes, threads and sockets; psutil is the second opinion."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from tickproof.conformance.engines import process_table
from tickproof.conformance.history.rows import USAGE
from tickproof.conformance.usage import process_sample

DEADLINE_S = 30


def wait(condition: Callable[[], bool]) -> None:
    tick, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        tick.wait(0.01)


def look(pid: int) -> np.ndarray:
    return np.array(
        process_sample.row(7, process_table.read(pid), process_sample.socket_queues(pid)), USAGE
    )


@pytest.fixture
def sleeper():
    """Give a process of three threads that has burnt a little, and waits."""
    code = (
        "import sys, threading, time\n"
        "while time.process_time() < 0.1: pass\n"
        "for _ in range(2): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "print('up', flush=True); sys.stdin.read(); import os; os._exit(0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        wait(lambda: process_table.read(process.pid).state == "S")
        yield process
        process.stdin.close()


def test_a_row_says_what_psutil_says(sleeper) -> None:
    os.sched_setaffinity(sleeper.pid, {min(os.sched_getaffinity(0))})
    row, known = look(sleeper.pid), psutil.Process(sleeper.pid)
    assert (row["t_ns"], row["pid"]) == (7, sleeper.pid)
    assert row["rss"] == known.memory_info().rss > 0
    assert row["threads"] == known.num_threads() == 3
    times = known.cpu_times()
    assert (row["user_s"], row["system_s"]) == (times.user, times.system)
    assert row["core"] == known.cpu_num()
    assert row["affinity"] == sum(1 << core for core in known.cpu_affinity())
    # psutil tells the switches of the first thread only.
    first = known.num_ctx_switches()
    assert row["voluntary"] > first.voluntary and row["involuntary"] >= first.involuntary
    assert row["wait_ns"] > 0
    found = process_sample.scheduling(process_table.read(sleeper.pid))
    assert found == {"name": known.name(), "policy": "SCHED_OTHER", "nice": known.nice()}


def test_policy_and_nice_value_are_told(sleeper) -> None:
    os.sched_setscheduler(
        sleeper.pid, os.SCHED_BATCH | process_sample._RESET_ON_FORK, os.sched_param(0)
    )
    os.setpriority(os.PRIO_PROCESS, sleeper.pid, 5)
    found = process_sample.scheduling(process_table.read(sleeper.pid))
    assert (found["policy"], found["nice"]) == ("SCHED_BATCH", 5)


def test_what_ended_is_no_row(sleeper) -> None:
    proc = process_table.read(sleeper.pid)
    sleeper.kill()
    wait(lambda: not process_table.living(process_table.read(sleeper.pid)))
    with pytest.raises(ProcessLookupError):
        process_sample.row(0, proc, {})
    sleeper.wait()
    with pytest.raises((ProcessLookupError, FileNotFoundError)):
        process_sample.row(0, proc, {})
    with pytest.raises((ProcessLookupError, FileNotFoundError)):
        process_sample.threads(sleeper.pid)


@pytest.mark.parametrize(("family", "host"), [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")])
def test_bytes_that_wait_in_sockets_are_summed(family, host) -> None:
    kind = getattr(socket, family)
    before = look(os.getpid())
    with socket.socket(kind) as server:
        try:
            server.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} here")
        server.listen()
        with socket.create_connection(server.getsockname()[:2]) as sender:
            # A connection that nobody took yet is no byte.
            assert look(os.getpid())["recv_queue"] == before["recv_queue"]
            receiver, _ = server.accept()
            with receiver:
                sender.sendall(bytes(12_345))
                wait(lambda: look(os.getpid())["recv_queue"] == before["recv_queue"] + 12_345)
                receiver.recv(345)
                assert look(os.getpid())["recv_queue"] == before["recv_queue"] + 12_000
                sender.setblocking(False)
                sent = 345
                while True:
                    try:
                        sent += sender.send(bytes(1 << 16))
                    except BlockingIOError:
                        break
                wait(lambda: look(os.getpid())["send_queue"] > before["send_queue"])
                row = look(os.getpid())
                assert int(row["recv_queue"]) + int(row["send_queue"]) >= sent - 345


def test_a_kernel_without_ipv6_has_no_such_table(monkeypatch) -> None:
    read = process_sample._read

    def without(path: str, *most: int) -> bytes:
        if path.endswith("6"):
            raise FileNotFoundError(path)
        return read(path, *most)

    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as sender:
            receiver, _ = server.accept()
            with receiver:
                sender.sendall(b"12345")
                monkeypatch.setattr(process_sample, "_read", without)
                inode = os.fstat(receiver.fileno()).st_ino
                wait(lambda: process_sample.socket_queues(os.getpid()).get(inode) == (5, 0))


def test_pressure_and_steal_never_fall() -> None:
    first = (process_sample.pressure_us(), process_sample.steal_s())
    second = (process_sample.pressure_us(), process_sample.steal_s())
    assert all(was <= now for was, now in zip(first, second, strict=True))
    assert second[1] == pytest.approx(psutil.cpu_times().steal, abs=5)
