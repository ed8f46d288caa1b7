"""Plays an application without Spark: batches, chunks and buckets as a test asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import strategies as st

from tickproof.reference.api import Application
from tickproof.reference.api.layouts import fields
from tickproof.reference.blocks.blocks import Block, Reading, advanced, table_of
from tickproof.reference.connectors.wire import Chunk

#: The records of each (stream, partition), in log order.
Input = dict[tuple[int, int], np.ndarray]


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


def play(application: Application, records: Input, split: Split) -> Played:
    """Run all batches: read and compute, shuffle by bucket, advance each bucket."""
    played, random = Played(), Random(split.seed)
    tables: dict[int, bytes] = {}
    for ranges in split.ranges(records):
        blocks = list(_read(application, records, ranges, split))
        random.shuffle(blocks)  # a shuffle keeps no order
        if not application.keys:
            outputs = [np.frombuffer(b.records, application.sinks[0].encoder) for b in blocks]
        else:
            outputs = []
            for bucket in sorted({block.bucket for block in blocks}):
                table = table_of(application, tables.get(bucket))
                mine = [block for block in blocks if block.bucket == bucket]
                table, done = advanced(application, table, mine)
                tables[bucket] = table.tobytes()
                outputs += [rows for _, rows in done]
        played.batches.append([row for rows in outputs for row in plain(rows)])
    rows = [table_of(application, table) for table in tables.values()]
    played.state = sorted(row for table in rows for row in table.tolist())
    return played


def _read(application: Application, records: Input, ranges, split: Split) -> Iterator[Block]:
    for number, pipeline in enumerate(application.pipelines):
        reading = Reading(application, number, split.buckets, not split.apart)
        for (stream, partition), start, end in ranges:
            if stream != pipeline.source.stream:
                continue
            data = records[stream, partition][start:end].tobytes()
            for block in reading.blocks(partition, [Chunk(start, end - start, data)]):
                if split.apart:
                    chunk = Chunk(block.base, block.count, block.records)
                    yield from reading.work(block.partition, chunk)
                else:
                    yield block


def plain(rows: np.ndarray) -> list[tuple]:
    """Return records as tuples of their named fields; checks size and padding."""
    named = fields(rows.dtype)
    again = np.zeros(len(rows), rows.dtype)
    again["size"] = rows.dtype.itemsize - 4
    for name in named:
        again[name] = rows[name]
    assert again.tobytes() == rows.tobytes(), "a wrong size, or padding that is not zero"
    return list(zip(*(rows[name].tolist() for name in named), strict=True))
