"""An application as one Structured Streaming query: typed columns, and state by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.api import Application, PipelineError, Sink
from tickproof.reference.compiler.checkpoint import facts
from tickproof.reference.compiler.columns import in_log_order, in_spark, leaving, to_rows
from tickproof.reference.compiler.processor import KeyedStage
from tickproof.reference.compiler.steps import StepError, decoded, refused, through
from tickproof.reference.connectors.sink import write
from tickproof.reference.connectors.source import Planned, read
from tickproof.reference.connectors.wire import Chunk

#: Of each stream, in a micro-batch. A key costs a batch about as much as sixteen records do,
#: so that large batches are cheaper; but a batch is what is done again after a crash.
MAX_RECORDS = 500_000


def start(
    spark: SparkSession,
    application: Application,
    log: Mapping[str, str],
    partitions: Mapping[int, int],
    checkpoint: str,
    *,
    max_records: int = MAX_RECORDS,
) -> StreamingQuery:
    """Start the query; it goes on from its checkpoint where there is one.

    log: host, port, token. partitions: how many each input stream has. checkpoint: a folder
    on any file system of Hadoop.
    """
    expect_on_records(application)
    schema, frames = leaving(application, 0), []
    own, planned = facts(application, partitions, "rows"), Planned()
    for number, pipeline in enumerate(application.pipelines):
        stream = pipeline.source.stream
        options = {**log, "stream": str(stream), "partitions": str(partitions[stream])}
        options |= {"max_records": str(max_records), "checkpoint": checkpoint}
        options |= {"planned": planned.path}
        reading = partial(rows_of, application, number)
        frames.append(read(spark, pipeline.name, in_spark(schema), reading, options, own))
    return write(keyed(application, frames), in_log_order, log, checkpoint, planned)


def expect_on_records(application: Application) -> None:
    """Raise PipelineError for an application with a function on arrays."""
    for step in (s for p in application.pipelines for stage in p.stages for s in stage.steps):
        if not isinstance(step, Sink) and getattr(step.function, "on_arrays", False):
            raise PipelineError(
                f"{application.name}: {step.name}: expected a function on one record"
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
    application: Application, number: int, partition: int, chunks: Iterable[Chunk]
) -> Iterator[pa.RecordBatch]:
    """Decode chunks of one partition and take them through the first stage, in an executor."""
    source = application.pipelines[number].source
    for chunk in chunks:
        yield from first_stage(application, number, partition, *decoded(source, partition, chunk))


def first_stage(
    application: Application, number: int, partition: int, records: np.ndarray, offsets: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Take records of one partition through the first stage of a pipeline."""
    pipeline, schema = application.pipelines[number], leaving(application, 0)
    count = len(records)
    places = [number] * count, [partition] * count, offsets.tolist(), [b""] * count
    try:
        for made in to_rows(schema, places, through(pipeline.stages[0], records)):
            arrays = map(pa.array, made, schema.types)
            yield pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    except StepError as error:
        raise refused(pipeline.source, partition, offsets[error.index], error) from error
