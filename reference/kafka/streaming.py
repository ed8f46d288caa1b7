"""An application from topics to a topic of Kafka: the same rows and stages, other ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.api import Application, PipelineError
from tickproof.reference.api.layouts import BadRecord, cast, fields, new, one_by_one, view
from tickproof.reference.compiler.columns import PLACE, in_spark, leaving
from tickproof.reference.compiler.steps import checked, refused
from tickproof.reference.compiler.streaming import expect_rows, first_stage, keyed
from tickproof.reference.kafka import sink

#: A row for a topic: see `sink.write`.
MESSAGES = pa.schema([("writer", pa.int32()), ("key", pa.binary()), ("value", pa.binary()), *PLACE])
MAX_RECORDS = 50_000


@dataclass(frozen=True)
class Topics:
    """Where records come from and go to.

    inputs: the topic of each stream. decode: makes the fields of a record of the value of a
    message, or raises ValueError. encode: makes key and value of an output.
    """

    brokers: str
    inputs: Mapping[int, str]
    output: str
    decode: Callable[[bytes], tuple]
    encode: Callable[[tuple], tuple[bytes | None, bytes]]


def start(
    spark: SparkSession,
    application: Application,
    topics: Topics,
    name: str,
    checkpoint: str,
    *,
    max_records: int = MAX_RECORDS,
) -> StreamingQuery:
    """Start the query; it goes on from its checkpoint where there is one.

    name: begins the names that the query has on the broker. max_records: of a stream, in a
    micro-batch. The application has one sink.
    """
    expect_rows(application)
    if len(application.sinks) != 1 or application.sinks[0].encoder is None:
        raise PipelineError(f"{application.name}: expected one sink, with an encoder")
    if not application.keys and len(application.pipelines) > 1:
        raise PipelineError(f"{application.name}: expected one pipeline, or a key")
    schema, frames = in_spark(leaving(application, 0)), []
    for number, pipeline in enumerate(application.pipelines):
        messages = read(spark, topics, topics.inputs[pipeline.source.stream], name, max_records)
        rows = partial(_rows, application, number, topics.decode)
        frames.append(messages.mapInArrow(rows, schema))
    rows = partial(_messages, application, topics.encode)
    sent = keyed(application, frames).mapInArrow(rows, in_spark(MESSAGES))
    settings = {"bootstrap.servers": topics.brokers}
    return sink.write(sent, topics.output, name, checkpoint, settings)


def read(
    spark: SparkSession, topics: Topics, topic: str, name: str, max_records: int = MAX_RECORDS
) -> DataFrame:
    """Return the messages of a topic from its beginning: partition, offset, value."""
    stream = spark.readStream.format("kafka").options(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=max_records,
        groupIdPrefix=name,
        **{"kafka.bootstrap.servers": topics.brokers},
    )
    return stream.load().select("partition", "offset", "value")


def _rows(
    application: Application,
    number: int,
    decode: Callable[[bytes], tuple],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Decode messages, and take them through the first stage, in an executor."""
    source = application.pipelines[number].source
    for batch in batches:
        partitions, offsets, values = (column.to_pylist() for column in batch.columns)
        if not partitions:
            continue
        # A task of Spark's source has the messages of one partition.
        records = new(len(values), source.decoder)
        columns = zip(*_decoded(source, partitions[0], offsets, values, decode), strict=True)
        for field, column in zip(fields(source.decoder), columns, strict=True):
            records[field] = cast(field, source.decoder[field], column)
        sound = checked(source, partitions[0], records, np.array(offsets))
        # No combine: which writer gets what it decides would follow from how large a batch of
        # Arrow is, a setting that may change before a batch runs again.
        yield from first_stage(application, number, partitions[0], [sound], combine=False)


def _decoded(source, partition: int, offsets: Sequence[int], values, decode) -> Iterator[tuple]:
    for offset, value in zip(offsets, values, strict=True):
        try:
            yield decode(value)
        except ValueError as error:
            raise refused(source, partition, offset, BadRecord(0, str(error))) from error


def _messages(
    application: Application,
    encode: Callable[[tuple], tuple[bytes | None, bytes]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Encode what leaves the last stage.

    A writer is a task of that stage, whose number is fixed; without a key it is a partition.
    """
    (last,) = application.sinks
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        messages = []
        for *place, part, _, records in zip(*map(pa.Array.to_pylist, batch.columns), strict=True):
            writer = context.partitionId() if application.keys else place[1]
            for n, record in enumerate(one_by_one(view(records, last.encoder))):
                messages.append((writer, *encode(record), *place, part + n.to_bytes(4, "big")))
        columns = zip(*messages, strict=True) if messages else [()] * len(MESSAGES)
        arrays = [pa.array(one, type_) for one, type_ in zip(columns, MESSAGES.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)
