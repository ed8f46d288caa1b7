"""The supervisor of an engine that is only a command: its processes, their places, their end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tickproof.conformance.engines import host_starter, process_table, supervisor

SUPERVISOR = Path(process_table.__file__).with_name("supervisor.py")
#: Starts two workers, the second a daemon, tells of itself, and waits.
ENGINE = """
import os, subprocess, sys, time
assert "TICKPROOF_WORKER" not in os.environ
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
for number in range(int(os.environ["TICKPROOF_WORKERS"])):
    subprocess.Popen([*sleep, f"executor-{number}"], start_new_session=number > 0)
subprocess.Popen([*sleep, "helper"])
print("started", flush=True)
time.sleep(600)
"""
ROLES = {"worker": "executor-[0-9]+$", "coordinator": "^[^ ]+ [^ ]*engine[.]py$"}
PATIENCE_S = 20.0


class Supervised:
    """A supervisor as the kit starts it, with what it is asked and answers.

    where, hosts: as engine.toml places the workers, and addresses of hosts after the first.
    """

    def __init__(
        self,
        folder: Path,
        engine: str,
        roles: dict[str, str],
        where: str = "first",
        hosts: Collection[str] = (),
    ) -> None:
        (folder / "engine.py").write_text(engine)
        self.run_id = uuid.uuid4().hex
        words = ["it", "1", json.dumps(roles), where, sys.executable, str(folder / "engine.py")]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", SUPERVISOR, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=os.environ | {process_table.RUN_VARIABLE: self.run_id},
        )
        data = {"host": "127.0.0.1", "port": 1, "inputs": ["in"], "output": "out", "group": "g"}
        state = str(folder / "state")
        job = {"app": "count", "params": {}, "workers": 2, "state_dir": state, "data": data}
        if hosts:
            first = {"name": "host-1", "address": "127.0.0.1", "start": []}
            others = [{"name": "other", "address": one, "start": ["ssh", one]} for one in hosts]
            job["hosts"] = [first, *others]
        assert self.ask("deploy", **job)["ok"]

    def ask(self, op: str, **more: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"id": 1, "op": op} | more).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def roles(self) -> dict[int, str]:
        return {row["pid"]: row["role"] for row in self.ask("topology")["processes"]}

    def own(self) -> set[int]:
        return {proc.pid for proc in process_table.own(self.process.pid, self.run_id)}


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    with ended(Supervised(tmp_path, ENGINE, ROLES)) as made:
        yield made


@contextlib.contextmanager
def ended(made: Supervised) -> Iterator[Supervised]:
    try:
        yield made
    finally:
        for pid in made.own() - {made.process.pid}:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
        made.process.kill()
        made.process.communicate()


def until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def whole(supervised: Supervised, gone: Collection[int] = ()) -> dict[int, str] | None:
    """Return the roles by pid once all are there, and none of ``gone`` is."""
    roles = supervised.roles()
    found = sorted(roles.values()) == ["coordinator", "worker", "worker"]
    return roles if found and not roles.keys() & set(gone) else None


def test_processes_are_known_by_their_command_lines(supervised):
    roles = until(lambda: whole(supervised))
    # The helper has no role, and may come last.
    until(lambda: len(supervised.own() - {supervised.process.pid}) == 4)
    worker = next(pid for pid, role in roles.items() if role == "worker")
    os.kill(worker, signal.SIGKILL)
    until(lambda: worker not in supervised.roles())
    assert len(supervised.roles()) == 2  # its engine does not replace it, nor does the kit


def test_an_engine_whose_command_ends_is_started_again_as_a_whole(supervised):
    first = until(lambda: whole(supervised))
    os.kill(next(pid for pid, role in first.items() if role == "coordinator"), signal.SIGKILL)
    again = until(lambda: whole(supervised, first))
    assert supervised.own() - {supervised.process.pid} > again.keys()
    assert not supervised.own() & first.keys()


def test_stop_leaves_nothing(supervised):
    until(lambda: whole(supervised))
    assert supervised.ask("stop")["ok"]
    assert supervised.process.wait(PATIENCE_S) == 0
    assert not supervised.own()


#: Says which worker it is, and waits.
WORKER = """
import os, pathlib, time
pathlib.Path(f"worker-{os.environ['TICKPROOF_WORKER']}").write_text(str(os.getpid()))
time.sleep(600)
"""


@contextlib.contextmanager
def starting(address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have processes started at an address of this machine, as on a host of its own."""
    with socket.create_server((address, host_starter.PORT)) as listener:
        starter = subprocess.Popen(
            [sys.executable, "-I", "-S", host_starter.__file__, "serve"], stdin=listener
        )
    with starter:
        try:
            yield starter
        finally:
            starter.kill()


