"""Append-only binary tables: rows of one packed dtype, readable while being written."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Final

import numpy as np

from conformance.checkers.tables import FETCH, PUBLISH

__all__ = ["FETCH", "PUBLISH", "RELEASE", "Table", "read_table"]

#: The engine promised never to fetch below ``offset`` again.
RELEASE: Final = np.dtype(
    [("t_ns", "<i8"), ("stream", "<u2"), ("partition", "<u2"), ("offset", "<u8")]
)


class Table:
    """A file of rows. Each row is written at once, so a killed kit loses none."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._row = np.zeros(1, dtype)
        self._path = path
        self._broken: OSError | None = None
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def add(self, *values: int) -> None:
        """Append one row; raises OSError when the disk is full. No row after that."""
        with self._lock:
            self._row[0] = values
            self._write(self._row)

    def extend(self, rows: np.ndarray) -> None:
        """Append rows of the table's dtype; raises as `add` does."""
        with self._lock:
            self._write(rows)

    def _write(self, rows: np.ndarray) -> None:
        if self._broken is not None:
            raise self._broken
        try:
            if os.write(self._fd, rows.tobytes()) < rows.nbytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        except OSError as error:
            # A torn row ends the table: rows behind it could not be found again.
            self._broken = error
            raise

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


def read_table(path: Path, dtype: np.dtype) -> np.ndarray:
    """Return the rows of a table; a torn last row is left out, no file is no rows."""
    if not path.exists():
        return np.zeros(0, dtype)
    whole = path.stat().st_size // dtype.itemsize
    return np.fromfile(path, dtype, count=whole)
