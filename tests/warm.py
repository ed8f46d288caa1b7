"""A process with the whole command line loaded that forks for each command.

To load it takes longer than most commands of the tests. What is forked is a session like any
other: in a process group of its own, with its own environment, folder and output.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

#: A request is one message: arguments, folder and environment.
_MOST: Final = 1 << 20


class Ended(NamedTuple):
    """A command that ended: its process, its status as of subprocess, what it printed."""

    pid: int
    status: int
    out: str
    err: str


class Warm:
    """The process, started by the first command; it ends with the one that started it."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None

    def run(
        self, arguments: list[str], folder: Path, environment: Mapping[str, str], limit_s: float
    ) -> Ended:
        """Run a command to its end; raises TimeoutError."""
        channel = self._started(environment)
        asked = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            channel.settimeout(limit_s)
            socket.send_fds(channel, [json.dumps(asked).encode()], [out.fileno(), err.fileno()])
            pid = int(channel.recv(64))
            try:
                status = int(channel.recv(64))
            except TimeoutError:
                self._channel = None  # its answer would be taken for the next one's
                os.killpg(pid, signal.SIGKILL)
                raise
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return Ended(pid, status, *texts)

    def _started(self, environment: Mapping[str, str]) -> socket.socket:
        if self._channel is None:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            atexit.register(self._channel.close)
            with theirs:
                command = [sys.executable, "-P", __file__, str(theirs.fileno())]
                subprocess.run(command, pass_fds=[theirs.fileno()], check=True, env=environment)
        return self._channel


def _serve(channel: socket.socket) -> None:
    """Fork for each request, and tell the number of the process and its status."""
    from tickproof.conformance.cli.main import main
    from tickproof.conformance.engines.loading import loading

    # What verbs import when they are called is loaded too.
    with loading():
        import tickproof.conformance.session.pack
        import tickproof.conformance.session.replay
        import tickproof.conformance.session.run_command  # noqa: F401

    while True:
        data, files, _, _ = socket.recv_fds(channel, _MOST, 2)
        if not data:
            return
        if not (pid := os.fork()):
            channel.close()
            _become(json.loads(data), files)
            main()  # ends this process
        for file in files:
            os.close(file)
        channel.send(str(pid).encode())
        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _become(asked: dict, files: list[int]) -> None:
    """Make a fork what was asked for."""
    os.setsid()
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["tickproof", *asked["arguments"]]


if __name__ == "__main__":
    # In the background, and nobody's child: tests look at what is left below them.
    if not os.fork():
        os.setsid()
        _serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)
