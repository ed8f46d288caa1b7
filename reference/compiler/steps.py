"""The work of a pipeline as pure functions over blocks of records; Spark moves the blocks.

A row of a DataFrame holds a block, thousands of records of one bucket, and not one record.
What Spark does for each row then costs next to nothing. A bucket is a share of the key
space: its state is one table, a row for each key, in one value of the state store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tickproof.reference.api import Application, Computation, Pipeline, Source, StateComputation
from tickproof.reference.api.layouts import BadRecord, Layout, new, numbered, view
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


class RecordError(ValueError):
    """A record that cannot be processed; says stream, partition and offset."""


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

    def __call__(self, partition: int, chunks: Iterable[Chunk]) -> Iterator[Block]:
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
        records = decoded(pipeline.source, partition, chunk)
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


def decoded(source: Source, partition: int, chunk: Chunk) -> np.ndarray:
    """View a chunk through the decoder; RecordError says which record is wrong and how.

    With a folder for dead letters the wrong record goes there and the others go on.
    """
    at = chunk.base
    try:
        records = view(chunk.records, source.decoder)
    except BadRecord as error:
        if source.dead_letters is None:
            raise _refused(source, partition, at, error) from error
        _bury(source, partition, at, chunk.records)
        return new(0, source.decoder)
    good: slice | np.ndarray = slice(None)  # a copy of all records only where one is left out
    while source.check:
        try:
            source.check(records[good])
            break
        except BadRecord as error:
            index = int(np.arange(len(records))[good][error.index])
            if source.dead_letters is None:
                raise _refused(source, partition, at + index, error) from error
            _bury(source, partition, at + index, records[index].tobytes())
            keep = np.zeros(len(records), bool)
            keep[good] = True
            keep[index] = False
            good = keep
    return records[good]


def _refused(source: Source, partition: int, offset: int, error: BadRecord) -> RecordError:
    return RecordError(f"stream {source.stream}, partition {partition}, offset {offset}: {error}")


def _bury(source: Source, partition: int, offset: int, data: bytes) -> None:
    # Named by its offset: a replay writes the same file again.
    folder = Path(source.dead_letters)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{source.stream}-{partition}-{offset}.bin").write_bytes(data)


def computed(step: Computation, records: np.ndarray) -> np.ndarray:
    """Apply a stateless computation."""
    if getattr(step.function, "on_arrays", False):
        return step.function(records)
    return _packed((step.function(record) for record in records.view(np.recarray)), step.out)


def finished(pipeline: Pipeline, outputs: np.ndarray) -> np.ndarray:
    """Apply what comes after the state."""
    for step in pipeline.after:
        outputs = computed(step, outputs)
    return outputs


def stepped(step: StateComputation, records: np.ndarray, rows: np.ndarray, states: np.ndarray):
    """Apply a computation with state; ``states`` changes in place, the outputs come back."""
    if getattr(step.function, "on_arrays", False):
        return step.function(records, rows, states)
    views = zip(records.view(np.recarray), rows, strict=True)
    table = states.view(np.recarray)
    out = step.out or records.dtype
    return _packed((step.function(record, table[row]) for record, row in views), out)


def _packed(results: Iterable[tuple | None], layout: Layout) -> np.ndarray:
    with np.errstate(over="ignore"):  # integers wrap
        rows = [(0, *result) for result in results if result is not None]
    out = new(len(rows), layout)
    named = [name for name in layout.names if layout[name].kind != "V"]
    for column, name in enumerate(named[1:], 1):
        out[name] = [row[column] for row in rows]
    return out


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
        layout = pipeline.before[-1].out if pipeline.before else pipeline.source.decoder
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
