"""The partition files of a run, written in slices of the merged order: by whom, in what order and
how often does not matter.

Where a slice begins in each file follows from how many records of each target came before it. So
they are counted first, slice by slice, and the running totals of the counts are the places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tickproof.generators.files import ranges
from tickproof.generators.partitions import Division


@dataclass(frozen=True)
class Slice:
    """Records [start, stop) of the merged order.

    counts, places: for each target (int64), how many of them it gets, and the place in its file
    of the first, in records.
    """

    start: int
    stop: int
    counts: np.ndarray
    places: np.ndarray


def bounds(division: Division, size: int) -> list[tuple[int, int]]:
    """Return [start, stop) of slices of about ``size`` bytes that cover all records."""
    source = division.source
    return list(ranges(source.records, max(1, size // source.record_bytes)))


def count(division: Division, start: int, stop: int) -> np.ndarray:
    """Return how many of the records [start, stop) each target gets (int64)."""
    if len(division.targets) == 1:
        return np.array([stop - start], np.int64)
    counts = np.zeros(len(division.targets), np.int64)
    for piece in division.placed(start, stop):
        counts += piece.counts
    return counts


def located(bounds: Sequence[tuple[int, int]], counts: Sequence[np.ndarray]) -> list[Slice]:
    """Return the slices of all records, given how many records of each every target gets."""
    places: Iterable[np.ndarray] = np.cumsum(counts, axis=0) - counts if len(counts) else ()
    return [
        Slice(start, stop, count, place)
        for (start, stop), count, place in zip(bounds, counts, places, strict=True)
    ]


def write(division: Division, part: Slice, paths: Sequence[Path]) -> None:
    """Write a slice into the files of the targets, which are there; raises OSError.

    Its records are in memory once.
    """
    size = division.source.record_bytes
    data = np.empty((part.stop - part.start) * size, np.uint8)
    ends = np.cumsum(part.counts) * size
    starts = ends - part.counts * size
    at = starts.copy()
    for piece in division.placed(part.start, part.stop):
        for i, records in piece.groups:
            end = at[i] + records.nbytes
            data[at[i] : end] = records.view(np.uint8)
            at[i] = end
    for i in np.flatnonzero(part.counts).tolist():
        with paths[i].open("r+b") as file:
            file.seek(int(part.places[i]) * size)
            file.write(data[starts[i] : ends[i]].data)
