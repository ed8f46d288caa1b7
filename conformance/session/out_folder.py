"""The folder that a command writes its reports to: checked, and held by one command at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tickproof.conformance.errors import RequestError
from tickproof.conformance.text import shown

#: Holds the pid of the command that has the folder; the lock on it ends with that process.
LOCK_FILE: Final = "session.lock"


def check(out: Path, option: str = "--out") -> None:
    """Raise RequestError if nothing can be written into ``out``, the value of an option.

    Nor does a command go on without a temporary folder, which engines work in.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        expected = "expected a folder that can be written"
        raise RequestError(f"TMPDIR: {expected}: {error.strerror}") from error
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as file:
            file.write(b"\n")
    except OSError as error:
        expected = f"{option}: expected a folder that can be written, got {out}"
        raise RequestError(f"{expected}: {error.strerror}") from error


def folder_name(text: str, most: int = 60) -> str:
    """Return the name of a folder that stands for a text: at most ``most`` characters, maybe none.

    No dots at the ends, so that no name leads out of its folder.
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:most]


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made; two sessions in it would overwrite each other's reports.

    Raises RequestError if another process has it, or if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
        )
    except OSError as error:
        expected = f"--out: expected a folder that can be written, got {folder}"
        raise RequestError(f"{expected}: {error.strerror}") from error
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = shown(os.pread(descriptor, 20, 0).decode("ascii", "replace").strip(), 20)
        raise RequestError(
            f"--out: {folder} is in use by process {pid or 'unknown'}, which writes its reports "
            "there; wait for its end, or name another folder"
        ) from None
    with contextlib.suppress(OSError):  # a full disk: the lock holds without the pid
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
