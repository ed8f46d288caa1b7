"""Messages of Kafka as records of the kit: the payloads of section 8 of the protocol.

A message is one JSON object. Whole batches are parsed at once; only a batch that holds something
else than what was agreed is parsed message by message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from tickproof.conformance.apps.app import App
from tickproof.generators.layouts import framed

#: A message longer than this is not looked into.
_LONGEST: Final = 1 << 24


@dataclass(frozen=True)
class Outputs:
    """Messages as records: ``payloads`` in their order, and what is none, byte for byte."""

    payloads: np.ndarray
    odd: tuple[bytes, ...]


def outputs(app: App, size: int, values: Sequence[bytes | None]) -> Outputs:
    """Return messages of the output topic as payloads of ``size`` bytes, framed.

    ``payloads`` is a structured array of layouts.framed; what is not of the agreed shape is
    returned apart, shortened to what the recorder may keep.
    """
    whole = [value or b"" for value in values]
    try:
        return Outputs(_together(app, size, whole), ())
    except (pa.ArrowException, ValueError, OverflowError):
        pass
    good: list[np.ndarray] = []
    odd: list[bytes] = []
    for value in whole:
        try:
            good.append(_together(app, size, [value]))
        except (pa.ArrowException, ValueError, OverflowError):
            odd.append(value[:_LONGEST])
    empty = np.empty(0, framed(app.output_layout(size)))
    return Outputs(np.concatenate([empty, *good]), tuple(odd))


def _together(app: App, size: int, values: list[bytes]) -> np.ndarray:
    """Return all messages as framed payloads; raises ValueError or ArrowException where one is odd.

    A line break inside of a message is white space there, and would end it here.
    """
    records = np.empty(len(values), framed(app.output_layout(size)))
    records["size"] = size
    if not values:
        return records
    if any(not value.startswith(b"{") or len(value) > _LONGEST for value in values):
        raise ValueError("expected one JSON object a message")
    lines = b"\n".join(value.replace(b"\n", b" ") for value in values)
    table = arrow_json.read_json(
        pa.BufferReader(lines),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=_schema(app), unexpected_field_behavior="ignore"
        ),
    )
    if len(table) != len(values) or any(column.null_count for column in table.columns):
        raise ValueError("expected one JSON object a message, with each member")
    columns = {
        member: table[member].to_pylist() if kind == "string" else _numbers(table[member], kind)
        for member, (kind, _) in app.members.items()
    }
    app.fill(records["payload"], columns)
    return records


def _numbers(column: pa.ChunkedArray, kind: str) -> np.ndarray:
    """Return a column without nulls. pyarrow's own way imports pandas: seconds, at first output."""
    parts = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * np.dtype(kind).itemsize)
        for chunk in column.chunks
    ]
    return np.concatenate(parts)


def _schema(app: App) -> pa.Schema:
    kinds = app.members.items()
    return pa.schema([(member, pa.type_for_alias(kind)) for member, (kind, _) in kinds])
