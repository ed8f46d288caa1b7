"""Market Spread: an order is rejected when the spread of its symbol is abnormal.

Two state computations, `update` and `check`, on one state by symbol. What follows them is
the same on arrays, and a combine: most orders can be decided where they are read.
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
from tickproof.reference.api.arrays import grouped, joined, numbered, on_arrays
from tickproof.reference.api.layouts import BadRecord, fields_of, framed, new

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


@on_arrays
def on_many(messages: np.ndarray, rows: np.ndarray, states: np.ndarray) -> np.ndarray:
    """`update` and `check` for many messages, quotes, orders or both.

    Orders without an earlier quote among the messages meet the state as it was.
    """
    rest, places, decided = _decided(messages, rows)
    quotes = rest[messages["kind"][rest] == QUOTE_KIND]
    orders = rest[messages["kind"][rest] == ORDER_KIND]
    undecided = new(len(orders), VERDICT)
    undecided["order_id"], undecided["symbol"] = messages["id"][orders], messages["symbol"][orders]
    for name in ("quote_id", "bid", "offer"):
        undecided[name] = states[name][rows[orders]]
    undecided["verdict"] = rejects(undecided["quote_id"], undecided["bid"], undecided["offer"])
    for name, field in (("quote_id", "id"), ("bid", "bid"), ("offer", "offer")):
        states[name][rows[quotes]] = messages[field][quotes]
    out = joined(undecided, decided)
    return out[np.argsort(np.concatenate([orders, places]), kind="stable")]


def combine(messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decide each order that has an earlier quote of its symbol among the messages.

    The rest: orders that have none, and the last quote of each symbol.
    """
    left, _, decided = _decided(messages, numbered(messages["symbol"])[1])
    return messages[left], decided


def _decided(messages, ids):
    """Return (indexes of the rest in log order, indexes of decided orders, their verdicts)."""
    order, first, last = grouped(ids)
    at = np.arange(len(order), dtype=np.int32)
    is_quote = messages["kind"][order] == QUOTE_KIND
    # By sorted position: the newest quote so far, and where the symbol's messages begin.
    quote = np.maximum.accumulate(np.where(is_quote, at, np.int32(-1)))
    begin = np.maximum.accumulate(np.where(first, at, np.int32(0)))
    seen = quote >= begin
    mine = np.flatnonzero(seen & ~is_quote)
    out = new(len(mine), VERDICT)
    # Field by field: numpy takes whole records of mixed fields ten times slower.
    orders, quotes = order[mine], order[quote[mine]]
    out["order_id"], out["symbol"] = messages["id"][orders], messages["symbol"][orders]
    out["quote_id"] = messages["id"][quotes]
    out["bid"], out["offer"] = messages["bid"][quotes], messages["offer"][quotes]
    out["verdict"] = rejects(out["quote_id"], out["bid"], out["offer"])
    newest = quote[last & seen]
    rest = np.concatenate([order[newest], order[~seen & ~is_quote]])
    rest.sort()
    return rest, orders, out


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


@on_arrays
def only_rejects(verdicts: np.ndarray) -> np.ndarray:
    """`only_reject` for many verdicts."""
    return verdicts[verdicts["verdict"] == 1]


def merged(emit: str, function=on_many, combine=combine, only=only_rejects) -> Application:
    """Return the app for quotes and orders in one stream, in one agreed order."""
    step = StateComputation("update-or-check", MARKET, function, VERDICT, combine)
    pipeline = Pipeline("market", _source(0, ORDER_KIND, QUOTE_KIND)).by("symbol").to(step)
    return Application("market-spread", [_emitting(pipeline, emit, only)])


def two_streams(emit: str, updating=on_many, checking=on_many, only=only_rejects) -> Application:
    """Return the app for quotes in stream 0 and orders in stream 1."""
    updates = StateComputation("update", MARKET, updating, VERDICT)
    checks = StateComputation("check", MARKET, checking, VERDICT)
    quotes = Pipeline("quotes", _source(0, QUOTE_KIND)).by("symbol").to(updates)
    orders = Pipeline("orders", _source(1, ORDER_KIND)).by("symbol").to(checks)
    return Application("market-spread", [quotes, _emitting(orders, emit, only)])


#: What the two take for functions on one record, and no combine.
MERGED_ON_RECORDS = {"function": update_or_check, "combine": None, "only": only_reject}
TWO_ON_RECORDS = {"updating": update, "checking": check, "only": only_reject}


def _source(stream: int, *kinds: int) -> Source:
    return Source(stream, MESSAGE, partial(sensible, kinds))


def _emitting(pipeline: Pipeline, emit: str, only) -> Pipeline:
    if emit == "rejects":
        pipeline = pipeline.to(Computation("only-rejects", only, VERDICT))
    return pipeline.into(Sink(0, VERDICT))
