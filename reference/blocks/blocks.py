"""Blocks of records as pure functions: how a pipeline reads them, and what a bucket makes of them.

A row of a DataFrame holds a block, thousands of records of one bucket, and not one record.
What Spark does for each row then costs next to nothing. A bucket is a share of the key
space: its state is one table, a row for each key, in one value of the state store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tickproof.reference.api import (
    Application,
    Computation,
    Pipeline,
    PipelineError,
    Sink,
    StateComputation,
)
from tickproof.reference.api.arrays import numbered
from tickproof.reference.api.layouts import kind, view
from tickproof.reference.compiler.steps import decoded, stepped
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


class Path(NamedTuple):
    """A pipeline as blocks take it: its steps before the key, the one with state, the others."""

    before: list[Computation]
    step: StateComputation | None
    after: list[Computation]
    sink: Sink | None


def path(pipeline: Pipeline) -> Path:
    """Take a pipeline apart; `expect_blocks` has seen what it is made of."""
    steps: list = [step for stage in pipeline.stages for step in stage.steps]
    sink = steps.pop() if steps and isinstance(steps[-1], Sink) else None
    at = len(pipeline.stages[0].steps) if len(pipeline.stages) > 1 else len(steps)
    return Path(steps[:at], steps[at] if at < len(steps) else None, steps[at + 1 :], sink)


def expect_blocks(application: Application) -> None:
    """Raise PipelineError for an application that is compiled to rows only."""
    paths = [path(pipeline) for pipeline in application.pipelines]
    steps = [path.step for path in paths if path.step]
    more = [step for path in paths for step in (*path.before, *path.after)]
    key = application.keys[0] if application.keys else None
    if not (
        len(application.keys) < 2
        and len(application.sinks) == 1
        and all(isinstance(step, Computation) for step in more)
        and all(isinstance(step, StateComputation) and not step.timer for step in steps)
        and len({step.state for step in steps}) < 2
        and all("key" not in step.state.layout.names for step in steps)
        and all(kind(p.layout(1), key) == "<u8" for p in application.pipelines if key)
    ):
        raise PipelineError(
            f"{application.name}: blocks expect one sink, at most one key, which is a u64, and "
            "right behind it one step with state (of no field named key), without a timer; rows "
            "take the rest"
        )


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
        before, stateful, after, _ = path(pipeline)
        records, _ = decoded(pipeline.source, partition, chunk)
        records = computed(before, records)
        block = partial(self._block, partition, chunk.base)
        if stateful is None:
            yield block(0, True, records)
            return
        if stateful.combine and self.combine:
            records, outputs = stateful.combine(records)
            if len(outputs := computed(after, outputs)):
                yield block(partition % self.buckets, True, outputs)
        buckets = bucket_of(records[self.application.keys[0]], self.buckets)
        for bucket in np.unique(buckets):
            yield block(int(bucket), False, records[buckets == bucket])

    def _block(self, partition: int, base: int, bucket: int, ready: bool, records: np.ndarray):
        data = records.tobytes()
        return Block(bucket, self.number, ready, partition, base, len(records), data)


def bucket_of(keys: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each key: stable across restarts and machines."""
    return (((keys * _SPREAD) >> np.uint64(40)) % np.uint64(buckets)).astype(np.uint8)


def computed(steps: Iterable[Computation], records: np.ndarray) -> np.ndarray:
    """Apply computations, one after the other."""
    return reduce(lambda records, step: stepped(step, records)[0], steps, records)


# -- one bucket, one batch ----------------------------------------------------------


def table_of(application: Application, data: bytes | None) -> np.ndarray:
    """View the stored state of a bucket: sorted by ``key``, then the fields of its state."""
    (state,) = application.states(1)
    layout = np.dtype([("key", "<u8"), *state.layout.descr])
    if data and len(data) % layout.itemsize:
        raise ValueError(f"state {state.name}: {len(data)} bytes hold no {layout}")
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
            done.append((block, view(block.records, application.sinks[0].encoder)))
        else:
            todo.setdefault(block.pipeline, []).append(block)
    for number, mine in sorted(todo.items()):
        pipeline = application.pipelines[number]
        _, step, after, sink = path(pipeline)
        layout = pipeline.layout(1)
        records = np.concatenate([view(block.records, layout) for block in mine])
        table, rows = with_keys(table, records[application.keys[0]])
        states = table[list(step.state.layout.names)]
        outputs = computed(after, stepped(step, records, rows, states)[0])
        if sink:
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
