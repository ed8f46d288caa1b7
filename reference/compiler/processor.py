"""The step with state: what Spark calls for each key of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import numpy as np
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tickproof.reference.api import Application, Pipeline
from tickproof.reference.api.layouts import one_by_one
from tickproof.reference.compiler.columns import (
    PLACE,
    columns,
    in_spark,
    row,
    to_columns,
    to_records,
)
from tickproof.reference.compiler.steps import StepError, packed


class KeyedState(StatefulProcessor):
    """Applies the function of the step to each record of a key, in log order.

    The state of a key is one value, a column for each field of the State. It is read once and
    written once a micro-batch: each is a round trip to the JVM.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._layout = application.state.layout
        self._output = Row(*row(application.sink.encoder).names)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        schema = in_spark(columns(self._layout))
        self._state = handle.getValueState(self._application.state.name, schema)

    def handleInputRows(self, key: tuple, rows: Iterator[Row], timerValues) -> Iterator[Row]:
        """Return the outputs of one key, each with the place of the record that it answers."""
        names = columns(self._layout).names
        before = self._state.get() or [0] * len(names)
        state = to_records({n: [v] for n, v in zip(names, before, strict=True)}, self._layout)
        outputs: list[Row] = []
        # Spark promises no order within a key. Rows begin with their place: sorted, they are in
        # log order, pipeline by pipeline.
        for number, mine in groupby(sorted(rows), attrgetter("pipeline")):
            pipeline = self._application.pipelines[number]
            try:
                outputs += self._advance(pipeline, list(mine), state)
            except StepError as error:
                raise StepError(f"pipeline {pipeline.name}, key {key[0]}: {error}") from error
        self._state.update(tuple(column[0] for column in to_columns(state)))
        return iter(outputs)

    def _advance(self, pipeline: Pipeline, rows: list[Row], state: np.ndarray) -> Iterator[Row]:
        values = dict(zip(rows[0].__fields__, zip(*rows, strict=True), strict=True))
        records = to_records(values, pipeline.before_state)
        step, current = pipeline.stateful, state.view(np.recarray)[0]
        points = (step.function(record, current) for record in one_by_one(records))
        outputs, answered = packed(step.name, step.out or records.dtype, points)
        for after in pipeline.after:
            results = map(after.function, one_by_one(outputs))
            outputs, kept = packed(after.name, after.out, results)
            answered = [answered[at] for at in kept]
        if pipeline.target is None or not answered:
            return iter(())
        places = ([values[name][at] for at in answered] for name in PLACE.names)
        fields = (column.tolist() for column in to_columns(outputs))
        return map(self._output, *places, *fields)

    def close(self) -> None:
        """Nothing is held open."""
