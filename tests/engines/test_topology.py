"""Which processes count as the engine's own, and that no other is ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.failures import EngineFailure
from tickproof.conformance.engines.topology import Roster

WAITS = [sys.executable, "-c", "input()"]


@pytest.fixture
def stranger():
    """Start a process of the test's own; give a function that starts it with an environment."""
    started = []

    def start(**environment):
        process = subprocess.Popen(
            WAITS, stdin=subprocess.PIPE, env=os.environ | environment, start_new_session=True
        )
        started.append(process)
        return process.pid

    yield start
    for process in started:
        process.communicate(b"\n")
        assert process.returncode == 0  # nobody signalled it


def named(pid: int) -> list[dict]:
    return [{"pid": pid, "role": "worker", "name": "w"}]


@pytest.fixture
def roster():
    """Give a roster of an engine without any process below its reaper."""
    made = Roster(1 << 30, "run-7")
    yield made
    made.close()


def refusal(roster: Roster, pid: int) -> str:
    with pytest.raises(EngineFailure) as raised:
        roster.members(named(pid))
    assert raised.value.code == "FOREIGN_PID"
    return raised.value.message


def test_a_process_that_carries_the_run_id_is_the_engines(roster, stranger):
    (member,) = roster.members(named(stranger(TICKPROOF_RUN="run-7")))
    assert member.alive


@pytest.mark.parametrize(
    "environment",
    [{}, {"TICKPROOF_RUN": "run-77"}, {"TICKPROOF_RUN": ""}, {"X": "TICKPROOF_RUN=run-7"}],
)
def test_any_other_environment_is_foreign(roster, stranger, environment):
    assert "neither descends" in refusal(roster, stranger(**environment))


def test_the_kit_itself_and_init_are_foreign(roster):
    refusal(roster, os.getpid())
    refusal(roster, 1)


def test_a_pid_of_no_process(roster):
    process = subprocess.Popen(["true"])
    process.wait()
    assert "there is no such process" in refusal(roster, process.pid)


def test_an_environment_that_cannot_be_read(roster, stranger, monkeypatch):
    def unreadable(pid):
        raise PermissionError(13, "Permission denied")

    pid = stranger(TICKPROOF_RUN="run-7")
    monkeypatch.setattr(process_table, "environment", unreadable)
    assert "its environment cannot be read" in refusal(roster, pid)


def test_a_process_that_is_being_started_is_waited_for(roster, stranger, monkeypatch):
    reads = [[], [], [b"TICKPROOF_RUN=run-7"]]
    monkeypatch.setattr(process_table, "environment", lambda pid: reads.pop(0))
    (member,) = roster.members(named(stranger()))
    assert member.alive
    assert reads == []


def test_a_process_without_any_environment_is_foreign(roster):
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE, env={}) as process:
        assert "neither descends" in refusal(roster, process.pid)
        process.communicate(b"\n")
    assert process.returncode == 0


def test_the_reaper_is_not_of_the_engine(stranger):
    pid = stranger(TICKPROOF_RUN="run-7")
    made = Roster(pid, "run-7")
    refusal(made, pid)


def test_a_descendant_needs_no_run_id(roster, stranger):
    made = Roster(os.getpid(), "run-7")
    (member,) = made.members(named(stranger()))
    assert member.alive
    made.close()
    assert not member.alive


def test_the_dead_that_are_named_no_more_are_let_go(roster, stranger):
    staying = stranger(TICKPROOF_RUN="run-7")
    roster.members(named(staying))
    before = psutil.Process().num_fds()
    for _ in range(3):
        with subprocess.Popen(WAITS, stdin=subprocess.PIPE, env={"TICKPROOF_RUN": "run-7"}) as gone:
            (member,) = roster.members(named(gone.pid))
            os.kill(member.pid, signal.SIGKILL)
            assert member.wait_gone(10)
        assert not member.alive
        assert roster.members(named(staying))[0].alive
    assert psutil.Process().num_fds() == before


def test_a_failure_leaves_no_descriptor(roster, stranger):
    pid = stranger()
    before = psutil.Process().num_fds()
    for _ in range(5):
        refusal(roster, pid)
    assert psutil.Process().num_fds() == before


def test_descendants_come_parents_first():
    rows = [(5, 4), (2, 1), (4, 2), (3, 2), (9, 8), (8, 9)]
    processes = {p: process_table.Proc(p, parent, "S", 0, 1, "x") for p, parent in rows}
    found = [proc.pid for proc in process_table.descendants(processes, 1)]
    assert sorted(found) == [2, 3, 4, 5]
    assert found.index(2) < found.index(4) < found.index(5)


def test_a_signal_for_an_earlier_holder_of_a_pid_is_not_sent(stranger):
    proc = process_table.read(stranger())
    assert not process_table.send(proc._replace(started=proc.started - 1), 9)
    assert process_table.living(process_table.read(proc.pid))


def test_a_process_with_a_strange_name_is_read():
    script = "open('/proc/self/comm', 'w').write('a) S 1 (b'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        proc = process_table.read(process.pid)
        process.communicate(b"\n")
    assert (proc.name, proc.ppid) == ("a) S 1 (b", os.getpid())
