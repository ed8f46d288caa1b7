"""A stage with a key: what Spark calls for each key of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter, itemgetter

import numpy as np
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tickproof.reference.api import Application
from tickproof.reference.api.layouts import Layout
from tickproof.reference.compiler.columns import (
    OUTPUT,
    PLACE,
    columns,
    from_rows,
    in_spark,
    leaving,
    numbers_of_parts,
    places,
    stored_types,
    to_key,
    to_records,
)
from tickproof.reference.compiler.steps import KeyState, StepError, through
from tickproof.reference.connectors.wire import CHUNK_BYTES

_OUTPUT = Row(*OUTPUT.names)


class KeyedStage(StatefulProcessor):
    """Keeps each state of a key as one value, with a column for each field of the State.

    It is read once and written once a micro-batch, since each is a round trip to the JVM.
    """

    def __init__(self, application: Application, stage: int) -> None:
        self._stages = [pipeline.stages[stage] for pipeline in application.pipelines]
        self._layouts = [pipeline.layout(stage) for pipeline in application.pipelines]
        self._states = {state.name: state.layout for state in application.states(stage)}
        self._key, self._next = [*application.keys, None][stage - 1 : stage + 1]
        self._entering, self._leaving = (leaving(application, n) for n in (stage - 1, stage))
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
        for name, state in after.items():
            self._values[name].update(state)
        return iter(outputs)

    def close(self) -> None:
        """Nothing is held open."""

    def advance(
        self, before: Mapping[str, tuple | None], rows: Iterable[Row]
    ) -> tuple[dict[str, tuple], list[Row]]:
        """Apply a micro-batch to one key: return its new states, and outputs with their places.

        The rows may come in any order; the answer depends on the micro-batch alone. No states
        if the key has no record, but outputs that were decided where they were read.
        """
        decided: list[Row] = []
        undecided: list[Row] = []
        for row in rows:
            (undecided if row.sink is None else decided).append(row)
        outputs = [_OUTPUT(*row[: len(OUTPUT)]) for row in decided]
        if not undecided:
            return {}, outputs
        states = {name: loaded(self._states[name], kept) for name, kept in before.items()}
        # By their place: to log order, pipeline by pipeline.
        undecided.sort(key=itemgetter(*range(len(PLACE))))
        for number, mine in groupby(undecided, attrgetter("pipeline")):
            outputs += self._outputs(number, list(mine), states)
        return {name: stored(state) for name, state in states.items()}, outputs

    def _outputs(self, number: int, rows: list[Row], states: Mapping) -> Iterator[Row]:
        records = from_rows(rows, self._entering.names, self._key, self._layouts[number])
        for sink, made, origins in through(self._stages[number], records, states):
            if not len(made):
                continue
            if sink:
                *place, part = rows[0][: len(PLACE)]
                each = max(1, CHUNK_BYTES // made.itemsize)
                for n, at in enumerate(range(0, len(made), each)):
                    records = made[at : at + each].tobytes()
                    yield _OUTPUT(*place, part + n.to_bytes(4, "big"), sink.stream, records)
            elif self._next:
                # Of an application with several keys a row is one record.
                came = [rows[at][: len(PLACE)] for at in origins.tolist()]
                parted = zip(came, numbers_of_parts(origins), strict=True)
                place = places([(*before, part + n) for (*before, part), n in parted])
                starts = np.arange(len(made))
                batch = to_key(self._leaving, self._next, place, made, slice(None), starts)
                cells = (column.to_pylist() for column in batch.columns)
                yield from map(Row(*self._leaving.names), *cells)


def loaded(layout: Layout, stored: tuple | None) -> KeyState:
    """Return the state of a key that Spark has stored; of zeros if there is none."""
    if stored is None:
        return KeyState(np.zeros(1, layout))
    values = {name: [value] for name, value in zip(layout.names, stored, strict=True)}
    return KeyState(to_records(values, layout))


def stored(state: KeyState) -> tuple:
    """Return the fields of a state as Spark stores them."""
    # By its class: a field may have the name of the method.
    table = KeyState.table(state)
    return tuple(
        table[name].astype(type_).item() for name, type_ in stored_types(table.dtype).items()
    )
