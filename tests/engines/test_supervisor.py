"""The supervisor of an engine that is one command: its processes by role, and their end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tickproof.conformance.engines import process_table

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
    """A supervisor as the kit starts it, with what it is asked and answers."""

    def __init__(self, folder: Path) -> None:
        (folder / "engine.py").write_text(ENGINE)
        self.run_id = uuid.uuid4().hex
        command = [sys.executable, str(folder / "engine.py")]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", SUPERVISOR, "it", "1", json.dumps(ROLES), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {process_table.RUN_VARIABLE: self.run_id},
        )  # fmt: skip
        data = {"host": "127.0.0.1", "port": 1, "inputs": ["in"], "output": "out", "group": "g"}
        state = str(folder / "state")
        job = {"app": "count", "params": {}, "workers": 2, "state_dir": state, "data": data}
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
    made = Supervised(tmp_path)
    try:
        yield made
    finally:
        for pid in made.own() - {made.process.pid}:
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
    assert len(supervised.own() - {supervised.process.pid}) == 4  # the helper has no role
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
