"""Files of a folder that others could write: no link is followed, no part of a file is seen.

Whoever plants a link in a run folder would have another file of this machine read, judged or
packed; a pipe would make the reader wait for ever.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Final

from tickproof.conformance.errors import HistoryError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: A pipe or a device must not make the open wait.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: The most that is read at once of a file of text.
MAX_TEXT: Final = 64 << 20
#: The most of a document: what it is read into is many times as large.
MAX_DOCUMENT: Final = 16 << 20


def opened(folder: Path, name: str) -> BufferedReader:
    """Open a plain file below a folder, which itself may be reached by a link.

    name: its path within the folder, parts divided by "/". Raises HistoryError where a part of
    it is a link, or the file is no plain one; FileNotFoundError; other OSErrors.
    """
    path = folder / name
    *folders, last = PurePosixPath(name).parts or ("",)
    if PurePosixPath(name).is_absolute() or ".." in folders or last in ("", ".."):
        raise HistoryError(f"{path}: expected a file within the folder")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            inner = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        file = os.open(last, _FILE, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise HistoryError(f"{path}: expected a plain file; found a link or a device") from None
        raise
    except ValueError as error:  # a NUL in a name
        raise HistoryError(f"{path!r}: expected the name of a file: {error}") from None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise HistoryError(f"{path}: expected a plain file; found another kind")
    return os.fdopen(file, "rb")


def size(folder: Path, name: str) -> int:
    """Return the bytes of a file, 0 where there is none; raises as `opened` does."""
    try:
        with opened(folder, name) as file:
            return os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return 0


def read_bytes(folder: Path, name: str, limit: int = MAX_TEXT) -> bytes:
    """Return what a file holds; raises as `opened` does, HistoryError where it is too long."""
    with opened(folder, name) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise HistoryError(f"{folder / name}: expected at most {limit:,} bytes")
    return content


def read_document(folder: Path, name: str) -> bytes:
    """Return what a file of at most MAX_DOCUMENT bytes holds; raises as `read_bytes` does."""
    return read_bytes(folder, name, MAX_DOCUMENT)


def below(folder: Path, *folders: str) -> list[str]:
    """Return the files that lie in a folder and in some folders of it, by name, in order.

    Links are among them, for `opened` to refuse; what lies behind a link to a folder is not.
    """
    found = [entry.name for entry in os.scandir(folder) if not entry.is_dir(follow_symlinks=False)]
    for inner in folders:
        path = folder / inner
        if path.is_dir() and not path.is_symlink():
            found += [f"{inner}/{entry.name}" for entry in os.scandir(path)]
    return sorted(found)


def write(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new one, whole; raises OSError."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
