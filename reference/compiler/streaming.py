"""An application as one Structured Streaming query: typed columns, and state by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tickproof.reference.api import Application, Pipeline, PipelineError
from tickproof.reference.api.layouts import one_by_one
from tickproof.reference.compiler.checkpoint import claim
from tickproof.reference.compiler.columns import (
    PLACE,
    in_log_order,
    in_spark,
    row,
    to_batch,
    to_columns,
    to_records,
)
from tickproof.reference.compiler.processor import KeyedState
from tickproof.reference.compiler.steps import decoded, packed
from tickproof.reference.connectors.sink import write
from tickproof.reference.connectors.source import read
from tickproof.reference.connectors.wire import Chunk

#: Of each stream, in a micro-batch. A key costs a batch about as much as twenty records do, so
#: that large batches are cheaper; but a batch is what is done again after a crash.
MAX_RECORDS = 500_000


def start(
    spark: SparkSession, application: Application, log: Mapping[str, str],
    partitions: Mapping[int, int], checkpoint: Path, *, max_records: int = MAX_RECORDS,
) -> StreamingQuery:  # fmt: skip
    """Start the query; it goes on from its checkpoint where there is one.

    log: host, port, token. partitions: how many each input stream has.
    """
    for step in (step for pipeline in application.pipelines for step in pipeline.steps):
        if getattr(step.function, "on_arrays", False):
            raise PipelineError(
                f"{application.name}: {step.name}: expected a function on one record"
            )
    claim(checkpoint, application, partitions, "rows")
    frames = []
    for number, pipeline in enumerate(application.pipelines):
        stream, schema = pipeline.source.stream, in_spark(row(pipeline.source.decoder))
        options = {**log, "stream": str(stream), "partitions": str(partitions[stream])}
        options["max_records"] = str(max_records)
        frame = read(spark, pipeline.name, schema, partial(rows_of, number, pipeline), options)
        if pipeline.before:
            schema = in_spark(row(pipeline.before_state))
            frame = frame.mapInArrow(computations(pipeline), schema)
        frames.append(frame)
    rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
    layout = application.sink.encoder
    if application.state:
        rows = rows.groupBy(application.key).transformWithState(
            KeyedState(application), in_spark(row(layout)), "append", "None"
        )
    options = {**log, "stream": str(application.sink.stream)}
    return write(rows, partial(in_log_order, layout=layout), options, checkpoint)


def rows_of(
    number: int, pipeline: Pipeline, partition: int, chunks: Iterable[Chunk]
) -> Iterator[pa.RecordBatch]:
    """Decode chunks of one partition, in an executor."""
    source = pipeline.source
    for chunk in chunks:
        if source.decoder is None:
            size = len(chunk.records) // chunk.count
            records = np.frombuffer(chunk.records, f"V{size}")
            offsets = np.arange(chunk.base, chunk.base + chunk.count)
            columns = [records.tolist()]
        else:
            records, offsets = decoded(source, partition, chunk)
            columns = to_columns(records)
        place = np.full(len(records), number), np.full(len(records), partition), offsets
        yield to_batch(place, columns, row(source.decoder))


def computations(pipeline: Pipeline) -> Callable[[Iterable[pa.RecordBatch]], Iterator]:
    """Return the computations before the state, which take the rows of a task in turn."""
    schema = row(pipeline.before_state)

    def compute(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = {name: batch.column(name).to_numpy() for name in batch.schema.names}
            records, kept = to_records(values, pipeline.source.decoder), np.arange(len(batch))
            for step in pipeline.before:
                results = map(step.function, one_by_one(records))
                records, answered = packed(step.name, step.out, results)
                kept = kept[answered]
            yield to_batch([values[n][kept] for n in PLACE.names], to_columns(records), schema)

    return compute
