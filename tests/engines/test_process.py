"""Engine: talking, waiting, killing and ending, with an engine that behaves."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from tickproof.conformance.engines import process_tree
from tickproof.conformance.engines.failures import EngineFailure
from tickproof.conformance.engines.process_tree import ProcessTree
from tickproof.conformance.engines.topology import check_survives

SOON = 20.0


@pytest.fixture
def polite(workshop):
    with workshop.engine("polite") as engine:
        engine.start()
        engine.request("hello", SOON, protocol=1)
        engine.request("deploy", SOON, workers=3)
        yield engine


def test_a_whole_conversation_is_seen_line_by_line(workshop):
    with workshop.engine("polite") as engine:
        engine.start()
        assert engine.request("hello", SOON, protocol=1)["protocol"] == 1
        engine.request("stop", SOON)
        assert engine.wait_exit(SOON) == 0
        assert engine.end() == []
    assert [(way, json.loads(line)["id"]) for way, line, _ in workshop.said] == [
        ("to", 1),
        ("from", 1),
        ("to", 2),
        ("from", 2),
    ]
    assert json.loads(workshop.said[0][1]) == {"id": 1, "op": "hello", "protocol": 1}
    times = [t_ns for *_, t_ns in workshop.said]
    assert times == sorted(times)
    assert times[-1] <= time.monotonic_ns()


def test_the_end_of_stdin_is_seen_by_the_engine(polite):
    polite.close_stdin()
    assert polite.wait_exit(SOON) == 0
    with pytest.raises(EngineFailure, match="EXITED: the engine exited with status 0 before"):
        polite.request("topology", SOON)
    assert polite.end() == []


#: Its worker ends a moment after it, with a status of its own.
FOLLOWED = """
import os, sys, threading
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        threading.Event().wait(0.05)
    os._exit(0)
