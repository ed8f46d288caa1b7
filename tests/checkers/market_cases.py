"""Small markets for the tests of the two Market Spread checkers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st

from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import MESSAGE, ORDER, QUOTE, VERDICT

SYMBOLS = [b"A       ", b"BB      ", b"LONGNAME"]

#: (bid, offer): accepts, rejects, both borders and what stands beside them.
PRICES = [
    (1_000_000, 1_000_100),
    (1_000_000, 1_000_500),
    (1_000_000, 1_000_499),
    (780, 820),
    (781, 820),
    (0, 0),
    (2_000, 1_000),
    (39, 41),
]


def quote(symbol: bytes, quote_id: int, bid: int, offer: int) -> np.ndarray:
    row = np.zeros(1, QUOTE)
    row["kind"], row["symbol"], row["quote_id"] = 2, symbol, quote_id
    row["bid"], row["offer"] = bid, offer
    return row


def order(symbol: bytes, order_id: int) -> np.ndarray:
    row = np.zeros(1, ORDER)
    row["kind"], row["side"], row["symbol"], row["order_id"] = 1, 1, symbol, order_id
    row["price"], row["qty"], row["client_tag"] = 5, 2**32 - 1, 2**64 - 1
    return row


def verdict(
    order_id: int, symbol: bytes, quote_id: int, bid: int, offer: int, reject: int
) -> np.ndarray:
    row = np.zeros(1, VERDICT)
    row["order_id"], row["symbol"], row["quote_id"] = order_id, symbol, quote_id
    row["bid"], row["offer"], row["verdict"] = bid, offer, reject
    return row


def slow_rejects(quote_id: int, bid: int, offer: int) -> int:
    """The rule in whole numbers, one at a time."""
    return int(quote_id == 0 or offer - bid >= 500 or 40 * (offer - bid) >= bid + offer)


def messages(rows: Iterable[np.ndarray]) -> np.ndarray:
    raw = b"".join(row.tobytes() for row in rows)
    return np.frombuffer(raw, MESSAGE)


def log(rows: list[np.ndarray], times: list[int] | None = None) -> OutputLog:
    payloads = np.concatenate([np.zeros(0, VERDICT), *rows])
    return output_log(payloads, t_ns=np.arange(len(rows)) if times is None else times)


#: One merged partition as (symbol number, None for an order or a price).
steps = st.lists(st.tuples(st.integers(0, 2), st.none() | st.sampled_from(PRICES)), max_size=14)


def merged_market(parts: list[list]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the partitions, and the verdict of every order in input order (slow and obvious)."""
    partitions, right, next_quote, next_order = [], [], 1, 1
    for part, rows in enumerate(parts):
        latest: dict[bytes, tuple[int, int, int]] = {}
        stream = []
        for number, price in rows:
            symbol = SYMBOLS[number][:7] + b"%d" % part
            if price is None:
                seen = latest.get(symbol, (0, 0, 0))
                stream.append(order(symbol, next_order))
                right.append(verdict(next_order, symbol, *seen, slow_rejects(*seen)))
                next_order += 3
            else:
                latest[symbol] = (next_quote, *price)
                stream.append(quote(symbol, next_quote, *price))
                next_quote += 1
        partitions.append(messages(stream))
    return partitions, right
