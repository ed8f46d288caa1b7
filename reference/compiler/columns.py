"""Records as typed columns: a layout of bytes as a schema, and one turned into the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from tickproof.reference.api import Application, PipelineError, Sink
from tickproof.reference.api.layouts import Layout, fields, new

#: Where in the log a row comes from; ``part`` tells apart the rows that one record became.
#: These columns come first and are unique together, so that the order of rows as tuples is
#: log order: pipeline by pipeline, partition by partition.
PLACE = pa.schema(
    [("pipeline", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64()),
     ("part", pa.binary())]
)  # fmt: skip
#: A row for a sink: the number of its stream, and the record as it will lie in the log.
OUTPUT = pa.schema([*PLACE, ("sink", pa.int32()), ("record", pa.binary())])
#: The same for all rows of a task in one table: its records may be more than 2 GiB.
_SORTED = OUTPUT.set(OUTPUT.get_field_index("record"), pa.field("record", pa.large_binary()))
#: By numpy's kind and size. Spark's integers are signed: an unsigned one gets the next type
#: that holds it, and u64 a bigint that holds its 64 bits.
_TYPES = {
    "i1": pa.int8(), "i2": pa.int16(), "i4": pa.int32(), "i8": pa.int64(),
    "u1": pa.int16(), "u2": pa.int32(), "u4": pa.int64(), "u8": pa.int64(),
    "f4": pa.float32(), "f8": pa.float64(),
}  # fmt: skip
_IN_SPARK = {
    pa.int8(): T.ByteType(), pa.int16(): T.ShortType(), pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(), pa.float32(): T.FloatType(), pa.float64(): T.DoubleType(),
    pa.binary(): T.BinaryType(),
}  # fmt: skip


@cache
def columns(layout: Layout) -> pa.Schema:
    """Return a column for each named field, size and padding left out; text is binary.

    PipelineError for a field that no column can hold, or that is named like a column of PLACE.
    """
    types = {name: layout[name].str[1:] for name in fields(layout)}
    for name, kind in types.items():
        if name in PLACE.names or (kind not in _TYPES and kind[0] != "S"):
            taken = "/".join(PLACE.names)
            raise PipelineError(
                f"field {name} of {layout[name]}: expected a number or text not named {taken}"
            )
    return pa.schema([(name, _TYPES.get(kind, pa.binary())) for name, kind in types.items()])


def leaving(application: Application, stage: int) -> pa.Schema:
    """Return the columns of the rows that leave a stage: OUTPUT behind the last.

    Before that a place and the fields of all pipelines, null where a pipeline lacks one.
    """
    if stage == len(application.keys):
        return OUTPUT
    layouts = [pipeline.layout(stage + 1) for pipeline in application.pipelines]
    try:
        return pa.unify_schemas([PLACE, *map(columns, layouts)])
    except pa.ArrowException as error:
        raise PipelineError(f"{application.name}: two pipelines, one field: {error}") from error


def in_spark(schema: pa.Schema) -> T.StructType:
    """Return the same columns as Spark writes them."""
    return T.StructType([T.StructField(f.name, _IN_SPARK[f.type]) for f in schema])


@cache
def stored_types(layout: Layout) -> dict[str, type]:
    """Return for each field the type of numpy that its column has."""
    return {field.name: field.type.to_pandas_dtype() for field in columns(layout)}


def to_columns(records: np.ndarray) -> dict[str, list]:
    """Return the named fields of records, each as a list of what its column holds."""
    types = stored_types(records.dtype)
    return {name: records[name].astype(type_).tolist() for name, type_ in types.items()}


def to_records(values: Mapping[str, Sequence], layout: Layout) -> np.ndarray:
    """Return records from columns; those that the layout does not name are left out."""
    types = stored_types(layout)
    records = new(len(values[next(iter(types))]), layout)
    for name, type_ in types.items():
        records[name] = np.asarray(values[name], type_)
    return records


def to_rows(
    schema: pa.Schema,
    places: Sequence[Sequence],
    passed: Iterable[tuple[Sink | None, np.ndarray, list[int]]],
) -> Iterator[list[Sequence]]:
    """Yield rows that leave a stage, as columns.

    places: the columns of PLACE of what entered it. passed: what `through` yields.
    """
    for sink, records, origins in passed:
        *place, parts = ([column[at] for at in origins] for column in places)
        number = [n for _, same in groupby(origins) for n, _ in enumerate(same)]
        parts = [part + n.to_bytes(4, "big") for part, n in zip(parts, number, strict=True)]
        if sink:
            whole = records.view(f"V{records.dtype.itemsize}").tolist()
            yield [*place, parts, [sink.stream] * len(origins), whole]
        elif schema != OUTPUT:
            values, nothing = to_columns(records), [None] * len(origins)
            more = (values.get(name, nothing) for name in schema.names[len(PLACE) :])
            yield [*place, parts, *more]


def in_log_order(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[memoryview]]]:
    """Return for each sink the records of a task: the same for every order of arrival."""
    table = pa.Table.from_batches(batches, OUTPUT).cast(_SORTED)
    table = table.sort_by([(name, "ascending") for name in ("sink", *PLACE.names)])
    for stream in pc.unique(table["sink"]).to_pylist():
        records = table.filter(pc.field("sink") == stream)["record"]
        yield stream, (memoryview(record.as_buffer()) for record in records)
