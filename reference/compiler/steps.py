"""The work of a stage as pure functions over records; no Spark.

A chunk of the log is decoded, and the function of a step is applied to each of its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from tickproof.reference.api import Sink, Source, StateComputation, Timer
from tickproof.reference.api.arrays import numbered, taken
from tickproof.reference.api.layouts import BadRecord, Layout, cast, fields, new, one_by_one, view
from tickproof.reference.api.words import Result, Stage, Step
from tickproof.reference.compiler.loops import loop_of
from tickproof.reference.connectors.wire import Chunk


class RecordError(ValueError):
    """A record that cannot be processed; says stream, partition and offset."""


class StepError(BadRecord):
    """A result that the step's layout cannot hold; says step, field and what was expected."""


def decoded(source: Source, partition: int, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    """View a chunk through the decoder: return (records, the offset of each).

    RecordError says which record is wrong and how. With a folder for dead letters the wrong
    record goes there and the others go on.
    """
    offsets = np.arange(chunk.base, chunk.base + chunk.count)
    if source.decoder is None:
        return np.frombuffer(chunk.records, f"V{len(chunk.records) // chunk.count}"), offsets
    try:
        records = view(chunk.records, source.decoder)
    except BadRecord as error:
        _refuse(source, partition, chunk.base, chunk.records, error)
        return new(0, source.decoder), offsets[:0]
    return checked(source, partition, records, offsets)


def checked(
    source: Source, partition: int, records: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the records that make sense, and the offset of each; the others as in `decoded`."""
    while source.check:
        try:
            source.check(records)
            break
        except BadRecord as error:
            at = error.index
            _refuse(source, partition, int(offsets[at]), records[at].tobytes(), error)
            records, offsets = np.delete(records, at), np.delete(offsets, at)
    return records, offsets


def refused(source: Source, partition: int, offset: int, error: BadRecord) -> RecordError:
    """Return the same error with the place of its record."""
    return RecordError(f"stream {source.stream}, partition {partition}, offset {offset}: {error}")


def _refuse(source: Source, partition: int, offset: int, data: bytes, error: BadRecord) -> None:
    if source.dead_letters is None:
        raise refused(source, partition, offset, error) from error
    # Named by its offset: a replay writes the same file again.
    folder = Path(source.dead_letters)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{source.stream}-{partition}-{offset}.bin").write_bytes(data)


def through(
    stage: Stage,
    records: np.ndarray,
    states: Mapping[str, np.ndarray] = {},
    rows: np.ndarray | None = None,
) -> Iterator[tuple[Sink | None, np.ndarray, np.ndarray]]:
    """Take records through a stage. Record i has the state ``states[NAME][rows[i]]``.

    Yield what its sinks get, and at last what goes on to the next stage, for which the sink is
    None: (sink, records, for each the index of the record that it was made of).
    """
    origins = np.arange(len(records))
    for step in stage.steps:
        if isinstance(step, Sink):
            yield step, records, origins
            continue
        keyed: tuple[np.ndarray, ...] = ()
        if isinstance(step, StateComputation):
            assert rows is not None
            keyed = rows[origins], states[step.state.name]
        try:
            records, at = stepped(step, records, *keyed)
        except StepError as error:
            error.index = int(origins[error.index])
            raise
        origins = origins[at]
    yield None, records, origins


def stepped(
    step: Step, records: np.ndarray, *keyed: np.ndarray, compiling: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Apply a step to records of many keys; keyed: rows and states, of a step with state.

    The state of record i is ``states[rows[i]]``. Return the outputs as records, and for each the
    index of its record. compiling: where it can be done, and there are many records.
    """
    made = None
    if compiling and (loop := loop_of(step, records)):
        # What goes wrong there goes wrong in Python, too, which tells where and why.
        with suppress(Exception):
            made = loop(records, *keyed)
    made, at = made or _in_python(step, records, *keyed)
    if isinstance(step, StateComputation) and step.only_last:
        rows, newest = keyed[0][at], np.zeros(len(keyed[1]), int)
        newest[rows] = np.arange(len(rows))  # numpy keeps the last value of a row
        last = np.unique(newest[rows])
        made, at = made[last], at[last]
    return made, at


def _in_python(
    step: Step, records: np.ndarray, *keyed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if not keyed:
        return applied(step, records)
    rows, states = keyed
    by_row = {row: KeyState(states[row : row + 1]) for row in np.unique(rows).tolist()}
    made = applied(step, records, map(by_row.__getitem__, rows.tolist()))
    for row, state in by_row.items():
        # By its class: a field may have the name of the method.
        states[row] = KeyState.table(state)[0]
    return made


def ahead(step: StateComputation, key: str, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decide what follows a record that replaces the state of its key: (the rest, outputs).

    The rest alone has the same effect on the state, and makes the other outputs.
    """
    assert step.replaces
    distinct, rows = numbered(records[key])
    replacing = np.flatnonzero(step.replaces(records))
    first, last = np.full(len(distinct), len(records)), np.full(len(distinct), -1)
    first[rows[replacing[::-1]]] = replacing[::-1]
    last[rows[replacing]] = replacing
    at = np.arange(len(records))
    known = at >= first[rows]
    decided, rest = np.flatnonzero(known), np.flatnonzero(~known | (at == last[rows]))
    local = np.zeros(len(distinct), step.state.layout)
    outputs, _ = stepped(step, taken(records, decided), rows[decided], local)
    return taken(records, rest), outputs


class KeyState:
    """The state of one key as a function on one record sees it: its fields can be assigned.

    What is assigned is cast to the field's type at once, so that it is the same whether the
    next record comes in this micro-batch or in another.
    """

    _layout: Layout

    def __init__(self, table: np.ndarray) -> None:
        """Take the fields from a table of one row."""
        values = {name: table[name][0] for name in table.dtype.names}
        vars(self).update(values, _layout=table.dtype)

    def table(self) -> np.ndarray:
        """Return the fields as a table of one row."""
        state = np.zeros(1, self._layout)
        for name in self._layout.names:
            state[name] = vars(self)[name]
        return state

    def __setattr__(self, name: str, value: object) -> None:
        """Raise KeyError for a field that the state does not have."""
        type_ = self._layout[name]
        if type(value) is not type_.type or type_.kind == "S":
            value = cast(name, type_, [value])[0]
        vars(self)[name] = value


def applied(step: Step, records: np.ndarray, *states: Iterable) -> tuple[np.ndarray, np.ndarray]:
    """Apply a function on one record to each; states: that of each record, if there is one.

    Return the outputs as records, and for each the index of its record. Integers wrap.
    StepError for a result that does not fit the layout.
    """
    function: Callable[..., Result] = step.function
    if isinstance(step, StateComputation) and step.timer:
        function = partial(_timed, step.function, step.timer)
    given: list[tuple[int, tuple]] = []
    with np.errstate(over="ignore"):
        for at, arguments in enumerate(zip(one_by_one(records), *states, strict=False)):
            try:
                given += [(at, one) for one in _several(function(*arguments))]
            except ValueError as error:
                raise StepError(at, f"{step.name}: {error}") from error
    layout = step.out or records.dtype
    try:
        return _packed(layout, [one for _, one in given]), np.array([at for at, _ in given], int)
    except ValueError:
        for at, one in given:
            try:
                _packed(layout, [one])
            except ValueError as error:
                raise StepError(at, f"{step.name}: {error}") from error
        raise


def _several(result: Result) -> Iterable[tuple]:
    if result is None:
        return ()
    return (result,) if isinstance(result, tuple) else result


def _timed(function: Callable[..., Result], timer: Timer, record, state) -> Iterator[tuple]:
    """Give what the timer gives if it is due, and then what the record gives."""
    now = getattr(record, timer.time)
    if (due := getattr(state, timer.due)) and due <= now:
        yield from _several(timer.function(record, state))
        setattr(state, timer.due, 0)
    yield from _several(function(record, state))
    if (due := getattr(state, timer.due)) and not due > now:
        raise ValueError(f"expected a timer later than {now}, got {due}")


def _packed(layout: Layout, results: list[tuple]) -> np.ndarray:
    names = fields(layout)
    for result in results:
        if not isinstance(result, tuple) or len(result) != len(names):
            raise ValueError(f"expected {', '.join(names)}, got {result!r}")
    records = new(len(results), layout)
    for name, values in zip(names, zip(*results, strict=True), strict=False):
        records[name] = cast(name, layout[name], values)
    return records
