"""Input spelled out record by record: for boundary cases that a test names itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tickproof.generators.layouts import (
    BUY,
    COUNT_IN,
    MESSAGE,
    NUMBER,
    ORDER,
    ORDER_KIND,
    QUOTE,
    QUOTE_KIND,
    framed,
)
from tickproof.generators.partitions import Chunk, Source

_I64: Final = (-(2**63), 2**63 - 1)
_U64: Final = (0, 2**64 - 1)
_PRICE: Final = (0, 2**53)
#: Name of a row -> what follows it: "symbol", or the range of a whole number.
SHAPES: Final[dict[str, tuple[Any, ...]]] = {
    "quote": ("symbol", _PRICE, _PRICE),
    "order": ("symbol",),
    "keyed": (_U64, _I64),
    "number": (_I64,),
}
#: event_ns of the first record, and of one record after another.
START_NS: Final = 1_704_205_800_000_000_000
STEP_NS: Final = 1_000


def script_source(rows: Sequence[Sequence[Any]], repeat: int, two: bool) -> Source:
    """Return the source for a list of rows, played ``repeat`` times.

    Rows: ["quote", symbol, bid, offer], ["order", symbol], ["keyed", key, value],
    ["number", x]; prices in the unit of the recipe. Ids and times are given out in order.
    Raises ValueError naming the row (from 0) that does not fit.
    """
    if not isinstance(rows, (list, tuple)) or not rows:
        raise ValueError("recipe: rows: expected a list with at least one row")
    for number, row in enumerate(rows):
        _check_row(number, row)
    families = {"market" if row[0] in ("quote", "order") else row[0] for row in rows}
    if len(families) > 1:
        raise ValueError(f"recipe: rows: expected rows of one app, got {sorted(families)}")
    total = len(rows) * repeat
    if families == {"market"}:
        return Source(total, (framed(MESSAGE),) * (1 + two), _market(rows, two))
    payload = COUNT_IN if families == {"keyed"} else NUMBER
    return Source(total, (framed(payload),), _numbers(rows, payload))


def _check_row(number: int, row: Any) -> None:
    shape = SHAPES.get(row[0]) if isinstance(row, (list, tuple)) and row else None
    if shape is None or len(row) != 1 + len(shape):
        raise ValueError(
            f"recipe: rows[{number}]: expected quote, symbol, bid, offer; order, symbol; "
            f"keyed, key, value; or number, x; got {row!r}"
        )
    for value, want in zip(row[1:], shape, strict=True):
        if want == "symbol":
            good = isinstance(value, str) and value.isascii() and value.isprintable()
            if not good or not 1 <= len(value) <= 8 or value != value.strip():
                raise ValueError(
                    f"recipe: rows[{number}]: expected a symbol of 1 to 8 ASCII characters, "
                    f"got {value!r}"
                )
        elif type(value) is not int or not want[0] <= value <= want[1]:
            raise ValueError(
                f"recipe: rows[{number}]: expected a whole number {want[0]} to {want[1]}, "
                f"got {value!r}"
            )


def _numbers(rows: Sequence[Sequence[Any]], payload: np.dtype) -> Callable[[int, int], Chunk]:
    base = np.zeros(len(rows), framed(payload))
    base["size"] = payload.itemsize
    base["payload"] = [tuple(row[1:]) for row in rows]

    def chunk(start: int, stop: int) -> Chunk:
        records = base[np.arange(start, stop) % len(rows)]
        return Chunk(records, records["payload"]["key"] if payload is COUNT_IN else None)

    return chunk


def _market(rows: Sequence[Sequence[Any]], two: bool) -> Callable[[int, int], Chunk]:
    base = np.zeros(len(rows), framed(MESSAGE))
    base["size"] = MESSAGE.itemsize
    is_quote = np.array([row[0] == "quote" for row in rows])
    for record, row in enumerate(rows):
        kind = QUOTE if row[0] == "quote" else ORDER
        payload = base.view(framed(kind))["payload"][record : record + 1]
        payload["symbol"] = row[1].encode().ljust(8)
        if row[0] == "quote":
            payload["kind"] = QUOTE_KIND
            payload["bid"], payload["offer"] = row[2:]
            payload["bid_size"] = payload["offer_size"] = 100
        else:
            payload["kind"], payload["side"] = ORDER_KIND, BUY
            payload["price"], payload["qty"] = 10_000, 100
    # An id counts the records of its kind: whole repeats before, then within the list.
    own = np.where(is_quote, np.cumsum(is_quote), np.cumsum(~is_quote))
    each = np.where(is_quote, is_quote.sum(), (~is_quote).sum())

    def chunk(start: int, stop: int) -> Chunk:
        index = np.arange(start, stop)
        place = index % len(rows)
        records = base[place]
        # quote_id and order_id, and both event_ns, stand at the same bytes.
        payload = records.view(framed(ORDER))["payload"]
        payload["order_id"] = own[place] + index // len(rows) * each[place]
        payload["event_ns"] = START_NS + index * STEP_NS
        return Chunk.of_market(records, two)

    return chunk
