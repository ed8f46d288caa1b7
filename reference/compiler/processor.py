"""A stage with a key: what Spark calls for each key of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter

import numpy as np
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tickproof.reference.api import Application
from tickproof.reference.api.layouts import Layout, cast
from tickproof.reference.compiler.columns import (
    PLACE,
    columns,
    in_spark,
    leaving,
    to_columns,
    to_records,
    to_rows,
)
from tickproof.reference.compiler.steps import StepError, through


class KeyedStage(StatefulProcessor):
    """Keeps each state of a key as one value, with a column for each field of the State.

    It is read once and written once a micro-batch, since each is a round trip to the JVM.
    """

    def __init__(self, application: Application, stage: int) -> None:
        self._stages = [pipeline.stages[stage] for pipeline in application.pipelines]
        self._layouts = [pipeline.layout(stage) for pipeline in application.pipelines]
        self._states = {state.name: state.layout for state in application.states(stage)}
        self._leaving = leaving(application, stage)
        self._schemas = {n: in_spark(columns(layout)) for n, layout in self._states.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the states."""
        self._values = {n: handle.getValueState(n, schema) for n, schema in self._schemas.items()}

    def handleInputRows(self, key: tuple, rows: Iterator[Row], timerValues) -> Iterator[Row]:
        """Return the outputs of one key."""
        try:
            before = {name: value.get() for name, value in self._values.items()}
            after, outputs = self.advance(before, rows)
        except ValueError as error:
            raise StepError(0, f"key {key[0]}: {error}") from error
        for name, value in self._values.items():
            value.update(after[name])
        return iter(outputs)

    def close(self) -> None:
        """Nothing is held open."""

    def advance(
        self, before: Mapping[str, tuple | None], rows: Iterable[Row]
    ) -> tuple[dict[str, tuple], list[Row]]:
        """Apply a micro-batch to one key: return its new states, and outputs with their places.

        The rows may come in any order; the answer depends on the micro-batch alone.
        """
        states = {name: KeyState(self._states[name], stored) for name, stored in before.items()}
        outputs: list[Row] = []
        # Rows begin with their place. So as tuples they sort to log order, pipeline by pipeline.
        for number, mine in groupby(sorted(rows), attrgetter("pipeline")):
            outputs += self._outputs(number, list(mine), states)
        # By its class: a field may have the name of the method.
        return {name: KeyState.stored(state) for name, state in states.items()}, outputs

    def _outputs(self, number: int, rows: list[Row], states: Mapping) -> Iterator[Row]:
        values = dict(zip(rows[0].asDict(), zip(*rows, strict=True), strict=True))
        records = to_records(values, self._layouts[number])
        places = [values[name] for name in PLACE.names]
        passed = through(self._stages[number], records, states)
        for made in to_rows(self._leaving, places, passed):
            yield from map(Row(*self._leaving.names), *made)


class KeyState:
    """The state of one key as a function on one record sees it: its fields can be assigned.

    What is assigned is cast to the field's type at once, so that it is the same whether the
    next record comes in this micro-batch or in another.
    """

    _layout: Layout

    def __init__(self, layout: Layout, stored: tuple | None) -> None:
        if stored is None:
            state = np.zeros(1, layout)
        else:
            pairs = zip(layout.names, stored, strict=True)
            state = to_records({name: [value] for name, value in pairs}, layout)
        vars(self).update(_layout=layout, **{name: state[name][0] for name in layout.names})

    def __setattr__(self, name: str, value: object) -> None:
        """Raise KeyError for a field that the state does not have."""
        type_ = self._layout[name]
        if type(value) is not type_.type or type_.kind == "S":
            value = cast(name, type_, [value])[0]
        vars(self)[name] = value

    def stored(self) -> tuple:
        """Return the fields as Spark stores them."""
        state = np.zeros(1, self._layout)
        for name in self._layout.names:
            state[name] = vars(self)[name]
        return tuple(column[0] for column in to_columns(state).values())
