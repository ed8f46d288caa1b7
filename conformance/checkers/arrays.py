"""Reading big arrays in bounded pieces, and comparing records byte for byte.

A run's files are memory maps far larger than the memory that a checker may use.
Every piece is therefore copied out, and the pages behind it are given back.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

#: Bytes of records that one piece holds at most (one record if that is larger).
PIECE_BYTES: Final = 8 << 20

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_2: Final = np.uint64(0xD6E8FEB86659FD93)


def piece_rows(itemsize: int) -> int:
    """Return how many records of ``itemsize`` bytes make one piece."""
    return max(1, PIECE_BYTES // itemsize)


def pieces(array: np.ndarray, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (start, contiguous copy) of ``array``, at most ``rows`` records at a time."""
    rows = rows or piece_rows(array.itemsize)
    for start in range(0, len(array), rows):
        yield start, read(array, start, start + rows)


def read(array: np.ndarray, start: int, end: int, dtype: np.dtype | None = None) -> np.ndarray:
    """Return a contiguous copy of ``array[start:end]``, seen as ``dtype`` if one is given."""
    found = np.array(_opaque(array[start:end])).view(dtype or array.dtype)
    drop_pages(array)
    return found


def _opaque(array: np.ndarray) -> np.ndarray:
    """Return records as bytes without fields: numpy copies those several times as fast."""
    return array.view(f"V{array.itemsize}")


def gather(array: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return a copy of ``array[positions]``, with few pages of a memory map held at once."""
    if not len(positions):
        return np.empty(0, array.dtype)
    source = _opaque(array)
    window = max(1, (16 << 20) // max(1, abs(array.strides[0])))
    if int(positions.max()) - int(positions.min()) <= window:
        found = source[positions]
    else:
        found = np.empty(len(positions), source.dtype)
        order = np.argsort(positions, kind="stable")
        ends = np.searchsorted(positions[order], np.arange(0, len(array) + window, window))
        for start, end in pairwise(ends):
            if start < end:
                found[order[start:end]] = source[positions[order[start:end]]]
                drop_pages(array)
    drop_pages(array)
    return found.view(array.dtype)


def drop_pages(array: np.ndarray) -> None:
    """Give the resident pages behind a memory-mapped array back to the system."""
    owner: object = array
    shared = not array.flags.writeable
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            shared = owner.mode != "c"  # a private copy would lose what was written to it
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if shared and isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


def as_bytes(records: np.ndarray) -> np.ndarray:
    """Return records as a matrix (records, bytes or 8-byte words) without a copy if it can."""
    records = np.ascontiguousarray(records)
    unit = np.uint64 if records.itemsize % 8 == 0 else np.uint8
    return records.view(unit).reshape(len(records), -1)


def differ(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return a mask of the records whose bytes differ; both of one length and size."""
    mask = np.zeros(len(left), bool)
    for rows in range(0, len(left), piece_rows(left.itemsize)):
        part = slice(rows, rows + piece_rows(left.itemsize))
        mask[part] = (as_bytes(left[part]) != as_bytes(right[part])).any(axis=1)
    return mask


def mix(words: np.ndarray) -> np.ndarray:
    """Return 64-bit words with every input bit spread over the high bits."""
    words = words ^ (words >> np.uint64(32))
    words *= _MIX
    words ^= words >> np.uint64(29)
    words *= _MIX_2
    return words


def hash_records(records: np.ndarray) -> np.ndarray:
    """Return a u64 for each record; equal bytes give equal numbers, never decide by it."""
    records = np.ascontiguousarray(records)
    size = records.itemsize
    raw = records.view(np.uint8).reshape(len(records), size)
    if size % 8:
        padded = np.zeros((len(records), size + 8 - size % 8), np.uint8)
        padded[:, :size] = raw
        raw = padded
    words = raw.view(np.uint64)
    if words.shape[1] == 1:
        return mix(words[:, 0])
    odd = mix(np.arange(1, words.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    total = np.zeros(len(records), np.uint64)
    if words.shape[1] <= len(records):
        for column in range(words.shape[1]):
            total += mix(words[:, column]) * odd[column]
    else:  # few long records: go along each record, not across them
        for row in range(len(records)):
            total[row] = (mix(words[row]) * odd).sum(dtype=np.uint64)
    return mix(total)


def first_positions(rows: np.ndarray, positions: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Note in ``first[rows]`` the earliest position (ascending) of each row; -1 is none yet.

    Returns a mask of the positions that are not the first of their row.
    """
    new = first[rows] < 0
    # Backwards, because the last assignment to a repeated index is the one that stays.
    first[rows[new][::-1]] = positions[new][::-1]
    return first[rows] != positions
