"""The same application over files, in batch: the oracle of the streaming one.

Another path on purpose: one row a record, gathered by Spark by key and sorted by place. No
blocks, no buckets, no combine, no connector, no checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from tickproof.reference.api import Application
from tickproof.reference.api.layouts import Layout, fields
from tickproof.reference.compiler.steps import computed, finished, stepped

ROW_SCHEMA = "pipeline int, path string, place long, key long, record binary"


def run(
    spark: SparkSession, application: Application, files: Mapping[int, list[Path]]
) -> DataFrame:
    """Return the outputs, a column for each field (u64 as long); files: by stream, framed."""
    frames = [
        spark.read.format("binaryFile")
        .load([str(path) for path in files[pipeline.source.stream]])
        .mapInPandas(_records(application, number), ROW_SCHEMA)
        for number, pipeline in enumerate(application.pipelines)
    ]
    records = reduce(DataFrame.union, frames)
    layout = application.sink.encoder
    if layout is None:
        return records.select("record")
    schema = ", ".join(f"{name} long" for name in fields(layout))
    if application.state is None:
        return records.mapInPandas(
            lambda rows: (_columns(_joined(r, layout)) for r in rows), schema
        )
    return records.groupBy("key").applyInPandas(_of_one_key(application), schema)


def _records(application: Application, number: int):
    """Return what takes files apart into records, the computations before the state done."""
    pipeline = application.pipelines[number]

    def apart(files: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for path, content in (
            (p, c) for f in files for p, c in zip(f.path, f.content, strict=True)
        ):
            size = 4 + int.from_bytes(content[:4], "little")
            records = np.frombuffer(content, pipeline.source.decoder or f"V{size}")
            for step in pipeline.before:
                records = computed(step, records)
            key = records[pipeline.stateful.key].view("<i8") if pipeline.stateful else 0
            yield pd.DataFrame({
                "pipeline": number, "path": path, "place": np.arange(len(records)), "key": key,
                "record": [record.tobytes() for record in records],
            })  # fmt: skip

    return apart


def _of_one_key(application: Application):
    """Return the life of one key: its records in order, one at a time."""

    def live(rows: pd.DataFrame) -> pd.DataFrame:
        states = np.zeros(1, application.state.layout)
        outputs = np.zeros(0, application.sink.encoder)
        for number, mine in rows.groupby("pipeline"):
            pipeline = application.pipelines[number]
            layout = pipeline.before_state
            records = _joined(mine.sort_values(["path", "place"]), layout)
            made = stepped(pipeline.stateful, records, np.zeros(len(records), int), states)
            if pipeline.target:
                outputs = np.concatenate([outputs, finished(pipeline, made)])
        return _columns(outputs)

    return live


def _joined(rows: pd.DataFrame, layout: Layout) -> np.ndarray:
    return np.frombuffer(b"".join(rows.record), layout)


def _columns(records: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({n: records[n].astype("<i8") for n in fields(records.dtype)})
