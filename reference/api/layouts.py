"""Fixed layouts: many records as one numpy array, no copy and no loop."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, TypeAlias, get_origin, get_type_hints

import numpy as np

#: A record as it lies in the log: its ``u32 size`` first, then the payload.
Layout: TypeAlias = np.dtype
NO_FIELD = "|-"


class BadRecord(ValueError):
    """A record that a decoder refuses; ``index`` is its place in the array."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index


def framed(*fields: tuple[str, str]) -> Layout:
    """Return the layout of a record with these payload fields, ``("", "V3")`` for padding."""
    return np.dtype([("size", "<u4"), *fields])


def fields_of(declared: type) -> np.dtype:
    """Return the fields of a class: types of numpy, and ``Annotated[bytes, 8]`` for a text."""
    hints = get_type_hints(declared, include_extras=True).items()
    return np.dtype(
        [
            (name, f"S{hint.__metadata__[0]}" if get_origin(hint) is Annotated else hint)
            for name, hint in hints
        ]
    )


def layout_of(declared: type) -> Layout:
    """Return the layout of a record with the fields of a class."""
    return np.dtype([("size", "<u4"), *fields_of(declared).descr])


def new(count: int, layout: Layout) -> np.ndarray:
    """Return ``count`` records of zeros, sizes set where the layout has them."""
    records = np.zeros(count, layout)
    if "size" in layout.names:
        records["size"] = layout.itemsize - 4
    return records


def fields(layout: Layout) -> list[str]:
    """Return the named fields of a record, its size and padding left out."""
    return [name for name in layout.names if name != "size" and layout[name].kind != "V"]


def kind(layout: Layout | None, name: str) -> str:
    """Return the type of a field, ``<u8`` say; NO_FIELD where there is none."""
    return layout[name].str if layout is not None and name in fields(layout) else NO_FIELD


def cast(name: str, type_: np.dtype, values: Sequence) -> np.ndarray:
    """Return values as a field's type; numpy's integers wrap. ValueError says what does not fit."""
    if None in values:
        raise ValueError(f"{name}: expected {type_}, got None")
    if type_.kind in "iu":
        for value in values:
            # numpy would cut it off; a u64 and an i64 make one, too.
            if isinstance(value, float | np.floating):
                raise ValueError(f"{name}: expected {type_}, got the float {value}")
    try:
        array = np.array(values, type_)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected {type_}, got {error}") from error
    # numpy cuts off what is too long.
    if type_.kind == "S" and (longest := max(map(len, values), default=0)) > type_.itemsize:
        raise ValueError(f"{name}: expected at most {type_.itemsize} bytes, got {longest}")
    return array


def one_by_one(records: np.ndarray) -> Iterator[tuple]:
    """Return records as named tuples of their fields, numpy's scalars: integers wrap."""
    names = fields(records.dtype)
    return map(_record(*names), *(records[name] for name in names))


@cache
def _record(*names: str) -> type[tuple]:
    return namedtuple("Record", names)


def view(data: bytes, layout: Layout) -> np.ndarray:
    """View framed records, all of one size, as an array; raises BadRecord for another size."""
    size = int.from_bytes(data[:4], "little")
    if data and size != layout.itemsize - 4:
        raise BadRecord(0, f"expected a payload of {layout.itemsize - 4} bytes, got {size}")
    return np.frombuffer(data, layout)
