"""The step with state: what Spark calls for each key of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tickproof.reference.api import Application, Pipeline
from tickproof.reference.api.layouts import Layout, one_by_one
from tickproof.reference.compiler.columns import (
    PLACE,
    columns,
    in_spark,
    row,
    stored_types,
    to_columns,
    to_records,
)
from tickproof.reference.compiler.steps import StepError, packed


class KeyedState(StatefulProcessor):
    """Keeps the state of a key as one value, with a column for each field of the State.

    It is read once and written once a micro-batch, since each is a round trip to the JVM.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        state = self._application.state
        self._value = handle.getValueState(state.name, in_spark(columns(state.layout)))

    def handleInputRows(self, key: tuple, rows: Iterator[Row], timerValues) -> Iterator[Row]:
        """Return the outputs of one key."""
        try:
            after, outputs = advanced(self._application, self._value.get(), rows)
        except StepError as error:
            raise StepError(f"key {key[0]}: {error}") from error
        self._value.update(after)
        return iter(outputs)

    def close(self) -> None:
        """Nothing is held open."""


def advanced(
    application: Application, before: tuple | None, rows: Iterable[Row]
) -> tuple[tuple, list[Row]]:
    """Apply a micro-batch to one key: return its new state, and outputs with their places.

    The rows may come in any order; the answer depends on the micro-batch alone.
    """
    state = KeyState(application.state.layout, before)
    outputs: list[Row] = []
    # Rows begin with their place. So as tuples they sort to log order, pipeline by pipeline.
    for number, mine in groupby(sorted(rows), attrgetter("pipeline")):
        outputs += _outputs(application.pipelines[number], list(mine), state)
    return state.stored(), outputs


class KeyState:
    """The state of one key as a function on one record sees it: its fields can be assigned.

    What is assigned is cast to the field's type at once, so that it is the same whether the
    next record comes in this micro-batch or in another.
    """

    _layout: Layout

    def __init__(self, layout: Layout, stored: tuple | None) -> None:
        columns = stored_types(layout)
        values = stored or [0] * len(columns)
        pairs = zip(columns.items(), values, strict=True)
        vars(self)["_layout"] = layout
        vars(self).update({n: column(v).astype(layout[n]) for (n, column), v in pairs})

    def __setattr__(self, name: str, value: object) -> None:
        """Raise KeyError for a field that the state does not have."""
        vars(self)[name] = self._layout[name].type(value)

    def stored(self) -> tuple:
        """Return the fields as Spark stores them."""
        columns = stored_types(self._layout)
        return tuple(vars(self)[name].astype(column).item() for name, column in columns.items())


def _outputs(pipeline: Pipeline, rows: list[Row], state: KeyState) -> Iterator[Row]:
    """Apply the step with state, and those after it, to each record; ``state`` changes."""
    values = dict(zip(rows[0].__fields__, zip(*rows, strict=True), strict=True))
    step = pipeline.stateful
    records = to_records(values, pipeline.before_state)
    points = (step.function(record, state) for record in one_by_one(records))
    outputs, answered = packed(step.name, step.out or records.dtype, points)
    for after in pipeline.after:
        results = map(after.function, one_by_one(outputs))
        outputs, kept = packed(after.name, after.out, results)
        answered = [answered[at] for at in kept]
    if pipeline.target is None:
        return iter(())
    places = ([values[name][at] for at in answered] for name in PLACE.names)
    fields = (column.tolist() for column in to_columns(outputs))
    return map(Row(*row(outputs.dtype).names), *places, *fields)
