"""Market Spread: an order is rejected when the spread of its symbol is abnormal.

Two state computations, `update` and `check`, on one state by symbol. A quote replaces the whole
state, so that most orders can be decided where they are read.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from tickproof.reference.api import (
    Application,
    Computation,
    Pipeline,
    Sink,
    Source,
    State,
    StateComputation,
)
from tickproof.reference.api.layouts import BadRecord, fields_of, framed

#: A quote or an order; bid and offer mean something in quotes only. A symbol is eight
#: letters, taken as one number.
MESSAGE = framed(
    ("kind", "u1"), ("", "V3"), ("symbol", "<u8"), ("id", "<u8"), ("event_ns", "<u8"),
    ("bid", "<i8"), ("offer", "<i8"), ("", "V8"),
)  # fmt: skip
VERDICT = framed(
    ("order_id", "<u8"), ("symbol", "<u8"), ("quote_id", "<u8"), ("bid", "<i8"),
    ("offer", "<i8"), ("verdict", "u1"), ("", "V7"),
)  # fmt: skip
ORDER_KIND, QUOTE_KIND = 1, 2
KINDS = {ORDER_KIND: "order", QUOTE_KIND: "quote"}
NOT_ASCII = np.uint64(0x8080808080808080)


class Message(NamedTuple):
    """MESSAGE, as a function on one record sees it."""

    kind: np.uint8
    symbol: np.uint64
    id: np.uint64
    event_ns: np.uint64
    bid: np.int64
    offer: np.int64


class Verdict(NamedTuple):
    """VERDICT, as a function on one record sees it."""

    order_id: np.uint64
    symbol: np.uint64
    quote_id: np.uint64
    bid: np.int64
    offer: np.int64
    verdict: np.uint8


class Market:
    """The state of a symbol: its newest quote."""

    quote_id: np.uint64
    bid: np.int64
    offer: np.int64


MARKET = State("market", fields_of(Market))


def update(quote: Message, state: Market) -> None:
    """Keep the newest quote of the symbol."""
    state.quote_id, state.bid, state.offer = quote.id, quote.bid, quote.offer


def check(order: Message, state: Market) -> Verdict:
    """Judge an order by the newest quote of its symbol."""
    verdict = rejects(state.quote_id, state.bid, state.offer)
    return Verdict(order.id, order.symbol, state.quote_id, state.bid, state.offer, verdict)


def rejects(quote_id, bid, offer):
    """Apply the rule; prices are ten-thousandths of a dollar, quote_id 0 means none was seen.

    Five cents, or five per cent of the midpoint, in whole numbers: 40 * spread >= bid + offer.
    """
    spread = offer - bid
    return (quote_id == 0) | (spread >= 500) | (40 * spread >= bid + offer)


def update_or_check(message: Message, state: Market) -> Verdict | None:
    """Both, where quotes and orders come in one stream."""
    if message.kind == QUOTE_KIND:
        update(message, state)
        return None
    return check(message, state)


def is_quote(messages: np.ndarray) -> np.ndarray:
    """Return which messages replace the whole state of their symbol."""
    return messages["kind"] == QUOTE_KIND


def sensible(kinds: tuple[int, ...], messages: np.ndarray) -> None:
    """Raise BadRecord for a message of another kind, or without a symbol."""
    kind, symbols = messages["kind"], messages["symbol"]
    bad = np.all([kind != wanted for wanted in kinds], axis=0)
    if bad.any():
        where = int(np.argmax(bad))
        names = " or ".join(f"{wanted} ({KINDS[wanted]})" for wanted in kinds)
        raise BadRecord(where, f"expected kind {names}, got {kind[where]}")
    # The first letter stands in the lowest byte: a space or less means that there is none.
    bad = (symbols & NOT_ASCII != 0) | (symbols & np.uint64(0xFF) <= np.uint64(0x20))
    if bad.any():
        where = int(np.argmax(bad))
        symbol = int(symbols[where]).to_bytes(8, "little")
        raise BadRecord(where, f"expected a symbol of eight ASCII letters, got {symbol!r}")


def only_reject(verdict: Verdict) -> Verdict | None:
    """Leave out what was accepted."""
    return verdict if verdict.verdict else None


def merged(emit: str) -> Application:
    """Return the app for quotes and orders in one stream, in one agreed order."""
    step = StateComputation("update-or-check", MARKET, update_or_check, VERDICT, replaces=is_quote)
    pipeline = Pipeline("market", _source(0, ORDER_KIND, QUOTE_KIND)).by("symbol").to(step)
    return Application("market-spread", [_emitting(pipeline, emit)])


def two_streams(emit: str) -> Application:
    """Return the app for quotes in stream 0 and orders in stream 1."""
    updates = StateComputation("update", MARKET, update, VERDICT, replaces=is_quote)
    checks = StateComputation("check", MARKET, check, VERDICT)
    quotes = Pipeline("quotes", _source(0, QUOTE_KIND)).by("symbol").to(updates)
    orders = Pipeline("orders", _source(1, ORDER_KIND)).by("symbol").to(checks)
    return Application("market-spread", [quotes, _emitting(orders, emit)])


def _source(stream: int, *kinds: int) -> Source:
    return Source(stream, MESSAGE, partial(sensible, kinds))


def _emitting(pipeline: Pipeline, emit: str) -> Pipeline:
    if emit == "rejects":
        pipeline = pipeline.to(Computation("only-rejects", only_reject, VERDICT))
    return pipeline.into(Sink(0, VERDICT))
