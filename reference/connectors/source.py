"""The log as a streaming source: offsets in the driver, records read in the executors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from tickproof.reference.connectors.wire import Chunk, Log, LogError, Passing

#: How long an error that may pass is tolerated, where the option ``persist_s`` does not say, and
#: how long after it the call is tried again.
PERSIST_S, AGAIN_S = 60.0, 0.1
T = TypeVar("T")

#: Turns the chunks of a partition, given by its number, into rows.
Reading = Callable[[int, Iterable[Chunk]], Iterator[pa.RecordBatch]]


@lru_cache(maxsize=4)
def connection(host: str, port: str, token: str) -> Log:
    """Return this process's connection, opened once: Spark uses its Python workers again."""
    return Log(host, int(port), token)


def connected(options: Mapping[str, str]) -> Log:
    """Return the connection that the options name: host, port, token."""
    address = options["host"], options["port"], options["token"]
    if connection(*address).lost:
        connection.cache_clear()
    return connection(*address)


def persistently(options: Mapping[str, str], ask: Callable[[Log], T]) -> T:
    """Return what ``ask`` gets from the log; asked again while its troubles may pass.

    It may run more than once, the last time on a new connection: all of it has to bear that.
    """
    deadline = time.monotonic() + float(options.get("persist_s", PERSIST_S))
    while True:
        try:
            return ask(connected(options))
        except Passing:
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_S)


def read(
    spark: SparkSession, name: str, schema: StructType | str, reading: Reading,
    options: Mapping[str, str],
) -> DataFrame:  # fmt: skip
    """Return one stream of the log as a DataFrame, its rows made by ``reading``.

    Options: host, port, token, stream, partitions, and max_records, the most that one
    micro-batch takes of the whole stream.
    """

    class LogSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"tickproof-{name}"

        def schema(self) -> StructType | str:
            return schema

        def streamReader(self, schema) -> DataSourceStreamReader:
            return LogReader(dict(self.options), reading)

    spark.dataSource.register(LogSource)
    return spark.readStream.format(LogSource.name()).options(**options).load()


class Range(InputPartition):
    """Records from ``start`` to ``end`` of one partition: the work of one task."""

    def __init__(self, partition: int, start: int, end: int) -> None:
        super().__init__((partition, start, end))


class LogReader(DataSourceStreamReader):
    """Offsets are ``{"STREAM/PARTITION": offset}``, so that a progress report says which."""

    def __init__(self, options: dict[str, str], reading: Reading) -> None:
        self._options = options
        self._reading = reading
        self._stream = int(options["stream"])
        self._names = [f"{self._stream}/{p}" for p in range(int(options["partitions"]))]

    def initialOffset(self) -> dict:
        """Begin at the first record: only asked where there is no checkpoint."""
        return dict.fromkeys(self._names, 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Bound a micro-batch."""
        return ReadMaxRows(int(self._options["max_records"]))

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        """Ask the log for its ends; share the limit among the partitions that have more."""
        ends = persistently(self._options, self._ends)
        for name, end in ends.items():
            if end < start[name]:
                raise LogError(f"{name} ends at {end}, but was read to {start[name]}: another log?")
        if isinstance(limit, ReadAllAvailable):
            return ends
        busy = sum(ends[name] > start[name] for name in self._names)
        share = max(1, limit.max_rows // max(1, busy))
        return {name: min(end, start[name] + share) for name, end in ends.items()}

    def _ends(self, log: Log) -> dict[str, int]:
        return {name: log.tail(self._stream, p).end for p, name in enumerate(self._names)}

    def partitions(self, start: dict, end: dict) -> list[Range]:
        """One task for each partition that has records in this batch."""
        return [
            Range(number, start[name], end[name])
            for number, name in enumerate(self._names)
            if end[name] > start[name]
        ]

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:
        """Read and prepare one range, in an executor; a retry reads the same again."""
        number, start, end = partition.value
        yield from self._reading(number, self._chunks(number, start, end))

    def _chunks(self, number: int, at: int, end: int) -> Iterator[Chunk]:
        """Yield the records of a range; where a connection is lost, behind the last chunk."""
        while at < end:
            chunk = persistently(self._options, partial(self._chunk, number, at, end))
            yield chunk
            at += chunk.count

    def _chunk(self, number: int, at: int, end: int, log: Log) -> Chunk:
        return next(log.read(self._stream, number, at, end))

    def commit(self, end: dict) -> None:
        """Nothing: Spark calls this with the next batch only. See connectors.progress."""
