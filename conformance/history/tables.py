"""Append-only binary tables: rows of one packed dtype, readable while being written."""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from conformance.checkers.tables import FETCH, PUBLISH

__all__ = [
    "FETCH", "HICCUP", "MACHINE", "OTHERS", "PUBLISH", "RELEASE", "USAGE", "Table", "read_table",
]  # fmt: skip

#: The engine promised never to fetch below ``offset`` again.
RELEASE: Final = np.dtype(
    [("t_ns", "<i8"), ("stream", "<u2"), ("partition", "<u2"), ("offset", "<u8")]
)

#: One process of the engine at one look: CPU seconds since its start; rss in bytes; context
#: switches and wait_ns (ready to run and not running) of its living threads, which fall when
#: a thread ends; the core it ran on last; bytes in the queues of its TCP sockets; the cores
#: 0 to 63 that it may run on, as bits. All rows of a look have one time.
USAGE: Final = np.dtype(
    [("t_ns", "<i8"), ("pid", "<u4"), ("user_s", "<f8"), ("system_s", "<f8"), ("rss", "<i8"),
     ("threads", "<u4"), ("voluntary", "<i8"), ("involuntary", "<i8"), ("wait_ns", "<i8"),
     ("core", "<i4"), ("recv_queue", "<i8"), ("send_queue", "<i8"), ("affinity", "<u8")]
)  # fmt: skip

#: One look at the machine. Only differences of two looks mean something. busy_s: CPU seconds
#: of all processes, kit_s and engine_s those of the kit and of the engine. steal_s: what a
#: hypervisor took. pressure_us: how long something waited for a core, -1 where untold.
MACHINE: Final = np.dtype(
    [("t_ns", "<i8"), ("busy_s", "<f8"), ("steal_s", "<f8"), ("kit_s", "<f8"),
     ("engine_s", "<f8"), ("pressure_us", "<i8")]
)  # fmt: skip

#: CPU seconds since the look before of processes that are neither kit nor engine, for each
#: core that they ran on last; ANY_CORE where that is not known.
OTHERS: Final = np.dtype([("t_ns", "<i8"), ("core", "<u2"), ("cpu_s", "<f8")])
ANY_CORE: Final = 0xFFFF

#: One row for each millisecond that a hiccup recorder asked to wake at: when it woke, and
#: how much later that was. A long hiccup has a row for each millisecond that it covered.
HICCUP: Final = np.dtype([("t_ns", "<i8"), ("late_ns", "<i8")])


#: How `struct` calls the types of columns.
_CODES: Final = {
    "<i8": "q", "<u8": "Q", "<i4": "i", "<u4": "I", "<u2": "H", "|u1": "B", "|b1": "?", "<f8": "d",
}  # fmt: skip


class Table:
    """A file of rows. Each row is written at once, so a killed kit loses none."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        # A row is packed five times as fast as it is put into an array.
        self._pack = struct.Struct("<" + "".join(_CODES[dtype[n].str] for n in dtype.names)).pack
        self._path = path
        self._broken: OSError | None = None
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
