"""Append-only binary tables: rows of one packed dtype, readable while being written."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tickproof.conformance.history import plain_files

#: How `struct` calls the types of columns.
_CODES: Final = {
    "<i8": "q", "<u8": "Q", "<i4": "i", "<u4": "I", "<u2": "H", "|u1": "B", "|b1": "?", "<f8": "d",
}  # fmt: skip


class Table:
    """A file of rows. Each row is written at once, so a killed kit loses none."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        # A row is packed five times as fast as it is put into an array.
        codes = "".join(_CODES[dtype[name].str] for name in dtype.names or ())
        self._pack = struct.Struct(f"<{codes}").pack
        self._path = path
        self._broken: OSError | None = None
        self._hash = hashlib.sha256()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def add(self, *values: float) -> None:
        """Append one row; raises OSError when the disk is full. No row after that."""
        self._write(self._pack(*values))

    def add_all(self, rows: Iterable[Sequence[float]]) -> None:
        """Append a few rows at once; raises as `add` does."""
        self._write(b"".join(self._pack(*row) for row in rows))

    def extend(self, rows: np.ndarray) -> None:
        """Append rows of the table's dtype; raises as `add` does."""
        self._write(rows.tobytes())

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._append(data)

    def _append(self, data: bytes) -> None:
        if self._broken is not None:
            raise self._broken
        try:
            if os.write(self._fd, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        except OSError as error:
            # A torn row ends the table: rows behind it could not be found again.
            self._broken = error
            raise
        self._hash.update(data)

    @property
    def sha256(self) -> str:
        """Digest of all rows, as hexadecimal digits."""
        with self._lock:
            return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


def read_table(path: Path, dtype: np.dtype) -> np.ndarray:
    """Return the rows of a table; a torn last row is left out, no file is no rows."""
    try:
        with plain_files.opened(path.parent, path.name) as file:
            whole = os.fstat(file.fileno()).st_size // dtype.itemsize
            return np.fromfile(file, dtype, count=whole)
    except FileNotFoundError:
        return np.zeros(0, dtype)
