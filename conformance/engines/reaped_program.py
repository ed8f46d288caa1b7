"""One program of the kit, below a reaper: it outlives neither the kit nor its own end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Final

from tickproof.conformance.engines.isolation import UNPROTECTED, Isolation
from tickproof.conformance.engines.launcher import launch
from tickproof.conformance.engines.workspace import Workspace

_START_S: Final = 30.0  # for the reaper to start the program
_KILL_S: Final = 15.0
_CHUNK: Final = 1 << 16


class ReapedProgram:
    """A program that runs in ``workspace``, with all that it starts; safe from any thread.

    When the kit dies, however it dies, all of it is killed and ``workspace`` removed. ``pid`` is
    0 where it could not be started. on_output: is given, in a thread of its own, what comes on
    standard output; without it, that is closed. isolation: no sandbox but one for
    `prepare`.
    """

    def __init__(
        self,
        command: list[str],
        run_id: str,
        workspace: Workspace,
        on_output: Callable[[bytes], None] | None = None,
        isolation: Isolation = UNPROTECTED,
    ) -> None:
        self._reading = threading.Lock()
        self._lines: list[str] = []
        self._rest = b""
        self._reaper, self._open = launch(command, run_id, workspace, isolation)
        self._keeper: threading.Thread | None = None
        try:
            for name in ("stdin", "stderr", "wake", "waker"):
                os.close(self._open.pop(name))
            stdout = self._open.pop("stdout")
            if on_output is None:
                os.close(stdout)
            else:
                self._keeper = threading.Thread(
                    target=_keep, args=(stdout, on_output), name="output", daemon=True
                )
                self._keeper.start()
            self._until(lambda: self._said("started") or self._said("failed"), _START_S)
        except BaseException:
            self.kill()
            raise
        self.pid = int(self._said("started") or 0)

    @property
    def returncode(self) -> int | None:
        """Its exit status, as subprocess says it; None while it runs."""
        self._read(0)
        if exited := self._said("exited"):
            return os.waitstatus_to_exitcode(int(exited))
        if self._reaper.poll() is not None:  # which takes the program with it
            return -signal.SIGKILL
        return None

    def wait(self, limit_s: float) -> int | None:
        """Wait for its end; return how it ended, None where it has not."""
        self._until(lambda: self._said("exited"), limit_s)
        return self.returncode

    def kill(self) -> None:
        """End it, and all that it started, with SIGKILL; may be called again."""
        control = self._open.pop("control", None)
        if control is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(control, b"e")
            os.close(control)
        try:
            self._reaper.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            self._reaper.kill()
            self._reaper.wait()
        self._read(0)
        with self._reading:
            if (status := self._open.pop("status", None)) is not None:
                os.close(status)
        if self._keeper is not None:
            self._keeper.join(_KILL_S)

    def _said(self, word: str) -> str:
        """Return what follows a word of the reaper, "" before it was said."""
        said = dict(line.partition(" ")[::2] for line in self._lines)
        return said.get(word, "")

    def _until(self, condition: Callable[[], object], limit_s: float) -> None:
        """Read the reaper's lines until a condition holds, the reaper is gone, or time is up."""
        deadline = time.monotonic() + limit_s
        while not condition() and (left_s := deadline - time.monotonic()) > 0:
            if not self._read(left_s):
                return

    def _read(self, limit_s: float) -> bool:
        """Take lines of the reaper that come within a time; False when no more will come."""
        with self._reading:
            status = self._open.get("status")
            return status is not None and self._read_from(status, limit_s)

    def _read_from(self, status: int, limit_s: float) -> bool:
        poll = select.poll()
        poll.register(status, select.POLLIN)
        while poll.poll(limit_s * 1000):
            chunk = os.read(status, 4096)
            if not chunk:
                return False
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines += (line.decode() for line in lines)
            if lines:
                return True
        return True


def _keep(descriptor: int, on_output: Callable[[bytes], None]) -> None:
    """Hand on what comes until nobody can write any more."""
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        while chunk := pipe.read(_CHUNK):
            on_output(chunk)
