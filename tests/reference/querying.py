"""Queries of the reference, from their start to the moment a test waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.reference.served import Served
from tickproof.reference.api import Application, State
from tickproof.reference.compiler import batch, streaming

DEADLINE_S = 180
#: How long a log that is gone is asked again.
PERSIST_S = "5"


@dataclass
class Running:
    """A query on a log."""

    query: StreamingQuery
    served: Served
    start: Callable[[], StreamingQuery]

    def until(self, ends: dict[str, int]) -> None:
        """Wait until these offsets are released; the query's failure ends the wait."""
        self.wait(lambda: all(self.served.released[name] >= end for name, end in ends.items()))

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; the query's failure ends the wait."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert not self._ended(0.05), "the query was stopped"
            assert time.monotonic() < deadline, f"released: {self.served.released}"

    def failure(self) -> str:
        """Wait for the failure of the query; return its text."""
        deadline = time.monotonic() + DEADLINE_S
        try:
            while not self._ended(1):
                assert time.monotonic() < deadline, "the query goes on"
        except StreamingQueryException as error:
            return str(error)
        raise AssertionError("the query ended well")

    def _ended(self, seconds: float) -> bool:
        """Tell whether the query ends well within ``seconds``.

        Spark gives its Python worker 10 seconds to start, which a busy machine may not: then the
        query starts again.
        """
        try:
            return self.query.awaitTermination(seconds)
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
        self.query = self.start()
        return False


@contextmanager
def running(
    spark: SparkSession, application: Application, served: Served, checkpoint: Path | str, **options
) -> Iterator[Running]:
    """Run a query, and stop it in the end."""
    log = {**served.options, "persist_s": PERSIST_S}

    def start() -> StreamingQuery:
        return streaming.start(spark, application, log, served.counts, str(checkpoint), **options)

    run = Running(start(), served, start)
    try:
        yield run
    finally:
        run.query.stop()


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
