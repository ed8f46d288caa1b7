"""What starts an engine's processes on other hosts, here on this one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tickproof.conformance.engines import host_starter

WAIT_S = 20.0


@pytest.fixture
def starter(monkeypatch, tmp_path):
    """Serve on a port of its own; give what starts a command."""
    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(host_starter, "PORT", listener.getsockname()[1])
    monkeypatch.chdir(tmp_path)
    threading.Thread(target=host_starter.serve, args=(listener,), daemon=True).start()
    yield lambda *command, **more: host_starter.start("127.0.0.1", list(command), **more)


def test_the_status_of_a_command_comes_back(starter):
    assert starter("sh", "-c", "exit 7") == 7


def test_the_number_of_a_signal_comes_back(starter):
    assert starter("sh", "-c", "kill -9 $$") == 128 + signal.SIGKILL


def test_the_pid_of_a_command_is_told(starter, tmp_path):
    heard = []
    assert starter("sh", "-c", "echo $$ > pid", tell=heard.append) == 0
    assert heard == [int((tmp_path / "pid").read_text())]


def test_a_starter_that_dies_is_a_host_that_is_lost(tmp_path, monkeypatch):
    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(host_starter, "PORT", listener.getsockname()[1])
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-I", "-S", host_starter.__file__, "serve"]
    starter = subprocess.Popen(command, stdin=listener)
    listener.close()
    with starter:
        try:
            sleep = ["sleep", "60"]
            killed = []

            def kill(pid: int) -> None:
                starter.kill()
                starter.wait(WAIT_S)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

            assert host_starter.start("127.0.0.1", sleep, kill) == host_starter.LOST
            assert killed
        finally:
            starter.kill()


def test_a_command_has_folder_and_environment_of_its_caller(starter, monkeypatch, tmp_path):
    monkeypatch.setenv("WORD", "spoken")
    assert starter("sh", "-c", 'echo "$WORD" > here') == 0
    assert (tmp_path / "here").read_text() == "spoken\n"


def test_a_command_that_cannot_be_run_is_said(starter, capsys):
    assert starter("no-such-program") == host_starter.NOT_FOUND
    assert "no-such-program" in capsys.readouterr().err


def test_a_host_that_does_not_answer_is_lost(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        monkeypatch.setattr(host_starter, "PORT", gone.getsockname()[1])
    assert host_starter.start("127.0.0.1", ["true"]) == host_starter.LOST
    assert "127.0.0.1: " in capsys.readouterr().err


def test_a_command_outlives_who_asked_for_it(starter, tmp_path):
    with socket.create_connection(("127.0.0.1", host_starter.PORT)) as caller:
        text = f'{{"command": ["sh", "-c", "echo $$ > pid; sleep 60"], "folder": "{tmp_path}", '
        caller.sendall(text.encode() + b'"environment": {"PATH": "/bin:/usr/bin"}}\n')
        pid = _read(tmp_path / "pid")
    try:
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def _read(path: Path) -> int:
    deadline = time.monotonic() + WAIT_S
    tick = threading.Event()
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text().strip()):
            return int(text)
        tick.wait(0.01)
    raise AssertionError(f"{path} was not written")
