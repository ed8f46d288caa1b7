"""Each rogue gets its own error within its deadline; none hangs, none leaves a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.engines.conftest import ROGUE, open_to_others
from tickproof.conformance.engines import isolation
from tickproof.conformance.engines.failures import EngineFailure
from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.engines.workspace import Workspace

#: Long enough for a loaded machine where an answer is expected, short where none comes.
SOON, SHORT = 20.0, 0.3


def failure_of(call, *arguments, **fields) -> EngineFailure:
    with pytest.raises(EngineFailure) as raised:
        call(*arguments, **fields)
    return raised.value


def possible(engine, level: Level) -> None:
    if level == Level.USER:
        open_to_others(engine.spec.path)
    if why := isolation.obstacle(level, engine.spec):
        pytest.skip(f"no {level} here: {why}")


def deploy(engine, workers: int = 0) -> None:
    engine.request("hello", SOON, protocol=1)
    engine.request("deploy", SOON, workers=workers)


@pytest.mark.parametrize(
    ("name", "code", "part"),
    [
        ("exits", "EXITED", "exited with status 3 before it answered hello"),
        ("crashes", "EXITED", "was killed by SIGSEGV"),
        ("garbage", "BAD_LINE", r"not JSON: \x1b[31mhello, \x07kit\x1b[0m"),
        ("array", "BAD_LINE", "expected a JSON object a line; got [1, true]"),
        ("talks", "BAD_LINE", "INFO still here"),
        ("endless_line", "BAD_LINE", "longer than 1048576 bytes: xxx"),
        ("unasked", "UNKNOWN_ANSWER", 'no request of the kit: {"id": 4711'),
        ("halfway", "BAD_ANSWER", "answer to hello: name: expected text"),
    ],
)
def test_what_is_wrong_with_hello(workshop, name, code, part):
    with workshop.engine(name) as engine:
        engine.start()
        failure = failure_of(engine.request, "hello", SOON, protocol=1)
    assert failure.code == code
    assert part in failure.message
    assert failure.message.isprintable()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("mute", "no answer to hello within 0.3 s"),
        ("stops", "its process is stopped by a signal"),
        ("deaf", "no answer to hello"),
    ],
)
def test_no_answer_within_the_deadline(workshop, name, part, eventually):
    with workshop.engine(name) as engine:
        engine.start()
        if name == "stops":
            assert eventually(lambda: psutil.Process(engine.pid).status() == "stopped")
        failure = failure_of(engine.request, "hello", SHORT, protocol=1)
        assert engine.returncode is None
    assert failure.code == "NO_ANSWER"
    assert part in failure.message


def test_the_last_lines_of_stderr_are_in_the_failure(workshop):
    with workshop.engine("exits") as engine:
        engine.start()
        failure = failure_of(engine.request, "hello", SOON)
    assert failure.stderr_tail == ("cannot find my configuration",)
    assert failure.status == 3
    assert "cannot find my configuration" in str(failure)
    assert (workshop.folder / "stderr.log").read_text() == "cannot find my configuration\n"


def test_noise_after_an_answer_is_kept_and_raised_by_the_next_request(workshop, eventually):
    with workshop.engine("chatty") as engine:
        engine.start()
        pending = engine.submit("hello", protocol=1)
        assert eventually(lambda: engine.violations)
        assert pending.wait(SOON)["name"] == "rogue"
        failure = failure_of(engine.request, "deploy", SOON)
    assert (failure.code, failure) == ("BAD_LINE", engine.violations[0])
    assert "INFO answered hello" in failure.message


def test_a_second_answer_is_an_answer_to_no_request(workshop, eventually):
    with workshop.engine("twice") as engine:
        engine.start()
        engine.submit("hello").wait(SOON)
        assert eventually(lambda: engine.violations)
        failure = failure_of(engine.request, "deploy", SOON)
    assert failure.code == "UNKNOWN_ANSWER"
    assert "id 1 a second time" in failure.message


def test_a_refusal_says_whether_it_is_definite(workshop):
    with workshop.engine("refuses") as engine:
        engine.start()
        engine.request("hello", SOON, protocol=1)
        failure = failure_of(engine.request, "deploy", SOON)
    assert (failure.code, failure.definite) == ("REFUSED", False)
    assert failure.error == "disk \x1b[1mfull"
    assert failure.message == r"deploy was refused (outcome not known): disk \x1b[1mfull"


def test_a_flood_of_lines_is_bounded(workshop, eventually):
    with workshop.engine("talks") as engine:
        engine.start()
        engine.submit("hello")
        assert eventually(lambda: len(engine.violations) == 16)
        lines = len(workshop.said)
        # The flood goes on and is read, so that the engine is not blocked, and dropped.
        read = psutil.Process(engine.pid).io_counters().write_count
        assert eventually(lambda: psutil.Process(engine.pid).io_counters().write_count > read + 999)
        assert (len(engine.violations), len(workshop.said)) == (16, lines)


def test_a_flood_of_stderr_neither_blocks_the_engine_nor_fills_the_disk(workshop, eventually):
    path, limit = workshop.folder / "stderr.log", 1 << 20
    with workshop.engine("floods_stderr", stderr_limit=limit) as engine:
        engine.start()
        deploy(engine)
        assert eventually(lambda: path.stat().st_size > limit)
        written = psutil.Process(engine.pid).io_counters().write_chars
        later = written + 4 * limit
        assert eventually(lambda: psutil.Process(engine.pid).io_counters().write_chars > later)
        engine.request("stop", SOON)
        assert engine.wait_exit(SOON) == 0
    assert path.stat().st_size < limit + 100
    assert path.read_text().splitlines()[-1] == f"[the rest is dropped: more than {limit} bytes]"


@pytest.mark.parametrize("name", ["ignores_eof", "stubborn"])
def test_staying_after_the_end_of_stdin(workshop, name):
    with workshop.engine(name) as engine:
        engine.start()
        deploy(engine)
        engine.close_stdin()
        failure = failure_of(engine.wait_exit, SHORT)
        left = engine.end()
    assert failure.code == "NO_EXIT"
    assert failure.message == "still running 0.3 s after the end of its stdin"
    assert engine.pid in [process.pid for process in left]


def test_a_stubborn_engine_dies_of_kill(workshop):
    with workshop.engine("stubborn") as engine:
        engine.start()
        deploy(engine)
        os.kill(engine.pid, signal.SIGTERM)
        assert engine.kill() == [engine.pid]
        assert engine.wait_exit(SOON) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["detaches", "forgets"])
def test_a_daemon_is_found_and_ended(workshop, name):
    with workshop.engine(name) as engine:
        engine.start()
        deploy(engine)
        engine.request("stop", SOON)
        assert engine.wait_exit(SOON) == 0
        left = engine.end()
        assert len(left) == 1
        assert left[0].pid != engine.pid
        assert not psutil.pid_exists(left[0].pid)
        assert engine.end() == []


def test_a_foreign_pid_is_refused_and_not_signalled(workshop):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        with workshop.engine("foreign", str(stranger.pid)) as engine:
            engine.start()
            deploy(engine)
            failure = failure_of(engine.topology, SOON)
        assert failure.code == "FOREIGN_PID"
        assert f"pid {stranger.pid} (worker, not mine), not the engine's own" in failure.message
        assert stranger.poll() is None
        stranger.communicate(b"\n")
        assert stranger.returncode == 0


def test_an_engine_that_kills_the_reaper_leaves_nothing(workshop):
    with workshop.engine("kills_parent") as engine:
        engine.start()
        assert engine.wait_exit(SOON) == -signal.SIGKILL
        failure = failure_of(engine.request, "hello", SOON)
        # The daemon, and argv's process if it is still about to die with the reaper.
        assert len(engine.end()) in (1, 2)
    assert failure.code == "EXITED"


def test_the_reaper_is_out_of_reach_of_signals_in_a_sandbox(workshop, eventually):
    with workshop.engine("kills_parent", isolation=Isolation(Level.SANDBOX)) as engine:
        possible(engine, Level.SANDBOX)
        engine.start()
        failure = failure_of(engine.request, "hello", SHORT, protocol=1)
        assert engine.returncode is None
        assert eventually(lambda: len(engine.living()) == 2)  # the daemon may be on its way yet
        assert len(engine.end()) == 2
    assert failure.code == "NO_ANSWER"


def test_each_port_of_a_sandbox_leads_to_the_kit(workshop):
    connects = (
        "import socket, sys; line = input(); print(line, file=sys.stderr)\n"
        "for port in line.split(): socket.create_connection(('127.0.0.1', int(port)), 20).close()"
    )
    with workshop.engine(
        argv=["{python}", "-c", connects], isolation=Isolation(Level.SANDBOX)
    ) as engine:
        possible(engine, Level.SANDBOX)
        engine.start(ports=(0, 0))
        ports = [listener.getsockname()[1] for listener in engine.listeners]
        os.write(engine._open["stdin"], f"{ports[0]} {ports[1]}\n".encode())
        for listener in engine.listeners:
            listener.settimeout(SOON)
            listener.accept()[0].close()
    assert len(set(ports)) == 2


@pytest.mark.parametrize("level", Level)
def test_an_engine_that_removes_its_folders_can_be_started_again(workshop, level):
    with workshop.engine("removes_folders", isolation=Isolation(level)) as engine:
        possible(engine, level)
        engine.start()
        deploy(engine)
    with Engine(
        engine.spec,
        engine.run_id,
        workshop.folder / "stderr.log",
        lambda *_: None,
        engine.workspace,
        isolation=engine.isolation,
    ) as again:
        again.start()
        deploy(again)


def test_a_hidden_folder_cannot_be_uncovered(workshop, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "evidence").touch()
    options = {"argv": ["{python}", str(ROGUE), "breaks_out", str(hidden)]}
    for isolated, seen in (
        (Isolation(Level.NONE, (hidden,)), "evidence"),
        (Isolation(Level.SANDBOX, (hidden,)), "nothing"),
    ):
        with workshop.engine(**options, isolation=isolated) as engine:
            possible(engine, isolated.level)
            engine.start()
            deploy(engine)
            (member,) = engine.topology(SOON)
        assert member.name == seen


@pytest.mark.skipif(
    os.uname().machine not in ("x86_64", "aarch64"), reason="calls are closed on x86-64 and ARM"
)
@pytest.mark.parametrize(
    ("level", "makes"), [(Level.NONE, "unshare clone"), (Level.SANDBOX, "nothing")]
)
def test_no_user_namespace_is_made_in_a_sandbox(workshop, level, makes):
    with workshop.engine("leaves_user", isolation=Isolation(level)) as engine:
        possible(engine, level)
        engine.start()
        deploy(engine)
        (member,) = engine.topology(SOON)
    if level == Level.NONE and member.name == "nothing":
        pytest.skip("this machine has no user namespaces")
    assert member.name == makes


def test_an_engine_sees_no_workspace_of_engines_beside_it(workshop):
    """Neither of one that was there before, nor of one that came while it ran."""
    for level, sees in ((Level.NONE, True), (Level.SANDBOX, False)):
        secret = f"secret-{level}"
        with workshop.engine("asks_neighbours", secret, isolation=Isolation(level)) as engine:
            possible(engine, level)
            before = beside(workshop, secret)
            engine.start()
            deploy(engine)
            after = beside(workshop, secret)
            (member,) = engine.topology(SOON)
        assert set(member.name.split()) == ({before, after} if sees else {"nothing"})


def beside(workshop, file: str) -> str:
    """Make a workspace with a file; return its name."""
    workshop.workspaces.append(made := Workspace())
    (made.tmp / file).touch()
    return made.root.name


def test_an_engine_that_stops_the_reaper_leaves_nothing(workshop):
    with workshop.engine("stops_parent") as engine:
        engine.start()
        deploy(engine)
        assert [process.pid for process in engine.end()] == [engine.pid]


@pytest.mark.parametrize("level", Level)
def test_a_kill_is_not_held_up_with_the_reaper(workshop, level, eventually):
    with workshop.engine("holds_parent", isolation=Isolation(level)) as engine:
        possible(engine, level)
        engine.start()
        deploy(engine)
        assert eventually(lambda: len(engine.living()) == 9)
        engine.kill()
        # The reaper did it, and said so: nobody had to do it in its place.
        assert engine.returncode == -signal.SIGKILL


def test_an_engine_that_always_forks_is_caught(workshop):
    with workshop.engine("breeds") as engine:
        engine.start()
        deploy(engine)
        engine.kill()
        assert engine.returncode == -signal.SIGKILL
