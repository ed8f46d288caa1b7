"""A stage with a key: what Spark calls for each bucket of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter, itemgetter

import numpy as np
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tickproof.reference.api import Application
from tickproof.reference.api.arrays import numbered
from tickproof.reference.api.layouts import Layout
from tickproof.reference.compiler.buckets import bucket_of
from tickproof.reference.compiler.columns import (
    OUTPUT,
    PLACE,
    from_rows,
    in_spark,
    leaving,
    numbers_of_parts,
    of_state,
    places,
    stored_type,
    stored_types,
    to_buckets,
    to_records,
)
from tickproof.reference.compiler.steps import StepError, through
from tickproof.reference.connectors.wire import CHUNK_BYTES

_OUTPUT = Row(*OUTPUT.names)


class KeyedStage(StatefulProcessor):
    """Keeps each state of a bucket as one value: a list of its keys, and one of each field.

    It is read once and written once a micro-batch, since each is a round trip to the JVM.
    """

    def __init__(self, application: Application, stage: int, buckets: int) -> None:
        self._stages = [pipeline.stages[stage] for pipeline in application.pipelines]
        self._layouts = [pipeline.layout(stage) for pipeline in application.pipelines]
        self._states = {state.name: state.layout for state in application.states(stage)}
        self._key, self._next = [*application.keys, None][stage - 1 : stage + 1]
        self._type, self._buckets = self._layouts[0][self._key], buckets
        self._entering, self._leaving = (leaving(application, n) for n in (stage - 1, stage))
        key = self._key, self._type.str
        self._schemas = {name: in_spark(of_state(key, one)) for name, one in self._states.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the states."""
        self._values = {n: handle.getValueState(n, schema) for n, schema in self._schemas.items()}

    def handleInputRows(self, key: tuple, rows: Iterator[Row], timerValues) -> Iterator[Row]:
        """Return the outputs of one bucket."""
        before = {name: value.get() for name, value in self._values.items()}
        after, outputs = self.advance(before, rows)
        for name, state in after.items():
            self._values[name].update(state)
        return iter(outputs)

    def close(self) -> None:
        """Nothing is held open."""

    def advance(
        self, before: Mapping[str, tuple | None], rows: Iterable[Row]
    ) -> tuple[dict[str, tuple], list[Row]]:
        """Apply a micro-batch to one bucket: return its new states, and outputs with their places.

        The rows may come in any order; the answer depends on the micro-batch alone. No states
        if the bucket has no record, but outputs that were decided where they were read.
        """
        decided: list[Row] = []
        undecided: list[Row] = []
        for row in rows:
            (undecided if row.sink is None else decided).append(row)
        outputs = [_OUTPUT(*row[: len(OUTPUT)]) for row in decided]
        if not undecided:
            return {}, outputs
        tables = Tables(self._type, self._states, before)
        # By their place: to log order, pipeline by pipeline.
        undecided.sort(key=itemgetter(*range(len(PLACE))))
        for number, mine in groupby(undecided, attrgetter("pipeline")):
            outputs += self._outputs(number, list(mine), tables)
        return tables.stored(), outputs

    def _outputs(self, number: int, rows: list[Row], tables: Tables) -> Iterator[Row]:
        records = from_rows(rows, self._entering.names, self._layouts[number])
        keys = records[self._key]
        of_record = tables.rows(keys)
        try:
            for sink, made, origins in through(
                self._stages[number], records, tables.states, of_record
            ):
                if len(made):
                    yield from (
                        self._sent(sink.stream, made, rows)
                        if sink
                        else self._on(made, origins, rows)
                    )
        except StepError as error:
            raise StepError(0, f"key {keys[error.index]}: {error}") from error

    def _sent(self, stream: int, made: np.ndarray, rows: list[Row]) -> Iterator[Row]:
        """Return outputs for a sink, at the place of the first row."""
        *place, part = rows[0][: len(PLACE)]
        each = max(1, CHUNK_BYTES // made.itemsize)
        for n, at in enumerate(range(0, len(made), each)):
            records = made[at : at + each].tobytes()
            yield _OUTPUT(*place, part + n.to_bytes(4, "big"), stream, records)

    def _on(self, made: np.ndarray, origins: np.ndarray, rows: list[Row]) -> Iterator[Row]:
        """Return rows for the next key, if there is one: each is one record then."""
        if not self._next:
            return
        came = [rows[at][: len(PLACE)] for at in origins.tolist()]
        buckets = bucket_of(made[self._next], self._buckets).tolist()
        parts = numbers_of_parts(origins)
        place = places([
            (*before, bucket, part + n)
            for (*before, _, part), bucket, n in zip(came, buckets, parts, strict=True)
        ])  # fmt: skip
        starts = np.arange(len(made))
        batch = to_buckets(self._leaving, place, made, slice(None), starts)
        cells = (column.to_pylist() for column in batch.columns)
        yield from map(Row(*self._leaving.names), *cells)


class Tables:
    """The states of a bucket: of each State a row for each key, sorted by key."""

    def __init__(
        self, key: np.dtype, layouts: Mapping[str, Layout], before: Mapping[str, tuple | None]
    ) -> None:
        self.keys = np.empty(0, key)
        self.states = {name: np.empty(0, layout) for name, layout in layouts.items()}
        for name, value in before.items():
            if value is not None:
                keys, *fields = value
                self.keys = np.asarray(keys, stored_type(key)).astype(key)
                named = dict(zip(layouts[name].names, fields, strict=True))
                self.states[name] = to_records(named, layouts[name])

    def rows(self, keys: np.ndarray) -> np.ndarray:
        """Return the row of each key; a new key gets one of zeros."""
        distinct, ids = numbered(keys)
        distinct = distinct.astype(self.keys.dtype)
        if len(fresh := distinct[~np.isin(distinct, self.keys)]):
            keys = np.concatenate([self.keys, fresh])
            order = np.argsort(keys, kind="stable")
            self.keys = keys[order]
            for name, state in self.states.items():
                zeros = np.zeros(len(fresh), state.dtype)
                self.states[name] = np.concatenate([state, zeros])[order]
        return np.searchsorted(self.keys, distinct)[ids]

    def stored(self) -> dict[str, tuple]:
        """Return each state as Spark stores it."""
        keys = self.keys.astype(stored_type(self.keys.dtype)).tolist()
        return {name: (keys, *_lists(state)) for name, state in self.states.items()}


def _lists(state: np.ndarray) -> Iterator[list]:
    for name, type_ in stored_types(state.dtype).items():
        yield state[name].astype(type_).tolist()
