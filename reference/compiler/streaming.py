"""An application as one Structured Streaming query: typed columns, and state by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.api import Application, Pipeline, PipelineError, Sink, StateComputation
from tickproof.reference.api.arrays import grouped, joined, numbered
from tickproof.reference.api.words import Stage
from tickproof.reference.compiler.checkpoint import facts
from tickproof.reference.compiler.columns import (
    in_log_order,
    in_spark,
    leaving,
    numbers_of_parts,
    places,
    to_key,
    to_sink,
)
from tickproof.reference.compiler.processor import KeyedStage
from tickproof.reference.compiler.steps import (
    UNKNOWN,
    StepError,
    decoded,
    on_arrays,
    refused,
    through,
)
from tickproof.reference.connectors.sink import write
from tickproof.reference.connectors.source import Planned, read
from tickproof.reference.connectors.wire import CHUNK_BYTES, Chunk

#: What its sinks get of a chunk, or what goes on (for None), and the offset of each record.
Passed = Iterator[tuple[Sink | None, np.ndarray, np.ndarray]]
#: Of each stream, in a micro-batch. A key costs a batch half a millisecond, however many records
#: it has, so that large batches are cheaper; but a batch is what is done again after a crash.
MAX_RECORDS = 3_000_000


def start(
    spark: SparkSession,
    application: Application,
    log: Mapping[str, str],
    partitions: Mapping[int, int],
    checkpoint: str,
    *,
    max_records: int = MAX_RECORDS,
    combine: bool = True,
) -> StreamingQuery:
    """Start the query; it goes on from its checkpoint if there is one.

    log: host, port, token. partitions: how many each input stream has. checkpoint: a folder
    on any file system of Hadoop. combine: have one; fixed for the life of a checkpoint.
    """
    expect_rows(application)
    schema, frames = in_spark(leaving(application, 0)), []
    own, planned = facts(application, partitions, "rows", combine=int(combine)), Planned()
    for number, pipeline in enumerate(application.pipelines):
        stream = pipeline.source.stream
        options = {**log, "stream": str(stream), "partitions": str(partitions[stream])}
        options |= {"max_records": str(max_records), "checkpoint": checkpoint}
        options |= {"planned": planned.path}
        reading = partial(rows_of, application, number, combine=combine)
        frames.append(read(spark, pipeline.name, schema, reading, options, own))
    return write(keyed(application, frames), in_log_order, log, checkpoint, planned)


def expect_rows(application: Application) -> None:
    """Raise PipelineError for a function on arrays in an application with several keys."""
    if len(application.keys) < 2:
        return
    for step in (s for p in application.pipelines for stage in p.stages for s in stage.steps):
        if not isinstance(step, Sink) and on_arrays(step):
            raise PipelineError(
                f"{application.name}: {step.name}: expected a function on one record, since "
                "there are several keys"
            )


def keyed(application: Application, frames: Sequence[DataFrame]) -> DataFrame:
    """Take the rows that leave the first stage of each pipeline through the stages with a key."""
    rows = reduce(DataFrame.union, frames)
    for stage, key in enumerate(application.keys, 1):
        schema = in_spark(leaving(application, stage))
        processor = KeyedStage(application, stage)
        rows = rows.groupBy(key).transformWithState(processor, schema, "append", "None")
    return rows


def rows_of(
    application: Application,
    number: int,
    partition: int,
    chunks: Iterable[Chunk],
    combine: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Decode chunks of one partition and take them through the first stage, in an executor."""
    source = application.pipelines[number].source
    records = (decoded(source, partition, chunk) for chunk in chunks)
    return first_stage(application, number, partition, records, combine)


def first_stage(
    application: Application,
    number: int,
    partition: int,
    chunks: Iterable[tuple[np.ndarray, np.ndarray]],
    combine: bool,
) -> Iterator[pa.RecordBatch]:
    """Take chunks of one partition, in log order, through the first stage and the combine.

    chunks: records, and the offset of each.
    """
    pipeline, schema = application.pipelines[number], leaving(application, 0)
    passed = _passed(pipeline, partition, chunks)
    if len(application.keys) == 1 and combine:
        passed = _combined(pipeline.stages[1], passed)
    for sink, records, offsets in passed:
        place = number, partition, int(offsets[0]), b""
        if sink:
            under = {
                key: _any_key(schema.field(key).type, partition) for key in application.keys[:1]
            }
            yield to_sink(schema, under, places([place]), sink, records)
        elif len(application.keys) == 1:
            (key,) = application.keys
            order, begins, _ = grouped(numbered(records[key])[1])
            starts = np.flatnonzero(begins)
            yield to_key(schema, key, places([place] * len(starts)), records, order, starts)
        elif application.keys:
            parts = zip(offsets.tolist(), numbers_of_parts(offsets), strict=True)
            each = places([(number, partition, *one) for one in parts])
            starts = np.arange(len(records))
            yield to_key(schema, application.keys[0], each, records, slice(None), starts)


def _any_key(type_: pa.DataType, partition: int) -> object:
    """Return a key for outputs that are decided already: it follows from the partition alone."""
    return str(partition).encode() if type_ == pa.binary() else partition % 128


def _passed(
    pipeline: Pipeline, partition: int, chunks: Iterable[tuple[np.ndarray, np.ndarray]]
) -> Passed:
    """Take chunks through the first stage."""
    for records, offsets in chunks:
        try:
            for sink, made, origins in through(pipeline.stages[0], records):
                if len(made):
                    yield sink, made, offsets[np.maximum(origins, 0)]
        except StepError as error:
            if error.index == UNKNOWN:
                raise
            raise refused(pipeline.source, partition, offsets[error.index], error) from error


def _combined(stage: Stage, passed: Passed) -> Passed:
    """Decide what chunks can decide without state, if the stage begins with a combine.

    What is left of a chunk is combined with the next one, so that little of a range travels.
    """
    first, *after = stage.steps
    alone = not any(isinstance(step, StateComputation) for step in after)
    if not (isinstance(first, StateComputation) and first.combine and alone):
        yield from passed
        return
    rest, since = np.empty(0), np.empty(0)
    for _, records, offsets in passed:
        if len(rest):
            records = joined(rest, records)
        else:
            since = offsets
        rest, outputs = first.combine(records)
        for sink, made, _ in through(replace(stage, steps=tuple(after)), outputs):
            if sink and len(made):
                yield sink, made, offsets
        if rest.nbytes > CHUNK_BYTES:
            yield None, rest, since
            rest = rest[:0]
    if len(rest):
        yield None, rest, since
