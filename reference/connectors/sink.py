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
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.connectors.source import Planned, persistently
from tickproof.reference.connectors.wire import STAGE_BYTES, Chunk, Log, LogError

COMMITTED, ALREADY, UNKNOWN = 1, 2, 3
#: What a task answers: how many records it staged.
STAGED = pa.schema([("records", pa.int64())])

#: Turns the rows of a task into framed records for each output stream, in pieces of any length.
Framing = Callable[[Iterator[pa.RecordBatch]], Iterable[tuple[int, Iterable[memoryview]]]]


def write(
    frame: DataFrame, framing: Framing, log: Mapping[str, str], checkpoint: str, planned: Planned
) -> StreamingQuery:
    """Start the query that stages what ``framing`` makes of rows, and commits it.

    log: host, port, token. One transaction holds the output of all streams. planned: what the
    sources were given. A batch that this life has planned was committed by no life before it.
    """

    def deliver(batch: DataFrame, batch_id: int) -> None:
        """Stage a micro-batch in the executors; make it visible, in the driver.

        One that fails runs again under its id, and replaces what was staged. No ABORT: one that
        comes late, of a driver that was thought dead, would drop what its successor has staged,
        and COMMIT would make the rest visible.
        """

        def stage(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch([[staged(log, batch_id, framing(rows))]], schema=STAGED)

        if any(task.records for task in batch.mapInArrow(stage, "records long").collect()):
            commit(log, batch_id, may_be_done=not planned)

    writer = frame.writeStream.foreachBatch(deliver)
    return writer.option("checkpointLocation", checkpoint).start()


def staged(
    log: Mapping[str, str], batch_id: int, streams: Iterable[tuple[int, Iterable[memoryview]]]
) -> int:
    """Stage the output of one task; return how many records it has.

    A STAGE holds 16 MiB, so that a task uses as many writers as it needs. How many
    depends on the number of records alone: after a crash the same writers are staged
    again, and none is left over from before.
    """
    task, count = TaskContext.get().partitionId(), 0
    for stream, framed in streams:
        for number, piece in enumerate(pieces(framed)):
            writer = task << 16 | number
            persistently(log, partial(_stage, batch_id, stream, writer, piece))
            count += piece.count
    return count


def _stage(batch_id: int, stream: int, writer: int, piece: Chunk, log: Log) -> None:
    # From HAVE on, the log refuses what an earlier connection of this writer still sends. A
    # twin of this task that asks HAVE later stages the same records once more.
    first = log.have(stream, writer)
    log.stage(batch_id, stream, writer, first, piece)


def commit(log: Mapping[str, str], batch_id: int, *, may_be_done: bool) -> None:
    """Make a micro-batch visible.

    may_be_done: the driver before this one may have committed it. Otherwise LogError if it was
    committed before it was asked for: what this one staged had no effect.
    """
    asked = 0

    def ask(connection: Log) -> int:
        nonlocal asked
        asked += 1
        return connection.commit(batch_id)

    outcome = persistently(log, ask)
    if outcome == UNKNOWN:
        raise LogError(f"COMMIT of batch {batch_id}: the log does not know the transaction")
    if outcome == ALREADY and asked == 1 and not may_be_done:
        raise LogError(f"COMMIT of batch {batch_id}: another checkpoint or application has done it")


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
