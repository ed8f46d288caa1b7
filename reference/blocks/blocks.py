"""Blocks of records as pure functions: how a pipeline reads them, and what a bucket makes of them.

A row of a DataFrame holds a block, thousands of records of one bucket, and not one record.
What Spark does for each row then costs next to nothing. A bucket is a share of the key
space: its state is one table, a row for each key, in one value of the state store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tickproof.reference.api import Application
from tickproof.reference.api.layouts import numbered, view
from tickproof.reference.compiler.steps import computed, decoded, finished, stepped
from tickproof.reference.connectors.wire import Chunk

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Fibonacci hashing


class Block(NamedTuple):
    """Records of one bucket, framed, in log order from offset ``base`` of a partition on.

    ready: they are outputs already. pipeline: index of the pipeline they belong to.
    """

    bucket: int
    pipeline: int
    ready: bool
    partition: int
    base: int
    count: int  # type: ignore[assignment]
    records: bytes


#: A block as a row of Arrow and of Spark.
ROW = pa.schema(
    [
        pa.field("bucket", pa.int32()),
        pa.field("pipeline", pa.int32()),
        pa.field("ready", pa.bool_()),
        pa.field("partition", pa.int32()),
        pa.field("base", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("records", pa.binary()),
    ]
)
ROW_SCHEMA = (
    "bucket int, pipeline int, ready boolean, partition int, base long, count long, records binary"
)


def record_batch(block: Block) -> pa.RecordBatch:
    """Return a block as one row; its records are not copied."""
    *values, records = block
    arrays = [pa.array([value], field.type) for value, field in zip(values, ROW, strict=False)]
    ends = pa.py_buffer(np.array([0, len(records)], "<i4"))
    arrays.append(pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(records)]))
    return pa.RecordBatch.from_arrays(arrays, schema=ROW)


@dataclass(frozen=True)
class Reading:
    """What is done to the chunks of one pipeline where they are read.

    coalesce: take the computations before the state along. combine: use the combine of the
    one with state.
    """

    application: Application
    number: int
    buckets: int
    coalesce: bool = True
    combine: bool = True

    def __call__(self, partition: int, chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
        """Turn chunks into rows, a block each."""
        return map(record_batch, self.blocks(partition, chunks))

    def blocks(self, partition: int, chunks: Iterable[Chunk]) -> Iterator[Block]:
        """Turn chunks into blocks."""
        decoder = self.application.pipelines[self.number].source.decoder
        for chunk in chunks:
            if decoder is None or not self.coalesce:
                yield Block(0, self.number, False, partition, *chunk)
            else:
                yield from self.work(partition, chunk)

    def work(self, partition: int, chunk: Chunk) -> Iterator[Block]:
        """Decode, compute, combine, and split by bucket."""
        pipeline = self.application.pipelines[self.number]
        records, _ = decoded(pipeline.source, partition, chunk)
        for step in pipeline.before:
            records = computed(step, records)
        block = partial(self._block, partition, chunk.base)
        stateful = pipeline.stateful
        if stateful is None:
            yield block(0, True, records)
            return
        if stateful.combine and self.combine:
            records, outputs = stateful.combine(records)
            if len(outputs := finished(pipeline, outputs)):
                yield block(partition % self.buckets, True, outputs)
        buckets = bucket_of(records[stateful.key], self.buckets)
        for bucket in np.unique(buckets):
            yield block(int(bucket), False, records[buckets == bucket])

    def _block(self, partition: int, base: int, bucket: int, ready: bool, records: np.ndarray):
        data = records.tobytes()
        return Block(bucket, self.number, ready, partition, base, len(records), data)


def bucket_of(keys: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each key: stable across restarts and machines."""
    return (((keys * _SPREAD) >> np.uint64(40)) % np.uint64(buckets)).astype(np.uint8)


# -- one bucket, one batch ----------------------------------------------------------


def table_of(application: Application, data: bytes | None) -> np.ndarray:
    """View the stored state of a bucket: sorted by ``key``, then the fields of its state."""
    layout = np.dtype([("key", "<u8"), *application.state.layout.descr])
    if data and len(data) % layout.itemsize:
        raise ValueError(f"state {application.state.name}: {len(data)} bytes hold no {layout}")
    return np.frombuffer(data or b"", layout)


def advanced(
    application: Application, table: np.ndarray, blocks: Iterable[Block]
) -> tuple[np.ndarray, list[tuple[Block, np.ndarray]]]:
    """Apply a batch to one bucket: return its new table, and outputs with their origin.

    The blocks may come in any order; the answer depends on the batch alone.
    """
    done: list[tuple[Block, np.ndarray]] = []
    todo: dict[int, list[Block]] = {}
    for block in sorted(blocks, key=lambda b: (b.pipeline, b.partition, b.base, b.ready)):
        if block.ready:
            done.append((block, view(block.records, application.sink.encoder)))
        else:
            todo.setdefault(block.pipeline, []).append(block)
    for number, mine in sorted(todo.items()):
        pipeline = application.pipelines[number]
        step = pipeline.stateful
        layout = pipeline.before_state
        records = np.concatenate([view(block.records, layout) for block in mine])
        table, rows = with_keys(table, records[step.key])
        states = table[list(application.state.layout.names)]
        outputs = finished(pipeline, stepped(step, records, rows, states))
        if pipeline.target:
            done.append((mine[0], outputs))
    return table, done


def with_keys(table: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a copy of the table with a row (of zeros, if new) for each key, and their rows."""
    distinct, ids = numbered(keys)
    fresh = distinct[~np.isin(distinct, table["key"])]
    rows = np.zeros(len(fresh), table.dtype)
    rows["key"] = fresh
    table = np.concatenate([table, rows])
    table = table[np.argsort(table["key"], kind="stable")]
    return table, np.searchsorted(table["key"], distinct)[ids]
