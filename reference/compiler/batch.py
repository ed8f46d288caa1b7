"""The same application over files, in batch: the oracle of the streaming one.

Another path on purpose: all input at once, key by key in one table of states. No Spark that
gathers, no micro-batches, no places, no columns, no buckets, nothing compiled or decided ahead,
no connector, no checkpoint.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tickproof.reference.api import Application, Sink, Source, StateComputation
from tickproof.reference.compiler.columns import columns, to_columns
from tickproof.reference.compiler.steps import decoded, stepped
from tickproof.reference.connectors.wire import Chunk


def run(
    spark: SparkSession, application: Application, files: Mapping[int, list[Path]], stream: int = 0
) -> DataFrame:
    """Return what output ``stream`` gets; files: of each input stream, framed records."""
    sources = [pipeline.source for pipeline in application.pipelines]
    inputs = {source.stream: records(source, files[source.stream]) for source in sources}
    return frame(spark, outputs(application, inputs)[stream])


def records(source: Source, paths: Sequence[Path]) -> list[np.ndarray]:
    """Return what a source takes of its partitions; what it refuses becomes no dead letter.

    RecordError as in a stream; ValueError for a file that is not records of one size.
    """
    found = []
    with tempfile.TemporaryDirectory() as letters:
        if source.dead_letters:
            source = replace(source, dead_letters=letters)
        for partition, path in enumerate(paths):
            data = path.read_bytes()
            size = 4 + int.from_bytes(data[:4], "little")
            sizes = np.ndarray(len(data) // size, "<u4", data, strides=(size,))
            if len(data) % size or (sizes != size - 4).any():
                raise ValueError(f"{path}: expected records, all of {size - 4} bytes")
            if data or source.decoder:
                found.append(decoded(source, partition, Chunk(0, len(sizes), data))[0])
    return found or [np.empty(0, "V4")]


def frame(spark: SparkSession, records: np.ndarray) -> DataFrame:
    """Return records as a DataFrame with a column for each field (u64 as long)."""
    if records.dtype.names is None:
        return spark.createDataFrame(pa.table({"record": records.tolist()}))
    return spark.createDataFrame(pa.table(to_columns(records), columns(records.dtype)))


def outputs(
    application: Application, inputs: Mapping[int, Sequence[np.ndarray]]
) -> dict[int, np.ndarray]:
    """Return the records of each output stream; inputs: of each stream its partitions.

    Partitions are taken one after the other, as if each had been read to its end.
    """
    sunk: dict[int, list[np.ndarray]] = {sink.stream: [] for sink in application.sinks}
    flows = [np.concatenate(inputs[p.source.stream]) for p in application.pipelines]
    for stage, key in enumerate([None, *application.keys]):
        keys = [np.zeros(len(flow)) if key is None else flow[key] for flow in flows]
        distinct, rows = np.unique(np.concatenate(keys), return_inverse=True)
        tables = {s.name: np.zeros(len(distinct), s.layout) for s in application.states(stage)}
        ends = np.cumsum([len(flow) for flow in flows])
        for number, mine in enumerate(np.split(rows, ends[:-1])):
            for step in application.pipelines[number].stages[stage].steps:
                if isinstance(step, Sink):
                    sunk[step.stream].append(flows[number])
                    continue
                keyed: tuple[np.ndarray, ...] = ()
                if isinstance(step, StateComputation):
                    keyed = mine, tables[step.state.name]
                flows[number], at = stepped(step, flows[number], *keyed, compiling=False)
                mine = mine[at]
    return {stream: np.concatenate(records) for stream, records in sunk.items()}
