"""Records as typed columns: a layout of bytes as a schema, and one turned into the other.

A row holds records of one bucket, a share of the key space: each field is a list of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from tickproof.reference.api import Application, PipelineError, Sink
from tickproof.reference.api.layouts import Layout, fields, new

#: Where in the log a row comes from. Of an application with one key, a row holds what a chunk has
#: of a bucket, and ``offset`` is that of the chunk. With more keys a row holds one record, and
#: ``part`` tells apart the rows that one record of the log became. These columns come first and
#: are unique among rows, so that their order is log order, pipeline by pipeline.
PLACE = pa.schema(
    [("pipeline", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64()),
     ("bucket", pa.int32()), ("part", pa.binary())]
)  # fmt: skip
#: A row for a sink: the number of its stream, and records as they will lie in the log.
OUTPUT = pa.schema([*PLACE, ("sink", pa.int32()), ("records", pa.binary())])
#: How many records a row holds. No field has this name: a layout begins with it.
SIZE = pa.field("size", pa.int32())
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
    pa.binary(): T.BinaryType(), pa.string(): T.StringType(),
}  # fmt: skip


@cache
def columns(layout: Layout) -> pa.Schema:
    """Return a column for each named field, size and padding left out; text is binary.

    PipelineError for a field that no column can hold, or that is named like a column of OUTPUT.
    """
    types = {name: layout[name].str[1:] for name in fields(layout)}
    for name, kind in types.items():
        if name in OUTPUT.names or (kind not in _TYPES and kind[0] != "S"):
            taken = "/".join(OUTPUT.names)
            raise PipelineError(
                f"field {name} of {layout[name]}: expected a number or text not named {taken}"
            )
    return pa.schema([(name, _TYPES.get(kind, pa.binary())) for name, kind in types.items()])


def leaving(application: Application, stage: int) -> pa.Schema:
    """Return the columns of the rows that leave a stage: OUTPUT behind the last.

    Before that also the fields of all pipelines, null where a pipeline lacks one. A row has
    records of a key, or outputs that were decided before they came to the stage of the key.
    """
    if stage == len(application.keys):
        return OUTPUT
    layouts = [pipeline.layout(stage + 1) for pipeline in application.pipelines]
    try:
        named = pa.unify_schemas([*map(columns, layouts)])
    except pa.ArrowException as error:
        raise PipelineError(f"{application.name}: two pipelines, one field: {error}") from error
    return pa.schema([*OUTPUT, SIZE, *(pa.field(f.name, _list(f.type)) for f in named)])


def of_state(key: tuple[str, str], layout: Layout) -> pa.Schema:
    """Return the columns of a bucket's state: its keys, and each field of the state, as lists."""
    if key[0] in layout.names:
        raise PipelineError(f"{layout}: expected fields of a state, none named {key[0]} as the key")
    named = columns(np.dtype([key, *layout.descr]))
    return pa.schema([(f.name, _list(f.type)) for f in named])


def _list(type_: pa.DataType) -> pa.ListType:
    """Return a list as Spark's Arrow has it."""
    return pa.list_(pa.field("element", type_, nullable=False))


def in_spark(schema: pa.Schema) -> T.StructType:
    """Return the same columns as Spark writes them."""
    return T.StructType([T.StructField(f.name, _spark_type(f.type)) for f in schema])


def _spark_type(type_: pa.DataType) -> T.DataType:
    if pa.types.is_list(type_):
        return T.ArrayType(_IN_SPARK[type_.value_type], containsNull=False)
    return _IN_SPARK[type_]


def stored_type(field: np.dtype) -> type:
    """Return the type of numpy that the column of a field has."""
    return _TYPES.get(field.str[1:], pa.binary()).to_pandas_dtype()


@cache
def stored_types(layout: Layout) -> dict[str, type]:
    """Return for each field the type of numpy that its column has."""
    return {field.name: field.type.to_pandas_dtype() for field in columns(layout)}


