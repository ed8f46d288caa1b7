"""The folder that a session's runs go into; those of earlier sessions make room for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tickproof.conformance.session import run_store

#: In the folder of an engine: its runs, in a folder for each session.
RUNS: Final = "runs"
#: In the folder of an engine: the runs of replays, in the same way.
REPLAYS: Final = "replays"
#: Folders of earlier sessions that are kept beside the newest.
KEEP_SESSIONS: Final = 2


@contextlib.contextmanager
def runs_folder(parent: Path, seed: int, used: Path | None = None) -> Iterator[Path]:
    """Make the folder of a session in ``parent``; of earlier ones the newest two are kept.

    So is one that holds ``used``, or a run with a tag, and one whose session goes on: that is
    as long as it is within this context. Raises OSError.
    """
    parent.mkdir(parents=True, exist_ok=True)
    earlier = sorted(path for path in parent.iterdir() if path.is_dir())
    if used is not None:
        earlier = [path for path in earlier if not used.resolve().is_relative_to(path.resolve())]
    for path in earlier[: max(0, len(earlier) - KEEP_SESSIONS)]:
        if run_store.holds_tagged(path):
            continue
        # Another session goes on there, or has just removed it.
        with contextlib.suppress(BlockingIOError, FileNotFoundError), _locked(path):
            shutil.rmtree(path, ignore_errors=True)
    folder = _made(parent, seed)
    with _locked(folder):
        yield folder


def under_way(folder: Path) -> bool:
    """Tell whether the session of a folder goes on."""
    try:
        with _locked(folder):
            return False
    except BlockingIOError:
        return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process; BlockingIOError: another has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _made(parent: Path, seed: int) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(100):
        folder = parent / f"{stamp}-seed{seed}{f'-{number}' if number else ''}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise FileExistsError(f"{parent}: a hundred sessions began in the same second")
