"""Record layouts of the four apps, as packed little-endian numpy dtypes.

They are the "Apps" section of docs/protocol.md in code. ``framed`` adds the u32
size that precedes each payload on the wire and in every log file of a run, so a
partition file is one array of framed records.
"""

from __future__ import annotations

from typing import Final

import numpy as np

QUOTE_KIND: Final = 2
ORDER_KIND: Final = 1
BUY: Final = 1
SELL: Final = 2

#: app ``double``: one signed integer.
NUMBER: Final = np.dtype([("x", "<i8")])

#: app ``count``, input and output.
COUNT_IN: Final = np.dtype([("key", "<u8"), ("value", "<i8")])
COUNT_OUT: Final = np.dtype([("key", "<u8"), ("n", "<u8"), ("total", "<i8")])

#: app ``market-spread``: symbols are 8 ASCII bytes, space padded on the right.
QUOTE: Final = np.dtype(
    [
        ("kind", "u1"),
        ("zero", "u1", (3,)),
        ("symbol", "S8"),
        ("quote_id", "<u8"),
        ("event_ns", "<u8"),
        ("bid", "<i8"),
        ("offer", "<i8"),
        ("bid_size", "<u4"),
        ("offer_size", "<u4"),
    ]
)
ORDER: Final = np.dtype(
    [
        ("kind", "u1"),
        ("side", "u1"),
        ("zero", "<u2"),
        ("symbol", "S8"),
        ("order_id", "<u8"),
        ("event_ns", "<u8"),
        ("price", "<i8"),
        ("qty", "<u4"),
        ("account", "<u4"),
        ("client_tag", "<u8"),
    ]
)
VERDICT: Final = np.dtype(
    [
        ("order_id", "<u8"),
        ("symbol", "S8"),
        ("quote_id", "<u8"),
        ("bid", "<i8"),
        ("offer", "<i8"),
        ("verdict", "u1"),
        ("zero", "u1", (7,)),
    ]
)
#: A quote or an order of a merged stream, before its kind is looked at.
MESSAGE: Final = np.dtype([("kind", "u1"), ("rest", "V51")])

assert QUOTE.itemsize == ORDER.itemsize == MESSAGE.itemsize == 52
assert VERDICT.itemsize == 48


def framed(payload: np.dtype) -> np.dtype:
    """Return the dtype of one record as it stands in a log: u32 size, payload."""
    return np.dtype([("size", "<u4"), ("payload", payload)])


def in_frames(payloads: np.ndarray) -> np.ndarray:
    """Return payloads as framed records."""
    records = np.empty(len(payloads), framed(payloads.dtype))
    records["size"], records["payload"] = payloads.itemsize, payloads
    return records


def opaque(size: int) -> np.dtype:
    """Return a payload dtype of ``size`` bytes that nobody looks into."""
    return np.dtype([("bytes", f"V{size}")])
