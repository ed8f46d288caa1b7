"""An application as one Structured Streaming query: typed columns, and state by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import groupby

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.api import Application, Pipeline, PipelineError, Sink, StateComputation
from tickproof.reference.api.arrays import joined
from tickproof.reference.api.words import Stage
from tickproof.reference.compiler.buckets import BUCKETS, MOST, bucket_of
from tickproof.reference.compiler.checkpoint import facts
from tickproof.reference.compiler.columns import (
    cell,
    in_log_order,
    in_spark,
    leaving,
    numbers_of_parts,
    places,
    to_buckets,
    to_sink,
)
from tickproof.reference.compiler.processor import KeyedStage
from tickproof.reference.compiler.steps import StepError, ahead, decoded, refused, through
from tickproof.reference.connectors.sink import write
from tickproof.reference.connectors.source import Planned, read
from tickproof.reference.connectors.wire import CHUNK_BYTES, Chunk

#: What its sinks get of a chunk, or what goes on (for None), and the offset of each record.
Passed = Iterator[tuple[Sink | None, np.ndarray, np.ndarray]]
#: Of each stream, in a micro-batch. Large batches are cheaper, but a batch is what is done again
#: after a crash.
MAX_RECORDS = 3_000_000


def start(
    spark: SparkSession,
    application: Application,
    log: Mapping[str, str],
    partitions: Mapping[int, int],
    checkpoint: str,
    *,
    max_records: int = MAX_RECORDS,
    buckets: int = BUCKETS,
    coalesce: bool = True,
    combine: bool = True,
) -> StreamingQuery:
    """Start the query; it goes on from its checkpoint if there is one.

    log: host, port, token. partitions: how many each input stream has. checkpoint: a folder
    on any file system of Hadoop. buckets: shares of the key space, at most 256; state is kept and
    computed by them. coalesce: take records through the first stage where they are read, not in a
    step of their own. combine: decide ahead what records that replace the state allow.
    All three are fixed for the life of a checkpoint.
    """
    schema, frames = in_spark(leaving(application, 0)), []
    if not 0 < buckets <= MOST:
        raise PipelineError(f"buckets: expected 1 to {MOST}, got {buckets}")
    how = {"buckets": buckets, "coalesce": int(coalesce), "combine": int(combine)}
    own, planned = facts(application, partitions, **how), Planned()
    for number, pipeline in enumerate(application.pipelines):
        stream = pipeline.source.stream
        options = {**log, "stream": str(stream), "partitions": str(partitions[stream])}
        options |= {"max_records": str(max_records), "checkpoint": checkpoint}
        options |= {"planned": planned.path}
        reading = partial(rows_of, application, number, buckets=buckets, combine=combine)
        if coalesce:
            frames.append(read(spark, pipeline.name, schema, reading, options, own))
        else:
            chunks = read(spark, pipeline.name, in_spark(CHUNKS), as_they_are, options, own)
            frames.append(chunks.mapInArrow(partial(apart, reading), schema))
    rows = keyed(application, frames, buckets)
    return write(rows, in_log_order, log, checkpoint, planned)


def keyed(
    application: Application, frames: Sequence[DataFrame], buckets: int = BUCKETS
) -> DataFrame:
    """Take the rows that leave the first stage of each pipeline through the stages with a key."""
    rows = reduce(DataFrame.union, frames)
    for stage in range(1, len(application.keys) + 1):
        schema = in_spark(leaving(application, stage))
        processor = KeyedStage(application, stage, buckets)
        rows = rows.groupBy("bucket").transformWithState(processor, schema, "append", "None")
    return rows


def rows_of(
    application: Application,
    number: int,
    partition: int,
    chunks: Iterable[Chunk],
    *,
    buckets: int = BUCKETS,
    combine: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Decode chunks of one partition and take them through the first stage, in an executor."""
    source = application.pipelines[number].source
    records = (decoded(source, partition, chunk) for chunk in chunks)
    return first_stage(application, number, partition, records, buckets=buckets, combine=combine)


