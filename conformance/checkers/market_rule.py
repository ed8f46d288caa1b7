"""Quotes, orders and verdicts of Market Spread as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, SupportsInt

import numpy as np

#: Quotes and orders by the fields that decide: one layout, symbols as words.
RECORD: Final = np.dtype(
    {
        "names": ["kind", "symbol", "id", "bid", "offer"],
        "formats": ["u1", "<u8", "<u8", "<i8", "<i8"],
        "offsets": [0, 4, 12, 28, 36],
        "itemsize": 52,
    }
)
#: A verdict with its symbol as a word, and the verdict byte with its 7 zeros as one.
ANSWER: Final = np.dtype(
    [
        ("order_id", "<u8"),
        ("symbol", "<u8"),
        ("quote_id", "<u8"),
        ("bid", "<i8"),
        ("offer", "<i8"),
        ("tail", "<u8"),
    ]
)
VERDICT_BYTE: Final = np.uint64(0xFF)


def symbol_text(word: SupportsInt) -> str:
    """Return a symbol for people: without its padding, other bytes escaped."""
    raw = int(word).to_bytes(8, "little").rstrip(b" ")
    return raw.decode("ascii", "backslashreplace")


def show_answer(answer: np.void) -> str:
    """Return a verdict as short text."""
    tail = int(answer["tail"])
    word = {0: "accept", 1: "reject"}.get(tail & 0xFF, f"verdict byte {tail & 0xFF}")
    prices = (int(answer["bid"]), int(answer["offer"]))
    quote = f"quote {answer['quote_id']} (bid {prices[0]}, offer {prices[1]})"
    if not int(answer["quote_id"]) and prices == (0, 0):
        quote = "no quote"  # that is what an answer without one looks like
    return f"{word} order {answer['order_id']} {symbol_text(answer['symbol'])} by {quote}"


@dataclass(frozen=True)
class Located:
    """Place of the quote that a verdict names; offsets count in one partition."""

    symbol: int
    partition: int
    offset: int
