"""The log as a transactional sink: STAGE in the executors, COMMIT by batch id in the driver.

A crash between any two of these steps changes nothing for a reader of the output:

- before all is staged: the batch runs again, and STAGE of the same writer replaces;
- staged, not committed: the batch runs again and stages the same, by the same writers;
- committed, but Spark's commit log does not know: the batch runs again, its STAGE changes
  nothing, and COMMIT answers that it was committed already.

It holds because the batch id and its range of offsets are in Spark's log before the batch
runs, and because what a batch computes is a function of that range and the state before it.
Of the log it takes that what is staged outlives its connection, that HAVE numbers on from what
is committed, and that the log remembers which transactions are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.streaming.query import StreamingQuery

from tickproof.reference.connectors.source import persistently
from tickproof.reference.connectors.wire import STAGE_BYTES, Chunk, Log, LogError

COMMITTED, ALREADY, UNKNOWN = 1, 2, 3
#: Local property under which Spark tells its tasks the id of the micro-batch.
BATCH_ID = "streaming.sql.batchId"


#: Turns the rows of a task into framed records for each output stream, in pieces of any length.
Framing = Callable[[Iterator[pa.RecordBatch]], Iterable[tuple[int, Iterable[memoryview]]]]


def write(
    frame: DataFrame, framing: Framing, options: Mapping[str, str], checkpoint: Path
) -> StreamingQuery:
    """Start the query that stages what ``framing`` makes of rows, and commits it.

    Options: host, port, token. One transaction holds the output of all streams.
    """

    class LogSink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "tickproof-sink"

        def streamWriter(self, schema, overwrite) -> DataSourceStreamArrowWriter:
            return LogWriter(dict(self.options), framing)

    frame.sparkSession.dataSource.register(LogSink)
    writer = frame.writeStream.format(LogSink.name()).options(**options)
    return writer.option("checkpointLocation", str(checkpoint)).start()


@dataclass
class Staged(WriterCommitMessage):
    """What one task staged."""

    records: int


class LogWriter(DataSourceStreamArrowWriter):
    """One transaction a micro-batch."""

    def __init__(self, options: dict[str, str], framing: Framing) -> None:
        self._options = options
        self._framing = framing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the output of one task, in an executor.

        A STAGE holds 16 MiB, so that a task uses as many writers as it needs. How many
        depends on the number of records alone: after a crash the same writers are staged
        again, and none is left over from before.
        """
        context = TaskContext.get()
        batch_id = int(context.getLocalProperty(BATCH_ID))
        staged = 0
        for stream, framed in self._framing(iterator):
            for number, piece in enumerate(pieces(framed)):
                writer = context.partitionId() << 16 | number
                persistently(self._options, partial(self._stage, batch_id, stream, writer, piece))
                staged += piece.count
        return Staged(staged)

    def _stage(self, batch_id: int, stream: int, writer: int, piece: Chunk, log: Log) -> None:
        # From HAVE on, the log refuses what an earlier connection of this writer still sends. A
        # twin of this task that asks HAVE later stages the same records once more.
        first = log.have(stream, writer)
        log.stage(batch_id, stream, writer, first, piece)

    def commit(self, messages: list[Staged | None], batchId: int) -> None:
        """Make the batch visible, in the driver."""
        if not any(message.records for message in messages):
            return
        if persistently(self._options, lambda log: log.commit(batchId)) == UNKNOWN:
            raise LogError(f"COMMIT of batch {batchId}: the log does not know the transaction")

    def abort(self, messages: list[Staged | None], batchId: int) -> None:
        """Leave what was staged: the batch runs again, under the same id, and replaces it.

        No ABORT: one that comes late, of a driver that was thought dead, would drop what its
        successor has staged, and COMMIT would make the rest visible.
        """


def pieces(framed: Iterable[memoryview]) -> Iterator[Chunk]:
    """Join framed records, and cut them into as few pieces as fit a STAGE each."""
    held: list[memoryview] = []
    length = size = 0
    for data in framed:
        if not len(data):
            continue
        before, size = size, 4 + int.from_bytes(data[:4], "little")
        if before not in (0, size):
            raise LogError(f"expected records of {before - 4} bytes, got one of {size - 4}")
        if size > STAGE_BYTES:
            raise LogError(f"a record of {size - 4} bytes does not fit a STAGE")
        room = STAGE_BYTES // size * size
        while length + len(data) > room:
            cut = room - length
            yield Chunk(0, room // size, b"".join([*held, data[:cut]]))
            held, length, data = [], 0, data[cut:]
        held.append(data)
        length += len(data)
    if length:
        yield Chunk(0, length // size, b"".join(held))
