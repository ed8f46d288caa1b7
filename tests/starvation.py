"""Takes a processor core away from a process, as a machine that others load does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

#: Enough to leave next to nothing of a core, each in a session, and so a group, of its own.
HOGS: Final = 4
_SPINS: Final = "print(flush=True)\nwhile True: pass"


class Hogs:
    """Programs that want one core; stopped until `starve`. Use as a context manager."""

    def __init__(self) -> None:
        self.core = min(os.sched_getaffinity(0))
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for _ in range(HOGS):
            hog = subprocess.Popen(
                [sys.executable, "-S", "-c", _SPINS], stdout=subprocess.PIPE, start_new_session=True
            )
            self._started.append(hog)
            assert hog.stdout is not None
            hog.stdout.readline()
            os.sched_setaffinity(hog.pid, {self.core})
            hog.send_signal(signal.SIGSTOP)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        for hog in self._started:
            hog.wait()
            if hog.stdout is not None:
                hog.stdout.close()

    def starve(self, pid: int, seconds: float) -> None:
        """Let a process, and what it starts, have the core only when nobody else wants it."""
        for hog in self._started:
            hog.send_signal(signal.SIGCONT)
        threading.Timer(seconds, self.end).start()
        os.sched_setaffinity(pid, {self.core})
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        with contextlib.suppress(OSError):  # a kernel without groups of sessions
            Path(f"/proc/{pid}/autogroup").write_text("19")

    def end(self) -> None:
        """Give the core back."""
        for hog in self._started:
            hog.kill()
