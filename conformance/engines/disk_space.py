"""Full disks: an error that comes of one, and the words for it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_CODES: Final = (errno.ENOSPC, errno.EDQUOT)
_WORDS: Final = tuple(map(os.strerror, _CODES))
#: A disk with less than this left takes no file that a run writes.
_LEAST: Final = 64 << 10


def caused(error: BaseException | str) -> bool:
    """Tell whether an error, or the text of one, comes of a full disk."""
    if isinstance(error, OSError) and error.errno in _CODES:
        return True
    return any(words in str(error) for words in _WORDS)


def full(folder: Path) -> str:
    """Return the words for a full disk if a folder, or the temporary one, is on one; else ""."""
    least, where = _least(folder)
    return _words(where, *least) if least[0] < _LEAST else ""


def words(folder: Path) -> str:
    """Return the words for an error of a full disk, which is that of a folder or the temporary one.

    There may be room again by now: that with the least is named.
    """
    least, where = _least(folder)
    return _words(where, *least)


def _least(folder: Path) -> tuple[tuple[int, int], Path]:
    """Return (free, total) in bytes of the disk with the least room, and the folder on it."""
    found = [((0, 0), folder)]
    for one in (folder, Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            usage = shutil.disk_usage(one)
            found.append(((usage.free, usage.total), one))
    return min(found[1:] or found, key=lambda one: one[0][0])


def _words(folder: Path, free: int, total: int) -> str:
    return (
        f"no space left on {folder}: a run takes some tens of MiB; "
        f"without this one {free / 2**20:,.1f} of {total / 2**20:,.1f} MiB are free"
    )
