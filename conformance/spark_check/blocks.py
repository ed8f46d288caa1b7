"""Files of a run as blocks of records, cut by what a record is about.

A block holds the records of one slice of one file that go to one part, as bytes: no row
a record. ``places`` are their positions in the file (int64), ``times`` the arrival times
of output records (int64 nanoseconds), empty for input.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tickproof.conformance.checkers.arrays import mix, read
from tickproof.conformance.spark_check import remote

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = "part int, source int, start long, records binary, places binary, times binary"
_ARROW: Final = pa.schema(
    [
        ("part", pa.int32()),
        ("source", pa.int32()),
        ("start", pa.int64()),
        ("records", pa.binary()),
        ("places", pa.binary()),
        ("times", pa.binary()),
    ]
)
#: Bytes of a file that one task reads at a time, and of all files that one part judges, where
#: the files have up to FEW_BYTES together.
SLICE_BYTES: Final = 32 << 20
PART_BYTES: Final = 128 << 20
FEW_BYTES: Final = 4 << 30
#: Of more both grow with the root of the bytes, up to this: each slice has a block for each part,
#: so that the number of blocks grows with the bytes, not with their square.
MOST_GROWTH: Final = 4.0


@dataclass(frozen=True)
class Source:
    """Records of one file. ``field``: the payload within a framed record, or "" for all.

    ``kept``: the dtype of what a cut keeps of each record. ``arrivals``: of output, the path of
    its arrival table, its dtype and how many of its rows count; or the rows. ``remote``: ``path``
    is a URI.
    """

    path: str
    layout: np.dtype
    field: str
    records: int
    kept: np.dtype
    arrivals: tuple[str, np.dtype, int] | Broadcast[np.ndarray] | None = None
    remote: bool = False

    def array(self) -> np.ndarray:
        """Return all records, as a memory map."""
        if not self.records:
            return np.zeros(0, self.layout[self.field] if self.field else self.layout)
        whole = np.memmap(self.path, self.layout, "r", shape=(self.records,))
        return whole[self.field] if self.field else whole

    def times(self, start: int, end: int) -> np.ndarray:
        """Return the arrival times of output records [start, end)."""
        if self.arrivals is None:
            return np.empty(0, np.int64)
        if isinstance(self.arrivals, tuple):
            path, dtype, count = self.arrivals
            rows = np.memmap(path, dtype, "r", shape=(count,))
        else:
            rows = self.arrivals.value
        # By bisection in the file: numpy would copy a column of the whole table.
        low = bisect.bisect_right(rows["index"], start) - 1
        high = bisect.bisect_left(rows["index"], end)
        some = rows[low:high]
        row = np.searchsorted(some["index"], np.arange(start, end, dtype=np.uint64), side="right")
        return some["t_ns"][row - 1]


@dataclass(frozen=True)
class Cut:
    """Division of a slice: records of ``Source.kept``, 64-bit words that part them.

    ``rows``: which records of the slice these are, None for all.
    """

    records: np.ndarray
    words: np.ndarray
    rows: np.ndarray | None = None


Cutter = Callable[[np.ndarray], Cut]


def slices(sources: Sequence[Source], size: int) -> list[tuple[int, int, int]]:
    """Return (source, start, end) of pieces of about ``size`` bytes, in order."""
    found = []
    for number, source in enumerate(sources):
        step = max(1, size // source.layout.itemsize)
        starts = range(0, source.records, step)
        found += [(number, at, min(at + step, source.records)) for at in starts]
    return found


def part_count(sources: Iterable[Source], parallel: int) -> int:
    """Return how many parts keep each of them at its size, and the cores busy."""
    total = total_bytes(sources)
    return max(
        1, min(parallel, -(-total // (1 << 20))), math.ceil(total / growth(total) / PART_BYTES)
    )


def total_bytes(sources: Iterable[Source]) -> int:
    """Return the bytes of all files."""
    return sum(source.records * source.layout.itemsize for source in sources)


def growth(total: int) -> float:
    """Return by how much slices and parts are larger, for so many bytes of files."""
    return min(MOST_GROWTH, max(1.0, math.sqrt(total / FEW_BYTES)))


def blocks(
    spark: SparkSession, sources: Sequence[Source], cutters: Sequence[Cutter], parts: int
) -> DataFrame:
    """Return the blocks of all sources, each cut by the cutter of its number."""

    def cut(number: int, start: int, records: np.ndarray) -> Iterator[pa.RecordBatch]:
        cut, end = cutters[number](records), start + len(records)
        places, times = np.arange(start, end), sources[number].times(start, end)
        if cut.rows is not None:
            places, times = places[cut.rows], times[cut.rows] if len(times) else times
        yield block_batch(number, start, cut.records, cut.words, places, times, parts)

    return _over_slices(spark, sources, cut, SCHEMA)


def scan(
    spark: SparkSession, sources: Sequence[Source], look: Callable[[int, int, np.ndarray], bytes]
) -> Iterator[bytes]:
    """Yield ``look(source, start, records)`` of every slice, in order; empty bytes left out."""

    def found(number: int, start: int, records: np.ndarray) -> Iterator[pa.RecordBatch]:
        if seen := look(number, start, records):
            yield pa.RecordBatch.from_pydict({"found": pa.array([seen], pa.binary())})

    for row in _over_slices(spark, sources, found, "found binary").toLocalIterator(True):
        yield bytes(row[0])


def _over_slices(
    spark: SparkSession,
    sources: Sequence[Source],
    function: Callable[[int, int, np.ndarray], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Return what ``function(source, start, records)`` yields for each slice of all sources."""
    size = int(SLICE_BYTES * growth(total_bytes(sources)))
    if any(source.remote for source in sources):
        return _over_remote_slices(spark, sources, function, size, schema)
    plan = slices(sources, size)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                source, start, end = plan[number]
                yield from function(source, start, read(sources[source].array(), start, end))

    return spark.range(0, len(plan), 1, max(1, len(plan))).mapInArrow(run, schema)


