"""Queries of the reference, from their start to the moment a test waits for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.reference.served import Served
from tickproof.reference.api import Application, State
from tickproof.reference.blocks import streaming as blocks
from tickproof.reference.compiler import batch

DEADLINE_S = 180
#: How long a log that is gone is asked again.
PERSIST_S = "5"


class Running(NamedTuple):
    """A query on a log."""

    query: StreamingQuery
    served: Served

    def until(self, ends: dict[str, int]) -> None:
        """Wait until these offsets are released; the query's failure ends the wait."""
        deadline = time.monotonic() + DEADLINE_S
        while any(self.served.released[name] < end for name, end in ends.items()):
            assert not self.query.awaitTermination(0.05), "the query was stopped"
            assert time.monotonic() < deadline, f"{self.served.released}, expected {ends}"

    def failure(self) -> str:
        """Wait for the failure of the query; return its text."""
        with suppress(StreamingQueryException):
            assert self.query.awaitTermination(DEADLINE_S), "the query goes on"
        found = self.query.exception()
        assert found is not None, "the query ended well"
        return str(found)


@contextmanager
def running(
    spark: SparkSession, application: Application, served: Served, checkpoint: Path | str,
    form=blocks, **options,
) -> Iterator[Running]:  # fmt: skip
    """Run a query that a form's ``start`` compiles, and stop it in the end."""
    log = {**served.options, "persist_s": PERSIST_S}
    query = form.start(spark, application, log, served.counts, str(checkpoint), **options)
    try:
        yield Running(query, served)
    finally:
        query.stop()


def recorded(
    spark: SparkSession, application: Application, served: Served, stream: int = 0
) -> DataFrame:
    """Return what the log recorded of an output stream, with the columns of the batch oracle."""
    (layout,) = (sink.encoder for sink in application.sinks if sink.stream == stream)
    layout = layout or np.dtype(f"V{4 + served.inputs[0].record_size}")
    return batch.frame(spark, served.outputs(layout, stream))


def with_state(application: Application, state: State) -> Application:
    """Return an application of one pipeline, with another state behind its key."""
    (pipeline,) = application.pipelines
    first, keyed = pipeline.stages
    step, *rest = keyed.steps
    stages = first, replace(keyed, steps=(replace(step, state=state), *rest))
    return replace(application, pipelines=[replace(pipeline, stages=stages)])
