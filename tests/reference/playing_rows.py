"""Plays an application in the form of rows without Spark: as `playing` does it with blocks."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from tests.reference.playing import Input, Played, Split, plain
from tickproof.reference.api import Application
from tickproof.reference.compiler.columns import columns, in_log_order, row, to_records
from tickproof.reference.compiler.processor import advanced
from tickproof.reference.compiler.streaming import computations, rows_of
from tickproof.reference.connectors.wire import Chunk


def play_rows(application: Application, records: Input, split: Split, shuffle: int = 0) -> Played:
    """Run all batches: read and compute, shuffle by key, advance each key, order the outputs.

    shuffle: a seed for the order in which rows arrive.
    """
    played, random = Played(), Random(shuffle)
    layout = application.sink.encoder
    states: dict[int, tuple] = {}
    for ranges in split.ranges(records):
        rows = list(_read(application, records, ranges))
        random.shuffle(rows)  # a shuffle keeps no order
        if application.state:
            outputs = []
            for key in {row[application.key] for row in rows}:
                mine = [row for row in rows if row[application.key] == key]
                states[key], done = advanced(application, states.get(key), mine)
                outputs += [output.asDict() for output in done]
            random.shuffle(outputs)
        else:
            outputs = [row.asDict() for row in rows]
        made = pa.RecordBatch.from_pylist(outputs, row(layout))
        data = b"".join(in_log_order([made], layout))
        played.batches.append(plain(np.frombuffer(data, layout)))
    if application.state:
        keys = np.array(list(states), "<i8").astype("<u8").tolist()
        played.state = sorted(zip(keys, map(_state(application), states.values()), strict=True))
        played.state = [(key, *state) for key, state in played.state]
    return played


def _state(application: Application):
    layout = application.state.layout
    names = columns(layout).names

    def unpacked(values: tuple) -> tuple:
        records = to_records({n: [v] for n, v in zip(names, values, strict=True)}, layout)
        return records[0].item()

    return unpacked


def _read(application: Application, records: Input, ranges) -> Iterator[Row]:
    names = list(dict.fromkeys(n for p in application.pipelines for n in row(p.before_state).names))
    for number, pipeline in enumerate(application.pipelines):
        for (stream, partition), start, end in ranges:
            if stream != pipeline.source.stream:
                continue
            data = records[stream, partition][start:end].tobytes()
            batches = rows_of(number, pipeline, partition, [Chunk(start, end - start, data)])
            if pipeline.before:
                batches = computations(pipeline)(batches)
            for batch in batches:
                yield from (Row(*names)(*map(r.get, names)) for r in batch.to_pylist())
