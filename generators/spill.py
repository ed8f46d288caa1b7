"""Arrays that need not fit into memory: they lie in files without a name, mapped into memory.

The system keeps them in memory while there is room, and on the disk of the temporary folder
(TMPDIR) when there is none. Nothing is left of them when the process ends, however it does.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

#: Elements that are worked on at a time.
BLOCK: Final = 1 << 20


@contextmanager
def temporary_files() -> Iterator[None]:
    """Have errors of writing name the temporary folder: an open file does not say where it is."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from error


class Spill:
    """Rows of one dtype that are appended, and read as one array."""

    def __init__(self, dtype: np.dtype | type) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - array() closes it

    def append(self, rows: np.ndarray) -> None:
        """Add rows at the end; raises OSError, which names the folder, if its disk is full."""
        with temporary_files():
            self._file.write(np.ascontiguousarray(rows, self._dtype).view(np.uint8).data)

    def array(self) -> np.ndarray:
        """Return all rows, shape (rows,), which can be written to, and forget them."""
        with self._file:
            with temporary_files():
                self._file.flush()
            size = self._file.tell()
            if not size:
                return np.zeros(0, self._dtype)
            return np.frombuffer(mmap.mmap(self._file.fileno(), size), self._dtype)


def spilled(parts: Iterable[np.ndarray], dtype: np.dtype | type) -> np.ndarray:
    """Return arrays as one."""
    spill = Spill(dtype)
    for part in parts:
        spill.append(part)
    return spill.array()


def blocks(count: int) -> Iterator[slice]:
    """Yield slices that cover ``count`` elements in order."""
    return (slice(begin, min(begin + BLOCK, count)) for begin in range(0, count, BLOCK))


def zeros(count: int, dtype: np.dtype | type) -> np.ndarray:
    """Return ``count`` zeros; the disk has room for them."""
    return spilled((np.zeros(some.stop - some.start, dtype) for some in blocks(count)), dtype)


def copied(values: np.ndarray) -> np.ndarray:
    """Return a copy of a one-dimensional array, without gaps between its elements."""
    return spilled((values[some] for some in blocks(len(values))), values.dtype)


def taken(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return values[at]."""
    return spilled((values[at[some]] for some in blocks(len(at))), values.dtype)


def ordered(values: np.ndarray) -> np.ndarray:
    """Return a sorted copy of a one-dimensional array of numbers."""
    copy = copied(values)
    copy.sort()
    return copy


def starts(ranked: np.ndarray) -> np.ndarray:
    """Return where each run of equal values in a sorted array begins (int64)."""
    return spilled((_starts(ranked, some) for some in blocks(len(ranked))), np.int64)


def _starts(ranked: np.ndarray, some: slice) -> np.ndarray:
    if some.start == 0:
        return np.append(0, 1 + np.flatnonzero(ranked[1 : some.stop] != ranked[: some.stop - 1]))
    before = ranked[some.start - 1 : some.stop - 1]
    return some.start + np.flatnonzero(ranked[some] != before)


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values of an array of numbers, sorted."""
    ranked = ordered(values)
    return taken(ranked, starts(ranked))


def places(mask: np.ndarray) -> np.ndarray:
    """Return the positions where a mask is true (int64)."""
    return spilled(
        (some.start + np.flatnonzero(mask[some]) for some in blocks(len(mask))), np.int64
    )
