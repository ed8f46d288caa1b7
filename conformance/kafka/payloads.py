"""Records of the kit as messages of Kafka, and back: the payloads of section 8 of the protocol.

A message is one JSON object. Whole batches are turned at once; only a batch that holds something
else than what was agreed is looked at message by message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from tickproof.generators.layouts import (
    BUY,
    COUNT_IN,
    COUNT_OUT,
    MESSAGE,
    NUMBER,
    ORDER,
    QUOTE,
    QUOTE_KIND,
    VERDICT,
    framed,
    opaque,
)

_SYMBOL_BYTES: Final = 8
#: A message longer than this is not looked into.
_LONGEST: Final = 1 << 24


@dataclass(frozen=True)
class Messages:
    """Messages to produce: one key (None: no key) and one value for each record."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes]


@dataclass(frozen=True)
class Outputs:
    """Messages as records: ``payloads`` in their order, and what is none, byte for byte."""

    payloads: np.ndarray
    odd: tuple[bytes, ...]


def input_layout(app: str, size: int) -> np.dtype:
    """Return the layout of an input payload of ``size`` bytes."""
    layouts = {"double": NUMBER, "count": COUNT_IN, "market-spread": MESSAGE}
    return layouts.get(app) or opaque(size)


def messages(app: str, payloads: np.ndarray) -> Messages:
    """Return input records of an app (layouts, without their size) as messages."""
    return _ENCODERS[app](payloads)


def _numbers(payloads: np.ndarray) -> Messages:
    values = [b'{"x":%d}' % x for x in payloads["x"].tolist()]
    return Messages([None] * len(values), values)


def _count(payloads: np.ndarray) -> Messages:
    keys, values = payloads["key"].tolist(), payloads["value"].tolist()
    return Messages(
        [b"%d" % key for key in keys],
        [b'{"k":%d,"v":%d}' % pair for pair in zip(keys, values, strict=True)],
    )


def _data(payloads: np.ndarray) -> Messages:
    size, data = payloads.itemsize, payloads.tobytes().hex()
    step = 2 * size
    values = (
        [
            b'{"data":"%s"}' % data[at : at + step].encode()
            for at in range(0, step * len(payloads), step)
        ]
        if size
        else []
    )
    values = values or [b'{"data":""}'] * len(payloads)
    return Messages([None] * len(values), values)


_QUOTE: Final = (
    '{"kind":"quote","symbol":%s,"quote_id":%d,"event_ns":%d,"bid":%d,"offer":%d,'
    '"bid_size":%d,"offer_size":%d}'
)
_ORDER: Final = (
    '{"kind":"order","side":"%s","symbol":%s,"order_id":%d,"event_ns":%d,"price":%d,"qty":%d,'
    '"account":%d,"client_tag":%d}'
)


def _market(payloads: np.ndarray) -> Messages:
    whole = np.ascontiguousarray(payloads)
    quotes, orders = whole.view(QUOTE), whole.view(ORDER)
    is_quote = whole.view(MESSAGE)["kind"] == QUOTE_KIND
    names = [name.decode("ascii").rstrip(" ") for name in quotes["symbol"][is_quote].tolist()]
    ordered = [name.decode("ascii").rstrip(" ") for name in orders["symbol"][~is_quote].tolist()]
    said = {name: json.dumps(name) for name in {*names, *ordered}}
    values = np.empty(len(whole), object)
    keys = np.empty(len(whole), object)
    fields = ("quote_id", "event_ns", "bid", "offer", "bid_size", "offer_size")
    columns = [quotes[name][is_quote].tolist() for name in fields]
    values[is_quote] = [
        (_QUOTE % (said[name], *row)).encode() for name, *row in zip(names, *columns, strict=True)
    ]
    keys[is_quote] = [name.encode() for name in names]
    fields = ("order_id", "event_ns", "price", "qty", "account", "client_tag")
    columns = [orders[name][~is_quote].tolist() for name in fields]
    sides = ["buy" if side == BUY else "sell" for side in orders["side"][~is_quote].tolist()]
    values[~is_quote] = [
        (_ORDER % (side, said[name], *row)).encode()
        for side, name, *row in zip(sides, ordered, *columns, strict=True)
    ]
    keys[~is_quote] = [name.encode() for name in ordered]
    return Messages(keys.tolist(), values.tolist())


_ENCODERS: Final[dict[str, Callable[[np.ndarray], Messages]]] = {
    "passthrough": _data, "double": _numbers, "count": _count, "market-spread": _market,
}  # fmt: skip

#: app -> JSON member -> type, of its output.
_SCHEMAS: Final = {
    "passthrough": pa.schema([("data", pa.string())]),
    "double": pa.schema([("x", pa.int64())]),
    "count": pa.schema([("k", pa.uint64()), ("n", pa.uint64()), ("total", pa.int64())]),
    "market-spread": pa.schema(
        [("order_id", pa.uint64()), ("symbol", pa.string()), ("quote_id", pa.uint64()),
         ("bid", pa.int64()), ("offer", pa.int64()), ("verdict", pa.uint8())]
    ),
}  # fmt: skip
_NAMES: Final = {
    "double": {"x": "x"},
    "count": {"k": "key", "n": "n", "total": "total"},
    "market-spread": {name: name for name in _SCHEMAS["market-spread"].names},
}
_LAYOUTS: Final = {"double": NUMBER, "count": COUNT_OUT, "market-spread": VERDICT}


def outputs(app: str, size: int, values: Sequence[bytes | None]) -> Outputs:
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
    empty = np.empty(0, framed(_layout(app, size)))
    return Outputs(np.concatenate([empty, *good]), tuple(odd))


def _layout(app: str, size: int) -> np.dtype:
    return _LAYOUTS.get(app) or opaque(size)


def _together(app: str, size: int, values: list[bytes]) -> np.ndarray:
    """Return all messages as framed payloads; raises ValueError or ArrowException where one is odd.

    A line break inside of a message is white space there, and would end it here.
    """
    records = np.empty(len(values), framed(_layout(app, size)))
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
            explicit_schema=_SCHEMAS[app], unexpected_field_behavior="ignore"
        ),
    )
    if len(table) != len(values) or any(column.null_count for column in table.columns):
        raise ValueError("expected one JSON object a message, with each member")
    columns: dict[str, Any] = {name: table[name] for name in _SCHEMAS[app].names}
    if app == "passthrough":
        texts = columns["data"].to_pylist()
        data = bytes.fromhex("".join(texts))
        if any(len(text) != 2 * size for text in texts):
            raise ValueError("expected data of another size")
        records["payload"] = np.frombuffer(data, opaque(size)) if size else records["payload"]
        return records
    for member, field in _NAMES[app].items():
        column = columns[member]
        records["payload"][field] = (
            _symbols(column.to_pylist()) if member == "symbol" else column.to_numpy()
        )
    if app == "market-spread":
        records["payload"]["zero"] = 0
    return records


def _symbols(names: list[str]) -> np.ndarray:
    padded = [name.encode("ascii").ljust(_SYMBOL_BYTES) for name in names]
    if any(len(name) > _SYMBOL_BYTES for name in padded):
        raise ValueError("expected a symbol of at most 8 characters")
    return np.array(padded, f"S{_SYMBOL_BYTES}")