def _over_remote_slices(
    spark: SparkSession,
    sources: Sequence[Source],
    function: Callable[[int, int, np.ndarray], Iterator[pa.RecordBatch]],
    size: int,
    schema: str,
) -> DataFrame:
    def looks(number: int) -> remote.Look:
        field = sources[number].field

        def look(start: int, records: np.ndarray) -> Iterator[pa.RecordBatch]:
            return function(number, start, read(records[field], 0, len(records)))

        return look

    made = spark.createDataFrame([], schema)
    for number, source in enumerate(sources):
        if source.records:
            made = made.unionAll(
                remote.over_slices(
                    spark, source.path, source.layout, source.records, looks(number), size, schema
                )
            )
    return made


def block_batch(
    source: int,
    start: int,
    records: np.ndarray,
    words: np.ndarray,
    places: np.ndarray,
    times: np.ndarray,
    parts: int,
) -> pa.RecordBatch:
    """Return one block for each part that gets any of the records; their order is kept."""
    part = parts_of(words, parts)
    order = np.argsort(part, kind="stable")
    counts = np.bincount(part, minlength=parts)
    wanted = np.flatnonzero(counts)
    ends = np.cumsum(counts[wanted])
    columns = [
        pa.array(wanted.astype(np.int32)),
        pa.array(np.full(len(wanted), source, np.int32)),
        pa.array(np.full(len(wanted), start, np.int64)),
        _binary(records.view(f"V{records.itemsize}")[order], ends),
        _binary(places.astype(np.int64)[order], ends),
        _binary(times[order] if len(times) else times, ends if len(times) else 0 * ends),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def parts_of(words: np.ndarray, parts: int) -> np.ndarray:
    """Return the part of each word; the high bits of a mixed word say which."""
    high = mix(np.asarray(words, np.uint64)) >> np.uint64(32)
    found = (high * np.uint64(parts)) >> np.uint64(32)
    return found.astype(np.uint16 if parts <= 1 << 16 else np.int64)  # u16 sorts by radix


def _binary(records: np.ndarray, ends: np.ndarray) -> Any:
    """Return one binary value for each stretch of records, without a copy."""
    offsets = np.concatenate(([0], ends * records.itemsize)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records.view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers)
