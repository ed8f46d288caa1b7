"""An application as one Structured Streaming query whose rows are blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.state import GroupState

from tickproof.reference.api import Application
from tickproof.reference.blocks.blocks import (
    ROW,
    ROW_SCHEMA,
    Block,
    Reading,
    advanced,
    expect_blocks,
    record_batch,
    table_of,
)
from tickproof.reference.compiler.checkpoint import facts
from tickproof.reference.connectors.sink import write
from tickproof.reference.connectors.source import Planned, read
from tickproof.reference.connectors.wire import Chunk

OUTPUT_SCHEMA = "count long, records binary"
STATE_SCHEMA = "table binary"


def start(
    spark: SparkSession,
    application: Application,
    log: Mapping[str, str],
    partitions: Mapping[int, int],
    checkpoint: str,
    *,
    max_records: int = 6_000_000,
    buckets: int = 8,
    coalesce: bool = True,
    combine: bool = True,
) -> StreamingQuery:
    """Start the query; it goes on from its checkpoint where there is one.

    log: host, port, token. partitions: how many each input stream has. checkpoint: a folder
    on any file system of Hadoop. buckets: shares of the key space. coalesce: do stateless
    computations and the combine where records are read, not in a step of their own. combine:
    have one. All three are fixed for the life of a checkpoint.
    """
    expect_blocks(application)
    how = {"buckets": buckets, "coalesce": int(coalesce), "combine": int(combine)}
    own, planned = facts(application, partitions, "blocks", **how), Planned()
    frames = []
    for number, pipeline in enumerate(application.pipelines):
        stream = pipeline.source.stream
        options = {**log, "stream": str(stream), "partitions": str(partitions[stream])}
        options |= {"max_records": str(max_records), "checkpoint": checkpoint}
        options |= {"planned": planned.path}
        reading = Reading(application, number, buckets, coalesce, combine)
        frame = read(spark, pipeline.name, ROW_SCHEMA, reading, options, own)
        if not coalesce and pipeline.source.decoder:
            frame = frame.mapInArrow(_apart(reading), ROW_SCHEMA)
        frames.append(frame)
    blocks = reduce(DataFrame.union, frames)
    if application.keys:
        blocks = blocks.groupBy("bucket").applyInPandasWithState(
            _stateful(application), OUTPUT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout"
        )
    framing = partial(_framed, application.sinks[0].stream)
    return write(blocks.select("count", "records"), framing, log, checkpoint, planned)


def _framed(
    stream: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[int, Iterator[memoryview]]]:
    """Take the blocks out of their rows."""
    rows = (value for batch in batches for value in batch.column("records"))
    yield stream, (memoryview(value.as_buffer()) for value in rows)


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
        data = {"count": [*map(len, kept)], "records": [records.tobytes() for records in kept]}
        yield pd.DataFrame(data)

    return advance
