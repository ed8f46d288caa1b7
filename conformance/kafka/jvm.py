"""One Java program of the kit: quick to start, and it never outlives the kit."""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.isolation import UNPROTECTED
from tickproof.conformance.engines.launcher import launch
from tickproof.conformance.engines.output_streams import TAIL_LINES
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.reference.java import JavaFound

#: C1 alone, one collector thread: it lives for minutes, and its start is what it costs.
FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xms128m")
#: Each has 50 MB; one for each Java and each list of jars.
ARCHIVES: Final = 3
_START_S: Final = 30.0  # for the reaper to start the program
_STOP_S: Final = 20.0  # for a program to end that was asked to, writing its archive
_KILL_S: Final = 15.0
_TAIL_BYTES: Final = 1 << 16
#: The log is $0, the rest the command.
_LOGGED: Final = 'exec "$@" >>"$0" 2>&1 </dev/null'


class Jvm:
    """A program that runs in ``workspace``, with all jars of a folder; ``log`` is what it prints.

    The reaper of engines stands between: when the kit dies, however it dies, the program is
    killed and ``workspace`` removed. Safe from any thread.
    """

    def __init__(
        self, found: JavaFound, jars: Path, arguments: list[str], workspace: Workspace,
        log: Path, flags: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.log = log
        self._workspace = workspace
        self._archive = _archive(found, jars)
        self._making: Path | None = None
        # Sorted, and without a wildcard: an archive fits the class path that it was made with.
        classes = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
        command = [
            "/bin/sh", "-c", _LOGGED, str(log), str(found.home / "bin" / "java"), *FLAGS,
            *self._sharing(), f"-Djava.io.tmpdir={workspace.tmp}", *flags, "-cp", classes,
            *arguments,
        ]  # fmt: skip
        self._reading = threading.Lock()
        self._lines: list[str] = []
        self._rest = b""
        self._reaper, self._open = launch(
            command, f"jvm-{uuid.uuid4().hex}", workspace, UNPROTECTED, 0
        )
        try:
            for name in ("stdin", "stdout", "stderr", "wake", "waker"):
                os.close(self._open.pop(name))
            self._until(lambda: self._said("started") or self._said("failed"), _START_S)
            if not self._said("started"):
                raise KafkaUnavailable(f"{found.home}/bin/java: it cannot be started")
            self.pid = int(self._said("started"))
        except BaseException:
            self.kill()
            raise

    @property
    def returncode(self) -> int | None:
        """How it ended, as subprocess says it; None while it runs."""
        self._read(0)
        if exited := self._said("exited"):
            return os.waitstatus_to_exitcode(int(exited))
        if self._reaper.poll() is not None:  # which takes the program with it
            return -signal.SIGKILL
        return None

    def tail(self) -> tuple[str, ...]:
        """Return the last lines that it printed, oldest first, not escaped."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = file.read(_TAIL_BYTES)
        except OSError:
            return ()
        return tuple(text.decode("utf-8", "backslashreplace").splitlines()[-TAIL_LINES:])

    def close(self) -> None:
        """End it; may be called again. The first that starts writes an archive of its classes."""
        if self._making is not None and self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)  # the reaper alone waits for it: the pid is its own
            self._until(lambda: self._said("exited"), _STOP_S)
            if self._archive is not None and self._making.exists():
                self._making.replace(self._archive)
                _drop_old(self._archive.parent)
        self.kill()

    def kill(self) -> None:
        """End it with SIGKILL; may be called again."""
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
        if self._making is not None:
            self._making.unlink(missing_ok=True)

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

    def _sharing(self) -> list[str]:
        """Return the flags of class data sharing; it spares a third of a start."""
        if self._archive is None:
            return []
        if self._archive.exists():
            with contextlib.suppress(OSError):
                os.utime(self._archive)  # the last used are kept
            # A Java that finds it not to fit goes on without it.
            return [f"-XX:SharedArchiveFile={self._archive}", "-Xlog:disable"]
        self._making = self._archive.with_suffix(f".{os.getpid()}-{uuid.uuid4().hex[:8]}")
        return [f"-XX:ArchiveClassesAtExit={self._making}", "-Xlog:disable"]


def _archive(found: JavaFound, jars: Path) -> Path | None:
    """Return where the archive of the classes of these jars is or will be, beside their folder.

    None: this Java brings no archive of its own classes, which that would build on.
    """
    if not (found.home / "lib" / "server" / "classes.jsa").exists():
        return None
    facts = f"{found} {jars} {FLAGS}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return jars.with_name(f"jars-{digest}.jsa")


def _drop_old(cache: Path) -> None:
    """Keep the archives that were used last."""
    archives = sorted(cache.glob("jars-*.jsa"), key=lambda path: path.stat().st_mtime_ns)
    for old in archives[:-ARCHIVES]:
        old.unlink(missing_ok=True)