def addresses(count: int) -> list[str]:
    """Return addresses of this machine that no other test uses."""
    return [f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{n + 2}" for n in range(count)]


def workers(supervised: Supervised) -> list[int] | None:
    """Return the pids of both workers, in their order, once both are named."""
    named = {row["name"]: row["pid"] for row in supervised.ask("topology")["processes"]}
    return [named["worker 0"], named["worker 1"]] if len(named) == 2 else None


def parents(pids: Collection[int]) -> list[int]:
    found = [process_table.read(pid) for pid in pids]
    return [proc.ppid for proc in found if proc]


def test_workers_have_their_places_on_other_hosts(tmp_path):
    hosts = addresses(2)
    with starting(hosts[0]) as one, starting(hosts[1]) as other:
        with ended(Supervised(tmp_path, WORKER, {}, "others", hosts)) as made:
            # Known from the first answer on: deploy waits for them.
            first = workers(made)
            assert first and parents(first) == [one.pid, other.pid]
            own = tmp_path / "worker-1"  # there before its pid is written to it
            assert until(lambda: own.exists() and own.read_text()) == str(first[1])
            os.kill(first[1], signal.SIGKILL)
            again = until(lambda: (now := workers(made)) and now[1] != first[1] and now)
            assert again[0] == first[0]
            assert parents(again) == [one.pid, other.pid]
            assert made.ask("stop")["ok"]
            assert made.process.wait(PATIENCE_S) == 0
            assert not made.own()


def test_a_worker_stays_down_until_it_may_come_up(tmp_path):
    with ended(Supervised(tmp_path, WORKER, {})) as made:
        first = until(lambda: workers(made))
        assert made.ask("down")["ok"]
        os.kill(first[1], signal.SIGKILL)
        until(lambda: workers(made) is None)
        over = time.monotonic() + 5 * supervisor.RESTART_S
        until(lambda: workers(made) or time.monotonic() > over)
        assert workers(made) is None
        assert made.ask("up")["ok"]
        again = until(lambda: workers(made))
        assert (again[0], again[1] != first[1]) == (first[0], True)


def test_workers_may_be_on_any_host_the_first_among_them(tmp_path):
    (host,) = addresses(1)
    with starting(host) as other, ended(Supervised(tmp_path, WORKER, {}, "any", [host])) as made:
        assert parents(until(lambda: workers(made))) == [made.process.pid, other.pid]


def test_a_worker_of_a_lost_host_waits_for_its_return(tmp_path):
    hosts = addresses(2)
    with starting(hosts[0]) as one, starting(hosts[1]) as lost:
        with ended(Supervised(tmp_path, WORKER, {}, "others", hosts)) as made:
            first = until(lambda: workers(made))
            os.kill(first[1], signal.SIGSTOP)  # so that nobody is told how it ends
            lost.kill()
            lost.wait(PATIENCE_S)
            os.kill(first[1], signal.SIGKILL)
            with socket.create_server((hosts[1], host_starter.PORT)) as deaf:
                deaf.settimeout(PATIENCE_S)
                for _ in range(3):
                    deaf.accept()[0].close()
            assert workers(made) is None
            with starting(hosts[1]) as back:
                again = until(lambda: workers(made))
                assert parents(again) == [one.pid, back.pid]


def test_a_worker_that_cannot_start_on_another_host_is_told_of(tmp_path):
    (host,) = addresses(1)
    ends = "raise SystemExit(3)"
    with starting(host), ended(Supervised(tmp_path, ends, {}, "others", [host])) as made:
        assert made.process.wait(3 * PATIENCE_S) == 1


def test_another_version_has_its_own_command_and_number_of_workers(tmp_path: Path) -> None:
    engine = "import time\ntime.sleep(600)\n"
    with ended(Supervised(tmp_path, engine, {})) as made:

        def seen() -> list[str]:
            words = [process_table.command_line(pid).split()[-1:] for pid in made.roles()]
            return sorted(word for (word,) in filter(None, words) if word.startswith("version"))

        for number, workers in enumerate([4, 1, 3]):
            living = made.roles()
            argv = [sys.executable, str(tmp_path / "engine.py"), f"version-{number}-{{worker}}"]
            assert made.ask("replace", argv=argv, env={"A": "b"}, workers=workers)["ok"]
            assert made.roles() == living, "a worker was started beside those of the version before"
            for pid in living:
                os.kill(pid, signal.SIGKILL)
            expected = [f"version-{number}-{worker}" for worker in range(workers)]
            until(lambda due=expected: seen() == due)


#: Ends by SIGTERM a little later, as who has to finish something does.
LEAVING = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), sys.exit(0)))
open("ready-" + __import__("os").environ["TICKPROOF_WORKER"], "w").close()
time.sleep(600)
"""


def numbers(supervised: Supervised) -> dict[str, int]:
    return {row["name"]: row["pid"] for row in supervised.ask("topology")["processes"]}


def test_workers_come_and_go_while_others_stay(tmp_path: Path) -> None:
    with ended(Supervised(tmp_path, LEAVING, {})) as made:
        first = numbers(made)
        assert made.ask("scale", workers=4)["ok"]
        grown = numbers(made)
        assert [*grown] == [f"worker {number}" for number in range(4)]
        assert grown.items() >= first.items()
        until(lambda: all((tmp_path / f"ready-{number}").exists() for number in range(4)))
        assert made.ask("scale", workers=1)["ok"]
        assert numbers(made) == {"worker 0": first["worker 0"]}
        over = time.monotonic() + 3 * supervisor.RESTART_S
        until(lambda: len(numbers(made)) > 1 or time.monotonic() > over)
        assert numbers(made) == {"worker 0": first["worker 0"]}, "one that had left came back"


def test_a_scale_while_workers_leave_is_refused_and_the_first_is_answered(tmp_path: Path) -> None:
    with ended(Supervised(tmp_path, LEAVING, {})) as made:
        until(lambda: (tmp_path / "ready-1").exists())
        assert made.process.stdin and made.process.stdout
        lines = [{"id": number, "op": "scale", "workers": number} for number in (1, 3)]
        made.process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        made.process.stdin.flush()
        refused, done = (json.loads(made.process.stdout.readline()) for _ in lines)
        assert refused == {
            "id": 3, "ok": False, "error": "a scale is under way", "definite": True,
        }  # fmt: skip
        assert done == {"id": 1, "ok": True}
        assert len(numbers(made)) == 1


def test_a_worker_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    deaf = LEAVING.replace("lambda *_: (time.sleep(0.3), sys.exit(0))", "signal.SIG_IGN")
    with ended(Supervised(tmp_path, deaf, {})) as made:
        until(lambda: (tmp_path / "ready-1").exists())
        assert made.ask("scale", workers=1)["ok"]
        assert len(numbers(made)) == 1


def test_what_is_one_command_does_not_scale(supervised: Supervised) -> None:
    assert supervised.ask("scale", workers=3) == {
        "id": 1, "ok": False, "error": "no op 'scale'", "definite": True,
    }  # fmt: skip
