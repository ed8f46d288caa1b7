"""An application as one Structured Streaming query."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState

from tickproof.reference.api import Application, PipelineError
from tickproof.reference.compiler.steps import Block, Reading, advanced, table_of
from tickproof.reference.connectors.progress import CheckpointError
from tickproof.reference.connectors.sink import FORMAT, LogSink
from tickproof.reference.connectors.source import ROW, ROW_SCHEMA, log_source, record_batch
from tickproof.reference.connectors.wire import Chunk

#: What a checkpoint is good for, kept beside Spark's own files.
FACTS = "application.json"
OUTPUT_SCHEMA = "count long, records binary"
STATE_SCHEMA = "table binary"


def start(
    spark: SparkSession, application: Application, log: Mapping[str, str],
    partitions: Mapping[int, int], checkpoint: Path, *, max_records: int = 6_000_000,
    buckets: int = 8, coalesce: bool = True, combine: bool = True,
) -> StreamingQuery:  # fmt: skip
    """Start the query; it goes on from its checkpoint where there is one.

    log: host, port, token. partitions: how many each input stream has. buckets: shares of
    the key space, fixed for the life of a checkpoint. coalesce: do stateless computations
    and the combine where records are read, not in a step of their own. combine: have one.
    """
    claim(checkpoint, application, partitions, buckets)
    frames = []
    for number in range(len(application.pipelines)):
        reading = Reading(application, number, buckets, coalesce, combine)
        frames.append(_read(spark, reading, log, partitions, max_records))
    blocks = reduce(DataFrame.union, frames)
    if application.state:
        blocks = blocks.groupBy("bucket").applyInPandasWithState(
            _stateful(application), OUTPUT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout"
        )
    spark.dataSource.register(LogSink)
    writer = blocks.select("count", "records").writeStream.format(FORMAT)
    writer = writer.options(**log, stream=str(application.sink.stream))
    return writer.option("checkpointLocation", str(checkpoint)).start()


def claim(
    checkpoint: Path, application: Application, partitions: Mapping[int, int], buckets: int
) -> None:
    """Write down whose checkpoint this is, or raise CheckpointError where it is another's.

    Spark would take it and fail later, or not at all: it cannot look into a binary state.
    """
    state = application.state
    now = {
        "application": application.name,
        "pipelines": [f"{p.name} of stream {p.source.stream}" for p in application.pipelines],
        "state": f"{state.name} {state.layout.descr}" if state else None,
        "partitions": [f"{count} of stream {stream}" for stream, count in partitions.items()],
        "buckets": buckets,
    }
    path = checkpoint / FACTS
    if not path.exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(now))
        aside.replace(path)
        return
    try:
        then = json.loads(path.read_text())
    except ValueError as error:
        raise CheckpointError(f"{path}: expected JSON: {error}") from error
    for what, value in now.items():
        if then.get(what) != value:
            raise CheckpointError(f"{path}: {what}: expected {value!r}, got {then.get(what)!r}")


def _read(spark, reading: Reading, log, partitions, max_records) -> DataFrame:
    pipeline = reading.application.pipelines[reading.number]
    name = f"tickproof-{pipeline.name}"
    spark.dataSource.register(log_source(reading, name))
    stream = pipeline.source.stream
    if stream not in partitions:
        raise PipelineError(
            f"pipeline {pipeline.name}: nobody said how many partitions {stream} has"
        )
    options = {"stream": stream, "partitions": partitions[stream], "max_records": max_records}
    frame = spark.readStream.format(name).options(**log, **options).load()
    if reading.coalesce or pipeline.source.decoder is None:
        return frame
    return frame.mapInArrow(_apart(reading), ROW_SCHEMA)


def _apart(reading: Reading) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the work of a reading as a step of its own, in a process of its own."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                chunk = Chunk(row["base"], row["count"], row["records"])
                yield from map(record_batch, reading.work(row["partition"], chunk))

    return work


def _stateful(application: Application):
    """Return the function that Spark calls for each bucket of a batch."""
    columns = ROW.names

    def advance(
        key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        table = table_of(application, state.get[0] if state.exists else None)
        rows = (row for frame in frames for row in zip(*(frame[c] for c in columns), strict=True))
        table, outputs = advanced(application, table, (Block(*row) for row in rows))
        state.update((table.tobytes(),))
        kept = [records for _, records in outputs if len(records)]
        data = {"count": map(len, kept), "records": (records.tobytes() for records in kept)}
        yield pd.DataFrame({name: list(column) for name, column in data.items()})

    return advance
