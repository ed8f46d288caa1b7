"""The log as a streaming source: offsets in the driver, records read in the executors.

Spark keeps the offsets in its checkpoint, on whatever file system that lies. So they also say
whose checkpoint it is, and nothing but Spark reads or writes a file of it.
"""

from __future__ import annotations

import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
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

#: Whose a checkpoint is: what is the same in each of its offsets.
Facts = Mapping[str, str | int]

#: Turns the chunks of a partition, given by its number, into rows.
Reading = Callable[[int, Iterable[Chunk]], Iterator[pa.RecordBatch]]


class CheckpointError(ValueError):
    """A checkpoint that this application cannot go on from."""


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
    deadline = None
    while True:
        try:
            return ask(connected(options))
        except Passing:
            # From the first error on: a log that fell silent has taken its time before that.
            if deadline is None:
                deadline = time.monotonic() + float(options.get("persist_s", PERSIST_S))
            elif time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_S)


class Planned:
    """Whether this life of a query has planned a batch; if not, the first one is an old one.

    After a restart Spark first runs again what was planned before, and only then asks for the
    latest offset. It asks another process on the driver's machine, which makes the file ``path``.
    """

    def __init__(self) -> None:
        self.path = str(Path(tempfile.gettempdir()) / f"tickproof-planned-{uuid.uuid4().hex}")
        weakref.finalize(self, Path(self.path).unlink, missing_ok=True)

    def __bool__(self) -> bool:
        return Path(self.path).exists()


def read(
    spark: SparkSession,
    name: str,
    schema: StructType | str,
    reading: Reading,
    options: Mapping[str, str],
    facts: Facts,
) -> DataFrame:
    """Return one stream of the log as a DataFrame, its rows made by ``reading``.

    Options: host, port, token, checkpoint, stream, partitions, the path of Planned, and
    max_records, the most that one micro-batch takes of the whole stream. The query fails with
    CheckpointError if it goes on from a checkpoint of other facts.
    """

    class LogSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"tickproof-{name}"

        def schema(self) -> StructType | str:
            return schema

        def streamReader(self, schema) -> DataSourceStreamReader:
            return LogReader(dict(self.options), reading, facts)

    spark.dataSource.register(LogSource)
    return spark.readStream.format(LogSource.name()).options(**options).load()


class Range(InputPartition):
    """Records from ``start`` to ``end`` of one partition: the work of one task."""

    def __init__(self, partition: int, start: int, end: int) -> None:
        super().__init__((partition, start, end))


class LogReader(DataSourceStreamReader):
    """Offsets are ``{"STREAM/PARTITION": offset}`` and the facts of the checkpoint."""

    def __init__(self, options: dict[str, str], reading: Reading, facts: Facts) -> None:
        self._options = options
        self._reading = reading
        self._facts = facts
        self._stream = int(options["stream"])
        self._names = [f"{self._stream}/{p}" for p in range(int(options["partitions"]))]
        self._ends: dict[str, int] = {}

    def initialOffset(self) -> dict:
        """Begin at the first record: asked where the checkpoint has no batch that is done."""
        return {**self._facts, **dict.fromkeys(self._names, 0)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Bound a micro-batch."""
        return ReadMaxRows(int(self._options["max_records"]))

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        """Release what is done, and share the limit among the partitions that have more.

        ``start`` is where the batch before ended. Spark plans one when that is in its commit
        log: from then on no restart goes below it.
        """
        self._expect_own(start)
        Path(self._options["planned"]).touch()
        ends = self._ends = persistently(self._options, partial(self._release, start))
        busy = sum(ends[name] > start[name] for name in self._names)
        if not isinstance(limit, ReadAllAvailable):
            share = max(1, limit.max_rows // max(1, busy))
            ends = {name: min(end, start[name] + share) for name, end in ends.items()}
        return {**self._facts, **ends}

    def reportLatestOffset(self) -> dict | None:
        """Return where the partitions ended as the newest batch was planned."""
        return self._ends or None

    def _release(self, start: dict, log: Log) -> dict[str, int]:
        """Release what is below ``start``; return where the partitions end now."""
        ends = {}
        for number, name in enumerate(self._names):
            released, end, _ = log.tail(self._stream, number)
            if end < start[name]:
                raise LogError(f"{name} ends at {end}, but was read to {start[name]}: another log?")
            if released < start[name]:
                log.release(self._stream, number, start[name])
            ends[name] = end
        return ends

    def _expect_own(self, offset: dict) -> None:
        for what, value in self._facts.items():
            if offset.get(what) != value:
                where, found = self._options["checkpoint"], offset.get(what)
                raise CheckpointError(f"{where}: {what}: expected {value!r}, got {found!r}")

    def partitions(self, start: dict, end: dict) -> list[Range]:
        """One task for each partition that has records in this batch."""
        self._expect_own(end)  # a batch that was planned before a death
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
        """Nothing: Spark calls this when it has planned the next batch, which may never be."""
