"""The work of a pipeline as pure functions over records; no Spark.

Both forms use them: a chunk of the log is decoded, and the function of a step is applied to
each of its records, or to all of them where it is written on arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tickproof.reference.api import Computation, Pipeline, Source, StateComputation
from tickproof.reference.api.layouts import BadRecord, Layout, fields, new, one_by_one, view
from tickproof.reference.connectors.wire import Chunk


class RecordError(ValueError):
    """A record that cannot be processed; says stream, partition and offset."""


class StepError(ValueError):
    """A result that the step's layout cannot hold; says step, field and what was expected."""


def decoded(source: Source, partition: int, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    """View a chunk through the decoder: return (records, the offset of each).

    RecordError says which record is wrong and how. With a folder for dead letters the wrong
    record goes there and the others go on.
    """
    offsets = np.arange(chunk.base, chunk.base + chunk.count)
    try:
        records = view(chunk.records, source.decoder)
    except BadRecord as error:
        if source.dead_letters is None:
            raise _refused(source, partition, chunk.base, error) from error
        _bury(source, partition, chunk.base, chunk.records)
        return new(0, source.decoder), offsets[:0]
    while source.check:
        try:
            source.check(records)
            break
        except BadRecord as error:
            index = error.index
            if source.dead_letters is None:
                raise _refused(source, partition, int(offsets[index]), error) from error
            _bury(source, partition, int(offsets[index]), records[index].tobytes())
            records, offsets = np.delete(records, index), np.delete(offsets, index)
    return records, offsets


def _refused(source: Source, partition: int, offset: int, error: BadRecord) -> RecordError:
    return RecordError(f"stream {source.stream}, partition {partition}, offset {offset}: {error}")


def _bury(source: Source, partition: int, offset: int, data: bytes) -> None:
    # Named by its offset: a replay writes the same file again.
    folder = Path(source.dead_letters)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{source.stream}-{partition}-{offset}.bin").write_bytes(data)


def computed(step: Computation, records: np.ndarray) -> np.ndarray:
    """Apply a stateless computation."""
    if getattr(step.function, "on_arrays", False):
        return step.function(records)
    return packed(step.name, step.out, map(step.function, one_by_one(records)))[0]


def finished(pipeline: Pipeline, outputs: np.ndarray) -> np.ndarray:
    """Apply what comes after the state."""
    for step in pipeline.after:
        outputs = computed(step, outputs)
    return outputs


def stepped(step: StateComputation, records: np.ndarray, rows: np.ndarray, states: np.ndarray):
    """Apply a computation with state; ``states`` changes in place, the outputs come back."""
    if getattr(step.function, "on_arrays", False):
        return step.function(records, rows, states)
    pairs = zip(one_by_one(records), rows, strict=True)
    table = states.view(np.recarray)
    results = (step.function(record, table[row]) for record, row in pairs)
    return packed(step.name, step.out or records.dtype, results)[0]


def packed(
    name: str, layout: Layout, results: Iterable[tuple | None]
) -> tuple[np.ndarray, list[int]]:
    """Return what a function gave for each record as records, and which records gave one.

    Integers wrap. StepError for a result that does not fit the layout.
    """
    with np.errstate(over="ignore"):
        given = [(at, result) for at, result in enumerate(results) if result is not None]
    names = fields(layout)
    out = new(len(given), layout)
    for _, result in given:
        if not isinstance(result, tuple) or len(result) != len(names):
            raise StepError(f"{name}: expected {', '.join(names)}, got {result!r}")
    for column, field in enumerate(names):
        values = [result[column] for _, result in given]
        try:
            out[field] = values
        except (TypeError, ValueError, OverflowError) as error:
            wrong = "None" if None in values else str(error)
            raise StepError(f"{name}: {field}: expected {layout[field]}, got {wrong}") from error
    return out, [at for at, _ in given]
