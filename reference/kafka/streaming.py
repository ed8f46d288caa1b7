"""An application that reads topics of Kafka: the same rows and stages, other ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.api import Application, PipelineError
from tickproof.reference.api.layouts import BadRecord, Layout, cast, fields, new, one_by_one, view
from tickproof.reference.compiler.columns import (
    PLACE,
    columns,
    in_spark,
    leaving,
    numbers_of_parts,
    to_columns,
)
from tickproof.reference.compiler.steps import checked, refused
from tickproof.reference.compiler.streaming import BUCKETS, first_stage, keyed
from tickproof.reference.kafka import sink

#: Who delivers a row: see `sinks.writers`.
WRITER = pa.field("writer", pa.int32())
#: A row for a topic.
MESSAGES = pa.schema([WRITER, ("key", pa.binary()), ("value", pa.binary()), *PLACE])
MAX_RECORDS = 50_000


@dataclass(frozen=True)
class Inputs:
    """Where records come from: the topic of each stream.

    decode: makes the fields of a record of the value of a message; what it raises ends the query,
    with the place of the message. options: more of Spark's source, as `kafka.security.protocol`.
    """

    brokers: str
    topics: Mapping[int, str]
    decode: Callable[[bytes], tuple]
    options: Mapping[str, str] = field(default_factory=dict)


def start(
    spark: SparkSession,
    application: Application,
    inputs: Inputs,
    topic: str,
    encode: Callable[[tuple], tuple[bytes | None, bytes]],
    name: str,
    checkpoint: str,
    *,
    max_records: int = MAX_RECORDS,
    buckets: int = BUCKETS,
    settings: Mapping[str, str] = {},
) -> StreamingQuery:
    """Start the query that writes to a topic; it goes on from its checkpoint if there is one.

    encode: makes key and value of an output. name: begins the names that the query has on the
    broker. max_records: of a stream, in a micro-batch. buckets: as `compiler.streaming` has it.
    settings: more of the sink's clients, of librdkafka. The application has one sink.
    """
    rows = partial(_rows_for_writers, application, partial(_messages, encode), MESSAGES)
    made = _processed(spark, application, inputs, name, max_records, buckets)
    sent = made.mapInArrow(rows, in_spark(MESSAGES))
    known = {**settings, "bootstrap.servers": inputs.brokers}
    return sink.write(sent, topic, name, checkpoint, known)


def outputs(
    spark: SparkSession,
    application: Application,
    inputs: Inputs,
    name: str,
    *,
    max_records: int = MAX_RECORDS,
    buckets: int = BUCKETS,
) -> DataFrame:
    """Return the outputs of an application as a streaming DataFrame, for any sink.

    Its columns: the writer, the fields of the output, and those of PLACE, by which `writers` orders
    them. A text is a string. The application has one sink.
    """
    named = columns(application.sinks[0].encoder)
    texts = [f.with_type(pa.string()) if f.type == pa.binary() else f for f in named]
    schema = pa.schema([WRITER, *texts, *PLACE])
    rows = partial(_rows_for_writers, application, _typed, schema)
    made = _processed(spark, application, inputs, name, max_records, buckets)
    return made.mapInArrow(rows, in_spark(schema))


def _processed(
    spark: SparkSession,
    application: Application,
    inputs: Inputs,
    name: str,
    max_records: int,
    buckets: int,
) -> DataFrame:
    """Return the rows that leave the last stage."""
    if len(application.sinks) != 1 or application.sinks[0].encoder is None:
        raise PipelineError(f"{application.name}: expected one sink, with an encoder")
    if not application.keys and len(application.pipelines) > 1:
        raise PipelineError(f"{application.name}: expected one pipeline, or a key")
    schema, frames = in_spark(leaving(application, 0)), []
    for number, pipeline in enumerate(application.pipelines):
        messages = read(spark, inputs, inputs.topics[pipeline.source.stream], name, max_records)
        rows = partial(_rows, application, number, inputs.decode, buckets)
        frames.append(messages.mapInArrow(rows, schema))
    return keyed(application, frames)


def read(
    spark: SparkSession, inputs: Inputs, topic: str, name: str, max_records: int = MAX_RECORDS
) -> DataFrame:
    """Return the committed messages of a topic from its beginning: partition, offset, value."""
    brokers = {"kafka.bootstrap.servers": inputs.brokers}
    stream = spark.readStream.format("kafka").options(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=max_records,
        groupIdPrefix=name,
        # Spark's default reads what was aborted, too.
        **{"kafka.isolation.level": "read_committed", **inputs.options, **brokers},
    )
    return stream.load().select("partition", "offset", "value")


def _rows(
    application: Application,
    number: int,
    decode: Callable[[bytes], tuple],
    buckets: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Decode messages, and take them through the first stage, in an executor."""
    source = application.pipelines[number].source
    for batch in batches:
        partitions, offsets, values = (column.to_pylist() for column in batch.columns)
        if not partitions:
            continue
        # A task of Spark's source has the messages of one partition.
        records = _decoded(source, partitions[0], offsets, values, decode)
        sound = checked(source, partitions[0], records, np.array(offsets))
        # Nothing is decided ahead: which writer gets it would follow from how large a batch of
        # Arrow is, a setting that may change before a batch runs again.
        yield from first_stage(
            application, number, partitions[0], [sound], buckets=buckets, combine=False
        )


def _decoded(source, partition: int, offsets: Sequence[int], values, decode) -> np.ndarray:
    """Return messages as records; RecordError names the first that is none."""
    try:
        return _records(source.decoder, map(decode, values))
    except Exception:
        for offset, value in zip(offsets, values, strict=True):
            try:
                _records(source.decoder, [decode(value)])
            except Exception as error:
                bad = BadRecord(0, f"{type(error).__name__}: {error}")
                raise refused(source, partition, offset, bad) from error
        raise


def _records(layout: Layout, decoded: Iterable[tuple]) -> np.ndarray:
    columns = list(zip(*decoded, strict=True))
    records = new(len(columns[0]), layout)
    for name, column in zip(fields(layout), columns, strict=True):
        records[name] = cast(name, layout[name], column)
    return records


def _rows_for_writers(
    application: Application,
    encode: Callable[[np.ndarray], list[pa.Array]],
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Return a row for each output that leaves the last stage, its columns by ``encode``.

    A writer is a task of that stage, whose number is fixed; without a key it is a partition.
    """
    (last,) = application.sinks
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        some = [view(one, last.encoder) for one in batch["records"].to_pylist()]
        made = np.concatenate([new(0, last.encoder), *some])
        # Of each output: the row that it comes from.
        row = np.repeat(np.arange(len(some)), list(map(len, some)))
        *place, parts = (batch[name].take(pa.array(row)) for name in PLACE.names)
        numbered = zip(parts.to_pylist(), numbers_of_parts(row), strict=True)
        part = [before + number for before, number in numbered]
        writer = place[1]
        if application.keys:
            writer = pa.array(np.full(len(row), context.partitionId(), "<i4"))
        arrays = [writer, *encode(made), *place, pa.array(part, pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _messages(
    encode: Callable[[tuple], tuple[bytes | None, bytes]], records: np.ndarray
) -> list[pa.Array]:
    """Return keys and values."""
    pairs = list(map(encode, one_by_one(records)))
    return [pa.array([pair[at] for pair in pairs], pa.binary()) for at in (0, 1)]


def _typed(records: np.ndarray) -> list[pa.Array]:
    """Return each field as its column, a text as a string."""
    found = to_columns(records).values()
    return [one.cast(pa.string()) if one.type == pa.binary() else one for one in found]
