"""Plays an application in the form of rows without Spark: as `playing` does it with blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from random import Random

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from tests.reference.playing import Input, Played, Split, plain
from tickproof.reference.api import Application
from tickproof.reference.compiler.columns import OUTPUT, columns, in_log_order, to_records
from tickproof.reference.compiler.processor import KeyedStage
from tickproof.reference.compiler.streaming import rows_of
from tickproof.reference.connectors.wire import Chunk

#: The stored states of each stage and key.
States = dict[tuple[int, object], dict[str, tuple]]


def play_rows(
    application: Application, records: Input, split: Split, shuffle: int = 0, combine: bool = True
) -> Played:
    """Run all batches: read and compute, shuffle by key, advance each key, order the outputs.

    shuffle: a seed for the order in which rows arrive. What is played is of the one sink, and
    the states of the one stage with a key.
    """
    (sink,) = application.sinks
    played, states = Played(), {}
    for made in batches(application, records, split, states, shuffle, combine):
        played.batches.append(plain(made[sink.stream]))
    stored = [(key, values) for (_, key), of_one in states.items() for values in of_one.items()]
    for key, (name, values) in stored:
        (layout,) = (state.layout for state in application.states(1) if state.name == name)
        named = {n: [v] for n, v in zip(columns(layout).names, values, strict=True)}
        state = to_records(named, layout)[0].item()
        played.state.append((key % 2**64 if isinstance(key, int) else key, *state))
    played.state.sort()
    return played


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
        rows = list(_read(application, records, ranges, combine))
        for stage, name in enumerate(application.keys, 1):
            random.shuffle(rows)  # a shuffle keeps no order
            processor, made = KeyedStage(application, stage), []
            for key in {row[name] for row in rows}:
                fresh = dict.fromkeys(state.name for state in application.states(stage))
                mine = [row for row in rows if row[name] == key]
                before = fresh | states.get((stage, key), {})
                after, outputs = processor.advance(before, mine)
                states.setdefault((stage, key), {}).update(after)
                made += outputs
            rows = made
        random.shuffle(rows)
        made = pa.RecordBatch.from_pylist([row.asDict() for row in rows], OUTPUT)
        found = {stream: b"".join(framed) for stream, framed in in_log_order([made])}
        yield {
            sink.stream: np.frombuffer(found.get(sink.stream, b""), sink.encoder)
            for sink in application.sinks
        }


def _read(application: Application, records: Input, ranges, combine: bool) -> Iterator[Row]:
    for number, pipeline in enumerate(application.pipelines):
        for (stream, partition), cuts in groupby(ranges, itemgetter(0)):
            if stream != pipeline.source.stream:
                continue
            mine = records[stream, partition]
            chunks = [Chunk(a, b - a, mine[a:b].tobytes()) for _, a, b in cuts if a < b]
            for batch in rows_of(application, number, partition, chunks, combine):
                yield from (Row(*row)(*row.values()) for row in batch.to_pylist())
