"""The rule of Market Spread on arrays, and what a verdict that breaks it may come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, SupportsInt

import numpy as np

from tickproof.generators.spread_rule import RATIO

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
    """Where the quote stands that a verdict names; offsets count in one partition."""

    symbol: int
    bid: int
    offer: int
    partition: int
    offset: int


def clause(answer: Any, limit: int) -> str:
    """Say which clause of the rule decides on a quote; limit: five cents in the unit of prices."""
    bid, offer = int(answer["bid"]), int(answer["offer"])
    spread = offer - bid
    absolute, ratio = spread >= limit, RATIO * spread >= bid + offer
    if int(answer["quote_id"]) == 0:
        return "no quote was seen, so it must be rejected"
    if spread == limit and not RATIO * spread > bid + offer:
        return f"the spread is exactly {limit}: `>` instead of `>=`?"
    if RATIO * spread == bid + offer and not spread > limit:
        return "40 * spread is exactly bid + offer: `>` instead of `>=`?"
    if ratio and not absolute:
        return f"only the ratio clause rejects (40 * {spread} >= {bid + offer}): is it missing?"
    if absolute and not ratio:
        return f"only the absolute clause rejects (spread {spread} >= {limit}): is it missing?"
    if absolute:
        return f"both clauses reject: spread {spread} >= {limit}, 40 * {spread} >= {bid + offer}"
    return f"neither clause rejects: spread {spread} < {limit}, 40 * {spread} < {bid + offer}"


def diagnose(
    expected: Any, actual: Any, named: Located | None, order_at: tuple[int, int], limit: int
) -> str:
    """Say how ``actual`` differs from ``expected`` (both ANSWER rows) and why it may.

    ``named``: the quote that ``actual`` names, None if there is none;
    ``order_at``: partition and offset of the order in the same log as the quotes.
    """
    if actual["symbol"] != expected["symbol"]:
        return (
            f"symbol {symbol_text(actual['symbol'])} instead of {symbol_text(expected['symbol'])}"
        )
    if actual["quote_id"] != expected["quote_id"]:
        if actual["quote_id"] == 0:
            return f"no quote named, though quote {expected['quote_id']} came before the order"
        if named is None:
            return f"quote {actual['quote_id']} does not exist"
        if named.symbol != int(expected["symbol"]):
            return f"quote {actual['quote_id']} is one of {symbol_text(named.symbol)}"
        if (named.partition, named.offset) > order_at:
            return f"future quote: {actual['quote_id']} came after the order"
        return f"stale quote: {actual['quote_id']} came before {expected['quote_id']}"
    return content(expected, actual, limit)


def content(expected: Any, actual: Any, limit: int) -> str:
    """Say how two verdicts by one quote differ."""
    bid, offer = int(expected["bid"]), int(expected["offer"])
    for field in ("bid", "offer"):
        if actual[field] != expected[field]:
            middle = " (the middle of bid and offer)" * (int(actual[field]) == (bid + offer) // 2)
            swapped = " (bid and offer swapped)" * (
                (int(actual["bid"]), int(actual["offer"])) == (offer, bid)
            )
            return (
                f"{field} {actual[field]}{swapped or middle}, but quote "
                f"{expected['quote_id']} has {field} {expected[field]}"
            )
    return clause(expected, limit)
