"""One Java program of the kit: quick to start, and it never outlives the kit."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import uuid
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.output_streams import TAIL_LINES
from tickproof.conformance.engines.reaped_program import ReapedProgram
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.reference.java import JavaFound

#: C1 alone, one collector thread: it lives for minutes, and its start is what it costs.
FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xms128m")
#: Each has 50 MB; one for each Java and each list of jars.
ARCHIVES: Final = 3
_STOP_S: Final = 20.0  # for a program to end that was asked to, writing its archive
_TAIL_BYTES: Final = 1 << 16
#: The log is $0, the rest the command.
_LOGGED: Final = 'exec "$@" >>"$0" 2>&1 </dev/null'


class Jvm:
    """A program that runs in ``workspace``, with all jars of a folder; ``log`` is what it prints.

    The reaper of engines stands between: when the kit dies, however it dies, the program is
    killed and ``workspace`` removed. Safe from any thread.
    """

    def __init__(
        self,
        found: JavaFound,
        jars: Path,
        arguments: list[str],
        workspace: Workspace,
        log: Path,
        flags: tuple[str, ...] = (),
    ) -> None:
        self.log = log
        self._workspace = workspace
        self._archive = _archive(found, jars)
        self._making: Path | None = None
        # Sorted, and without a wildcard: an archive fits the class path that it was made with.
        classes = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
        command = [
            "/bin/sh",
            "-c",
            _LOGGED,
            str(log),
            str(found.home / "bin" / "java"),
            *FLAGS,
            *self._sharing(),
            f"-Djava.io.tmpdir={workspace.tmp}",
            *flags,
            "-cp",
            classes,
            *arguments,
        ]
        self._program = ReapedProgram(command, f"jvm-{uuid.uuid4().hex}", workspace)
        self.pid = self._program.pid
        if not self.pid:
            self.kill()
            raise KafkaUnavailable(f"{found.home}/bin/java: it cannot be started")

    @property
    def returncode(self) -> int | None:
        """Its exit status, as subprocess says it; None while it runs."""
        return self._program.returncode

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
            self.signal(signal.SIGTERM)
            self._program.wait(_STOP_S)
            if self._archive is not None and self._making.exists():
                self._making.replace(self._archive)
                _drop_old(self._archive.parent)
        self.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        if self.returncode is None:  # the reaper alone waits for it: the pid is its own
            os.kill(self.pid, number)

    def end(self, grace_s: float) -> None:
        """Ask it to end, and wait for that, ``grace_s`` at most; then it is killed."""
        self.signal(signal.SIGTERM)
        self._program.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """End it with SIGKILL; may be called again."""
        self._program.kill()
        if self._making is not None:
            self._making.unlink(missing_ok=True)

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