def first_stage(
    application: Application,
    number: int,
    partition: int,
    chunks: Iterable[tuple[np.ndarray, np.ndarray]],
    *,
    buckets: int = BUCKETS,
    combine: bool,
) -> Iterator[pa.RecordBatch]:
    """Take chunks of one partition, in log order, through the first stage.

    combine: decide ahead what follows a record that replaces the state of its key.

    chunks: records, and the offset of each.
    """
    pipeline, schema = application.pipelines[number], leaving(application, 0)
    passed = _passed(pipeline, partition, chunks)
    if len(application.keys) == 1 and combine:
        passed = _decided_ahead(pipeline.stages[1], passed)
    for sink, records, offsets in passed:
        place = number, partition, int(offsets[0])
        if sink or not application.keys:
            if sink:
                yield to_sink(schema, places([(*place, partition % buckets, b"")]), sink, records)
            continue
        of_record = bucket_of(records[application.keys[0]], buckets)
        if len(application.keys) == 1:
            order = np.argsort(of_record, kind="stable")
            starts = np.flatnonzero(np.diff(of_record[order], prepend=-1))
            each = [(*place, bucket, b"") for bucket in of_record[order[starts]].tolist()]
        else:
            order, starts = slice(None), np.arange(len(records))
            at = zip(offsets.tolist(), of_record.tolist(), numbers_of_parts(offsets), strict=True)
            each = [(number, partition, *one) for one in at]
        yield to_buckets(schema, places(each), records, order, starts)


#: Chunks as a source reads them.
CHUNKS = pa.schema([("partition", pa.int32()), ("base", pa.int64()), ("count", pa.int64()),
                    ("records", pa.binary())])  # fmt: skip


def as_they_are(partition: int, chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
    """Return chunks as rows."""
    for base, count, records in chunks:
        place = zip((partition, base, count), CHUNKS, strict=False)
        cells = [pa.array([number], field.type) for number, field in place]
        cells.append(cell(np.frombuffer(records, "u1")))
        yield pa.RecordBatch.from_arrays(cells, schema=CHUNKS)


def apart(
    reading: Callable[[int, Iterable[Chunk]], Iterator[pa.RecordBatch]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Take rows that are chunks of one partition through the first stage."""
    rows = (row.values() for batch in batches for row in batch.to_pylist())
    for partition, mine in groupby(rows, lambda row: next(iter(row))):
        yield from reading(partition, (Chunk(*chunk) for _, *chunk in mine))


def _passed(
    pipeline: Pipeline, partition: int, chunks: Iterable[tuple[np.ndarray, np.ndarray]]
) -> Passed:
    """Take chunks through the first stage."""
    for records, offsets in chunks:
        try:
            for sink, made, origins in through(pipeline.stages[0], records):
                if len(made):
                    yield sink, made, offsets[origins]
        except StepError as error:
            raise refused(pipeline.source, partition, offsets[error.index], error) from error


def _decided_ahead(stage: Stage, passed: Passed) -> Passed:
    """Decide what chunks decide without state, where records replace it.

    What is left of a chunk is joined with the next one, so that little of a range travels.
    """
    first, *after = stage.steps
    alone = not any(isinstance(step, StateComputation) for step in after)
    if not (isinstance(first, StateComputation) and first.replaces and stage.key and alone):
        yield from passed
        return
    rest, since = np.empty(0), np.empty(0)
    for _, records, offsets in passed:
        if len(rest):
            records = joined(rest, records)
        else:
            since = offsets
        rest, outputs = ahead(first, stage.key, records)
        for sink, made, _ in through(replace(stage, steps=tuple(after)), outputs):
            if sink and len(made):
                yield sink, made, offsets
        if rest.nbytes > CHUNK_BYTES:
            yield None, rest, since
            rest = rest[:0]
    if len(rest):
        yield None, rest, since
