"""A process that is killed, or stopped, with all that is below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tickproof.conformance.engines import process_tree
from tickproof.conformance.engines.process_tree import ProcessTree
from tickproof.conformance.engines.topology import Member

#: Forks a child, which forks another: each writes its pid, and lives until its parent's stdin ends.
NESTED = """
import os, sys
def down(depth):
    print(os.getpid(), flush=True)
    if depth and not os.fork():
        down(depth - 1)
    sys.stdin.read()
    os._exit(0)
down(2)
"""


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Give the pids of three processes, each below the one before."""
    command = [sys.executable, "-c", NESTED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        found = [int(shell.stdout.readline()) for _ in range(3)]
        yield found
        for pid in found:
            if pid != shell.pid and psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
        shell.kill()


@pytest.fixture
def tree() -> Iterator[Callable[..., ProcessTree]]:
    members: list[Member] = []

    def make(pid: int, *named: int) -> ProcessTree:
        members.append(Member(pid, "worker", "w", os.pidfd_open(pid)))
        return ProcessTree(members[-1], [pid, *named])

    yield make
    for member in members:
        member.close()


def status(pid: int) -> str:
    try:
        return psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return "gone"


def ended(pid: int) -> bool:
    """Wait for the end of a process that was killed."""
    deadline = time.monotonic() + 20
    while (now := status(pid)) not in ("gone", "zombie") and time.monotonic() < deadline:
        time.sleep(0.01)
    return now in ("gone", "zombie")


def test_a_kill_takes_the_children_of_a_shell_with_it(pids, tree):
    assert process_tree.kill([tree(pids[0])]) == pids
    assert all(map(ended, pids))


def test_what_is_named_below_it_lives_with_its_own(pids, tree):
    one = tree(pids[0], pids[1])
    assert process_tree.kill([one]) == pids[:1]
    assert ended(pids[0])
    assert not {status(pid) for pid in pids[1:]} & {"gone", "zombie"}
    assert process_tree.kill([one]) == []


def test_who_lost_its_parent_meanwhile_still_belongs_to_it(pids, tree):
    one = tree(pids[0])
    assert len(one.living()) == 3
    os.kill(pids[1], signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pids[1])] if psutil.pid_exists(pids[1]) else [], timeout=1)
    assert {found.pid for found in one.living()} == {pids[0], pids[2]}
    process_tree.kill([one])
    assert ended(pids[2])


def test_all_of_it_stands_still_until_it_is_continued(pids, tree):
    one = tree(pids[0])
    assert one.stop()
    assert [status(pid) for pid in pids] == ["stopped"] * 3
    assert not one.ran()
    one.resume()
    assert "stopped" not in [status(pid) for pid in pids]
    process_tree.kill([one])
    assert all(map(ended, pids))
    assert not one.stop()


@pytest.mark.parametrize("again", [True, False])
def test_somebody_who_continues_a_part_of_it_is_seen(tree, again):
    """Also if it was stopped again: it had used processor time."""
    burns = [sys.executable, "-c", "import os\nos.fork()\nwhile True: pass"]
    with subprocess.Popen(burns) as shell:
        one = tree(shell.pid)
        try:
            while len(one.living()) < 2:
                time.sleep(0.01)
            child = one.living()[1].pid
            assert one.stop()
            assert not one.ran()
            used = psutil.Process(child).cpu_times().user
            os.kill(child, signal.SIGCONT)
            while not one.ran() or psutil.Process(child).cpu_times().user < used + 0.02:
                time.sleep(0.01)
            if again:
                os.kill(child, signal.SIGSTOP)
                while status(child) != "stopped":
                    time.sleep(0.01)
            assert one.ran()
        finally:
            process_tree.kill([one])
