"""Plays an application without Spark: batches, chunks and buckets as a test asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import Row

from tickproof.reference.api import Application
from tickproof.reference.api.layouts import fields
from tickproof.reference.compiler import loops
from tickproof.reference.compiler.columns import OUTPUT, in_log_order
from tickproof.reference.compiler.processor import KeyedStage, Tables
from tickproof.reference.compiler.streaming import apart, as_they_are, rows_of
from tickproof.reference.connectors.wire import Chunk

#: The records of each (stream, partition), in log order.
Input = dict[tuple[int, int], np.ndarray]
#: The stored states of each stage and bucket.
States = dict[tuple[int, int], dict[str, tuple]]


@dataclass(frozen=True)
class Split:
    """How an input is cut: into batches, chunks (about so many a partition), and buckets.

    One seed, one split. ``apart``: computed after the read, as with coalesce off.
    """

    seed: int
    batches: int = 1
    chunks: int = 1
    buckets: int = 1
    apart: bool = False

    def ranges(self, records: Input) -> Iterator[list[tuple[tuple[int, int], int, int]]]:
        """Yield for each batch its chunks: (address, start, end); some may get nothing."""
        random = Random(self.seed)
        batches = [[] for _ in range(self.batches)]
        for address, rows in sorted(records.items()):
            cuts = [random.randint(0, len(rows)) for _ in range(self.batches - 1)]
            ends = sorted([0, len(rows), *cuts])
            borders = {random.randint(0, len(rows)) for _ in range(self.chunks - 1)}
            for batch, start, end in zip(batches, ends, ends[1:], strict=False):
                inner = sorted({start, end} | {b for b in borders if start < b < end})
                batch += [(address, a, b) for a, b in pairwise(inner)]
        yield from batches


@dataclass
class Played:
    """What came out: of each batch its outputs, and in the end the state, sorted by key."""

    batches: list[list[tuple]] = field(default_factory=list)
    state: list[tuple] = field(default_factory=list)

    @property
    def outputs(self) -> list[tuple]:
        """The outputs of all batches."""
        return [output for batch in self.batches for output in batch]


splits = st.builds(
    Split,
    seed=st.integers(0, 2**32),
    batches=st.integers(1, 4),
    chunks=st.integers(1, 6),
    buckets=st.sampled_from([1, 2, 3, 8, 200]),
    apart=st.booleans(),
)


@contextmanager
def compiling(at_once: bool) -> Iterator[None]:
    """Compile functions before their first record, or never."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "FEW", -1 if at_once else sys.maxsize)
        yield


def play(
    application: Application, records: Input, split: Split, shuffle: int = 0, combine: bool = True
) -> Played:
    """Run all batches: read and compute, shuffle by bucket, advance each bucket.

    shuffle: a seed for the order in which rows arrive. What is played is of the one sink, and
    the states of the one stage with a key.
    """
    (sink,) = application.sinks
    played, states = Played(), {}
    for made in batches(application, records, split, states, shuffle, combine):
        played.batches.append(plain(made[sink.stream]))
    if application.keys:
        played.state = sorted(kept(application, 1, states))
    return played


def kept(application: Application, stage: int, states: States) -> list[tuple]:
    """Return of each key behind a stage what is stored: the key and the fields of its states."""
    layouts = {state.name: state.layout for state in application.states(stage)}
    key = application.pipelines[0].layout(stage)[application.keys[stage - 1]]
    rows = []
    for (number, _), values in states.items():
        if number == stage:
            tables = Tables(key, layouts, values)
            tables_ = [table.tolist() for table in tables.states.values()]
            rows += [
                (key_, *(x for one in states_ for x in one))
                for key_, *states_ in zip(tables.keys.tolist(), *tables_, strict=True)
            ]
    return rows


def batches(
    application: Application,
    records: Input,
    split: Split,
    states: States,
    shuffle: int = 0,
    combine: bool = True,
) -> Iterator[dict[int, np.ndarray]]:
    """Run all batches; yield what each gives to each sink's stream. States are left behind."""
    random = Random(shuffle)
    for ranges in split.ranges(records):
        rows = list(_read(application, records, ranges, split, combine))
        for stage in range(1, len(application.keys) + 1):
            random.shuffle(rows)  # a shuffle keeps no order
            processor, made = KeyedStage(application, stage, split.buckets), []
            for bucket in {row.bucket for row in rows}:
                fresh = dict.fromkeys(state.name for state in application.states(stage))
                mine = [row for row in rows if row.bucket == bucket]
                before = fresh | states.get((stage, bucket), {})
                after, outputs = processor.advance(before, mine)
                states.setdefault((stage, bucket), {}).update(after)
                made += outputs
            rows = made
        random.shuffle(rows)
        made = pa.RecordBatch.from_pylist([row.asDict() for row in rows], OUTPUT)
        found = {stream: b"".join(framed) for stream, framed in in_log_order([made])}
        yield {
            sink.stream: np.frombuffer(found.get(sink.stream, b""), sink.encoder)
            for sink in application.sinks
        }


def _read(
    application: Application, records: Input, ranges, split: Split, combine: bool
) -> Iterator[Row]:
    options = {"buckets": split.buckets, "combine": combine}
    for number, pipeline in enumerate(application.pipelines):
        reading = partial(rows_of, application, number, **options)
        for (stream, partition), cuts in groupby(ranges, itemgetter(0)):
            if stream != pipeline.source.stream:
                continue
            mine = records[stream, partition]
            chunks = [Chunk(a, b - a, mine[a:b].tobytes()) for _, a, b in cuts if a < b]
            if split.apart:
                made = apart(reading, as_they_are(partition, chunks))
            else:
                made = reading(partition, chunks)
            yield from rows_in(made)


def rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Return rows as Spark gives them to a stage."""
    for batch in batches:
        yield from (Row(*row)(*row.values()) for row in batch.to_pylist())


def plain(rows: np.ndarray) -> list[tuple]:
    """Return records as tuples of their named fields; checks size and padding."""
    named = fields(rows.dtype)
    again = np.zeros(len(rows), rows.dtype)
    again["size"] = rows.dtype.itemsize - 4
    for name in named:
        again[name] = rows[name]
    assert again.tobytes() == rows.tobytes(), "a wrong size, or padding that is not zero"
    return list(zip(*(rows[name].tolist() for name in named), strict=True))
