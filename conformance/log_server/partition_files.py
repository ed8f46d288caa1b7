"""Partition files of somebody's own, ``sSpP.log``: found, checked, followed as they grow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np

from tickproof.conformance.errors import RequestError
from tickproof.conformance.log_server.frames import MAX_FRAME
from tickproof.conformance.text import shown

#: What a frame holds beside the one record that it has to have room for.
_HEAD: Final = 64
#: The longest payload that a log can serve, and take.
MAX_PAYLOAD: Final = MAX_FRAME - _HEAD
#: Bytes that are looked at in one step, or one record.
STEP: Final = 8 << 20
_PREFIX: Final = 4
_NAME: Final = re.compile(r"s(0|[1-9]\d{0,4})p(0|[1-9]\d{0,4})\.log")
_NUMBERS: Final = range(1 << 16)


class FileShrunk(RequestError):
    """Records that were counted are not in their file any more."""


class GrowingFile:
    """One partition file, to which others may append framed records.

    record_size: payload bytes of each of its records. records: so many are whole and checked.
    """

    def __init__(self, path: Path, stream: int, partition: int, record_size: int) -> None:
        self.path, self.stream, self.partition = path, stream, partition
        self.record_size = record_size
        self.records = 0
        self._fd = os.open(path, os.O_RDONLY)

    @property
    def rest(self) -> int:
        """Bytes behind the last whole record: of one that is not written whole yet."""
        return os.fstat(self._fd).st_size - self.records * (_PREFIX + self.record_size)

    def grow(self) -> bool:
        """Count the whole records that have come, of one step; return whether more are there.

        Raises RequestError with file and offset for a record of another size, those before it
        counted; FileShrunk.
        """
        stride = _PREFIX + self.record_size
        if self.rest < 0:
            raise FileShrunk(f"{self.path}: had {self.records:,} records, and is shorter now")
        step = max(1, STEP // stride) * stride
        data = os.pread(self._fd, step, self.records * stride)
        # The size of a last record counts as soon as it is there.
        begun = (len(data) + stride - _PREFIX) // stride
        sizes = np.ndarray(begun, "<u4", data, strides=(stride,))
        wrong = np.flatnonzero(sizes != self.record_size)
        self.records += int(wrong[0]) if len(wrong) else len(data) // stride
        if len(wrong):
            raise RequestError(
                f"{self.path}: offset {self.records:,} (byte {self.records * stride:,}): expected "
                f"a record of {self.record_size} bytes, got one of {sizes[wrong[0]]}; or the one "
                "before it was cut"
            )
        return len(data) == step

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def found(folder: Path) -> list[GrowingFile]:
    """Return the partition files of a folder by stream and partition, all their records counted.

    Raises RequestError that names file and offset: no folder, no file, a partition that is
    missing, records of several sizes in a stream, none in a stream.
    """
    files: list[GrowingFile] = []
    try:
        for stream, paths in groupby(_named(folder), key=lambda named: named[0]):
            numbered = [(partition, path) for _, partition, path in paths]
            size = _record_size(folder, stream, [path for _, path in numbered])
            files += (GrowingFile(path, stream, number, size) for number, path in numbered)
        for file in files:
            while file.grow():
                pass
    except OSError as error:
        raise RequestError(f"{error.filename or folder}: {error.strerror}") from error
    return files


def partition_counts(files: Sequence[GrowingFile]) -> dict[int, int]:
    """Return how many partitions each stream has."""
    by_stream = groupby(files, key=attrgetter("stream"))
    return {stream: len(list(partitions)) for stream, partitions in by_stream}


def _named(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield stream, partition and path of each file, in this order."""
    names = filter(None, (_NAME.fullmatch(path.name) for path in folder.iterdir()))
    numbers = sorted((int(name[1]), int(name[2])) for name in names)
    if not numbers:
        raise RequestError(f"{folder}: expected partition files, as s0p0.log; there is none")
    expected = (0, 0)
    for stream, partition in numbers:
        path = folder / f"s{stream}p{partition}.log"
        if stream not in _NUMBERS or partition not in _NUMBERS or not path.is_file():
            raise RequestError(f"{path}: expected a file, both of its numbers below 65,536")
        following = expected[1] if stream == expected[0] else 0
        if partition != following:
            raise RequestError(
                f"{folder}: {path.name} is there, and s{stream}p{following}.log is not: the "
                "partitions of a stream are numbered from 0"
            )
        expected = stream, partition + 1
        yield stream, partition, path


def _record_size(folder: Path, stream: int, paths: list[Path]) -> int:
    """Return the payload bytes of the first record of a stream."""
    for path in paths:
        with path.open("rb") as file:
            prefix = file.read(_PREFIX)
        if len(prefix) < _PREFIX:
            continue
        size = int.from_bytes(prefix, "little")
        if not 0 < size <= MAX_PAYLOAD:
            raise RequestError(
                f"{path}: offset 0: expected the size of a record, a u32 from 1 to "
                f"{MAX_PAYLOAD:,}, before its payload; got {size:,}"
            )
        return size
    raise RequestError(
        f"{folder}: expected at least one record in {shown(f's{stream}p*.log', 40)}, which says "
        "how long those of the stream are"
    )