sys.stdin.read()
os._exit({status})
"""


@pytest.mark.parametrize("status", [0, 1])
def test_workers_may_follow_an_engine_whose_stdin_has_ended(workshop, status):
    command = ["{python}", "-I", "-S", "-c", FOLLOWED.format(status=status)]
    with workshop.engine(argv=command) as engine:
        engine.start()
        engine.close_stdin()
        assert engine.wait_exit(SOON) == status
        assert engine.end() == []


def test_the_environment_and_the_process_group(polite):
    process = psutil.Process(polite.pid)
    assert process.environ()["TICKPROOF_RUN"] == polite.run_id
    assert os.getpgid(polite.pid) == polite.pid != os.getpgid(0)
    assert os.getsid(polite.pid) == polite.pid
    # Descriptors of the kit do not leak: stdin, stdout, stderr, a pipe for each worker.
    assert process.num_fds() == 3 + 3


def test_signals_are_as_a_program_expects_them(polite):
    lines = Path(f"/proc/{polite.pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    # Python itself ignores SIGPIPE and SIGXFSZ; the reaper's own must not shine through.
    ignored = int(status["SigIgn"], 16)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGINT):
        assert not ignored & (1 << (number - 1))
    assert int(status["SigBlk"], 16) == 0


def test_the_whole_engine_is_killed_as_one(polite):
    members = polite.topology(SOON)
    assert [member.role for member in members] == ["coordinator", "worker", "worker", "worker"]
    pids = polite.kill()
    assert sorted(pids) == sorted(member.pid for member in members)
    assert polite.returncode == -signal.SIGKILL
    assert not any(member.alive for member in members)
    assert "was killed by SIGKILL" in polite.exited().message
    assert polite.end() == []
    assert polite.kill() == []


def test_no_process_sees_another_die_before_it_dies_itself(workshop, tmp_path):
    for attempt in range(5):
        with workshop.engine("witnesses", str(tmp_path / f"seen-{attempt}-")) as engine:
            engine.start()
            engine.request("hello", SOON, protocol=1)
            engine.kill()
    assert list(tmp_path.glob("seen-*")) == []


def test_stopped_processes_are_killed_too(polite):
    members = polite.topology(SOON)
    for member in members:
        os.kill(member.pid, signal.SIGSTOP)
    assert len(polite.end()) == 4
    assert not any(member.alive for member in members)


def test_a_member_that_is_killed_is_gone(polite):
    members = polite.topology(SOON)
    worker = members[1]
    assert worker.rss_bytes() > 1 << 20
    assert process_tree.kill([ProcessTree(worker, [one.pid for one in members])]) == [worker.pid]
    assert worker.wait_gone(SOON)
    assert not worker.alive
    assert worker.rss_bytes() == 0
    assert polite.returncode is None


def test_a_member_seen_before_may_be_named_after_its_death(polite):
    before = polite.topology(SOON)
    os.kill(before[1].pid, signal.SIGKILL)
    assert before[1].wait_gone(SOON)
    assert polite.topology(SOON) == before  # the same objects: the engine has not noticed


def test_members_are_safe_after_the_end(polite):
    member = polite.topology(SOON)[0]
    polite.end()
    assert (member.alive, member.rss_bytes()) == (False, 0)


def test_survives_worker_needs_a_worker_apart(polite):
    members = polite.topology(SOON)
    check_survives(members, ["worker"], polite.pid)
    check_survives(members[:1], ["engine"], polite.pid)
    with pytest.raises(EngineFailure, match="names no worker whose pid is not argv's"):
        check_survives(members[:1], ["worker"], polite.pid)


def test_requests_from_many_threads(polite):
    answers, threads = [], []
    for _ in range(8):

        def ask():
            answers.extend(polite.request("drain", SOON)["id"] for _ in range(50))

        threads.append(threading.Thread(target=ask))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(3, 403))
    assert polite.violations == []


def test_an_engine_that_does_not_read_does_not_block_the_kit(polite):
    os.kill(polite.pid, signal.SIGSTOP)
    pending = [polite.submit("drain", padding="x" * 50_000) for _ in range(20)]
    assert not any(request.done for request in pending)
    os.kill(polite.pid, signal.SIGCONT)
    assert [request.wait(SOON)["id"] for request in pending] == list(range(3, 23))
    assert all(request.answered_ns > request.sent_ns for request in pending)


def test_a_late_answer_is_no_violation(polite):
    os.kill(polite.pid, signal.SIGSTOP)
    pending = polite.submit("drain")
    with pytest.raises(EngineFailure, match="NO_ANSWER"):
        pending.wait(0.05)
    os.kill(polite.pid, signal.SIGCONT)
    assert pending.wait(SOON)["ok"] is True
    assert polite.violations == []


def test_an_unknown_op_is_refused_definitely(polite):
    with pytest.raises(EngineFailure) as raised:
        polite.request("levitate", SOON)
    assert (raised.value.code, raised.value.definite) == ("REFUSED", True)


def test_a_record_that_cannot_be_kept_is_the_kits_failure(workshop):
    with workshop.engine("polite") as engine:
        engine.start()

        def full(direction, line, t_ns):
            if direction == "from":
                raise OSError(28, "No space left on device")

        engine._on_line = full
        with pytest.raises(OSError, match="No space left"):
            engine.request("hello", SOON, protocol=1)


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["no-such-program-anywhere"], "expected a program on PATH"),
        (["/no/such/file"], "no such file"),
        (["./adapter"], "one that begins with {here}"),
        (["{here}/engine.toml"], "not executable"),
    ],
)
def test_a_program_that_cannot_be_found(workshop, argv, part):
    engine = workshop.engine(argv=argv)
    with pytest.raises(EngineFailure) as raised:
        engine.start()
    assert raised.value.code == "NOT_FOUND"
    assert "[engine] argv[0]" in raised.value.message
    assert part in raised.value.message
    assert engine.end() == []


def test_a_program_that_cannot_be_run(workshop, tmp_path):
    script = tmp_path / "adapter"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with workshop.engine(argv=["{here}/adapter"]) as engine:
        with pytest.raises(EngineFailure, match="No such file or directory") as raised:
            engine.start()
        assert raised.value.code == "NOT_FOUND"


def test_restarts_leave_no_descriptor_and_no_thread_behind(workshop):
    def once():
        with workshop.engine("polite") as engine:
            engine.start()
            engine.request("hello", SOON, protocol=1)
            engine.topology(SOON)

    once()
    process = psutil.Process()
    before = process.num_fds(), threading.active_count()
    for _ in range(3):
        once()
    assert (process.num_fds(), threading.active_count()) == before
