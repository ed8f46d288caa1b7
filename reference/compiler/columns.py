"""Records as typed columns: a layout of bytes as a schema, and one turned into the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tickproof.reference.api import PipelineError
from tickproof.reference.api.layouts import Layout, fields, new

#: Where in the log a row comes from. These columns come first and are unique together, so
#: that the order of rows as tuples is log order: pipeline by pipeline, partition by partition.
PLACE = pa.schema([("pipeline", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64())])
#: The one column of a record without a layout: all of it, as it lies in the log.
RAW = pa.schema([("record", pa.binary())])
#: By numpy's kind and size. Spark's integers are signed: an unsigned one gets the next type
#: that holds it, and u64 a bigint that holds its 64 bits.
_TYPES = {
    "i1": pa.int8(), "i2": pa.int16(), "i4": pa.int32(), "i8": pa.int64(),
    "u1": pa.int16(), "u2": pa.int32(), "u4": pa.int64(), "u8": pa.int64(),
    "f4": pa.float32(), "f8": pa.float64(),
}  # fmt: skip


@cache
def columns(layout: Layout | None) -> pa.Schema:
    """Return a column for each named field, size and padding left out.

    PipelineError for a field that no column can hold, or that is named like a column of PLACE.
    """
    if layout is None:
        return RAW
    names = fields(layout)
    for name in names:
        if name in PLACE.names or layout[name].str[1:] not in _TYPES:
            taken = "/".join(PLACE.names)
            raise PipelineError(
                f"field {name} of {layout[name]}: expected a number not named {taken}"
            )
    return pa.schema([(name, _TYPES[layout[name].str[1:]]) for name in names])


@cache
def row(layout: Layout | None) -> pa.Schema:
    """Return the columns of a row: its place, then its fields."""
    return pa.schema([*PLACE, *columns(layout)])


@cache
def stored_types(layout: Layout) -> dict[str, type]:
    """Return for each field the type of numpy that its column has."""
    return {field.name: field.type.to_pandas_dtype() for field in columns(layout)}


def in_spark(schema: pa.Schema) -> StructType:
    """Return the same columns as Spark writes them."""
    return from_arrow_schema(schema)


def to_columns(records: np.ndarray) -> list[np.ndarray]:
    """Return the named fields of records, each as an array of its column's type."""
    types = stored_types(records.dtype)
    return [records[name].astype(type_) for name, type_ in types.items()]


def to_records(values: Mapping[str, Sequence | np.ndarray], layout: Layout) -> np.ndarray:
    """Return records from columns; those that the layout does not name are left out."""
    types = stored_types(layout)
    records = new(len(values[next(iter(types))]), layout)
    for name, type_ in types.items():
        records[name] = np.asarray(values[name], type_)
    return records


def to_batch(places: Sequence, columns: Sequence, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows; ``places``: the columns of PLACE, an item for each record."""
    arrays = map(pa.array, [*places, *columns], schema.types)
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def in_log_order(batches: Iterable[pa.RecordBatch], layout: Layout | None) -> Iterator[memoryview]:
    """Return the rows of a task as framed records: the same for every order of arrival."""
    table = pa.Table.from_batches(batches, row(layout))
    table = table.sort_by([(name, "ascending") for name in PLACE.names])
    if layout is None:
        yield from (memoryview(value.as_buffer()) for value in table.column("record"))
    else:
        values = {name: table.column(name).to_numpy() for name in columns(layout).names}
        yield memoryview(to_records(values, layout).tobytes())