def to_columns(records: np.ndarray, order: np.ndarray | slice = slice(None)) -> dict[str, pa.Array]:
    """Return the named fields of records, taken in an order, each as its column."""
    named = columns(records.dtype)
    return {f.name: _array(records[f.name][order], f.type) for f in named}


def _array(values: np.ndarray, type_: pa.DataType) -> pa.Array:
    if values.dtype.kind == "S":
        return pa.array(values.tolist(), type_)
    return pa.array(values.astype(type_.to_pandas_dtype()))


def to_records(values: Mapping[str, Sequence], layout: Layout) -> np.ndarray:
    """Return records from columns; those that the layout does not name are left out."""
    types = stored_types(layout)
    records = new(len(values[next(iter(types))]), layout)
    for name, type_ in types.items():
        records[name] = np.asarray(values[name], type_)
    return records


def to_buckets(
    schema: pa.Schema,
    place: Sequence[pa.Array],
    records: np.ndarray,
    order: np.ndarray | slice,
    starts: np.ndarray,
) -> pa.RecordBatch:
    """Return rows of records, taken in an order; a row ends where the next one starts.

    place: the columns of PLACE. The records of a row have one bucket.
    """
    ends = np.append(starts, len(records)).astype("<i4")
    rows = dict(zip(PLACE.names, place, strict=True), size=pa.array(np.diff(ends)))
    for name, values in to_columns(records, order).items():
        rows[name] = pa.ListArray.from_arrays(ends, values, _list(values.type))
    return _batch(schema, rows)


def from_rows(rows: Sequence[tuple], names: Sequence[str], layout: Layout) -> np.ndarray:
    """Return the records of rows, one row after the other."""
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    values = {name: list(chain.from_iterable(cells[name])) for name in fields(layout)}
    return to_records(values, layout)


def places(rows: Sequence[tuple]) -> list[pa.Array]:
    """Return the columns of PLACE."""
    return [
        pa.array(cells, f.type) for cells, f in zip(zip(*rows, strict=True), PLACE, strict=True)
    ]


def to_sink(
    schema: pa.Schema, place: Sequence[pa.Array], sink: Sink, records: np.ndarray
) -> pa.RecordBatch:
    """Return records for a sink as one row, which does not copy them."""
    rows = dict(zip(PLACE.names, place, strict=True), records=cell(records))
    rows["sink"] = pa.array([sink.stream], pa.int32())
    return _batch(schema, rows)


def cell(records: np.ndarray) -> pa.Array:
    """Return the bytes of records as one value; not a copy, if they lie one behind the other."""
    data = pa.py_buffer(np.ascontiguousarray(records).view("u1"))
    ends = pa.py_buffer(np.array([0, data.size], "<i4"))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])


def _batch(schema: pa.Schema, rows: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return rows with null for each column that they lack."""
    count = len(rows["part"])
    arrays = [rows[f.name] if f.name in rows else pa.nulls(count, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def numbers_of_parts(origins: np.ndarray) -> list[bytes]:
    """Return for each row its number among those of the same origin, as bytes that sort alike."""
    numbers = np.arange(len(origins)) - np.searchsorted(origins, origins)
    return [number.to_bytes(4, "big") for number in numbers.tolist()]


def in_log_order(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[memoryview]]]:
    """Return for each sink the records of a task: the same for every order of arrival."""
    table = pa.Table.from_batches(batches, OUTPUT)
    # By the records last: what was decided where it was read may have the place of a row.
    keys = [(name, "ascending") for name in ("sink", *PLACE.names, "records")]
    order = pc.sort_indices(table, keys).to_pylist()
    sinks, records = table["sink"].to_pylist(), table["records"]
    for stream, mine in groupby(order, sinks.__getitem__):
        yield stream, (memoryview(records[at].as_buffer()) for at in list(mine))
