"""App market-spread: a verdict on each order, by the latest quote of its symbol."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tickproof.conformance.apps.app import App, Lane, Leeway, Messages, placed
from tickproof.conformance.checkers import merged, two_streams
from tickproof.conformance.checkers.arrays import pieces
from tickproof.conformance.checkers.arrivals import first_arrivals
from tickproof.conformance.checkers.expected import ANSWER, merged_verdicts
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.checkers.market_rule import show_answer
from tickproof.conformance.checkers.matching import Matching, match_market
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import BUY, MESSAGE, ORDER, ORDER_KIND, QUOTE, QUOTE_KIND, VERDICT
from tickproof.generators.market import PROBE_TAG
from tickproof.generators.recipes import INPUTS
from tickproof.generators.spread_rule import FIVE_CENTS

_SYMBOL_BYTES: Final = 8
_QUOTE: Final = (
    '{"kind":"quote","symbol":%s,"quote_id":%d,"event_ns":%d,"bid":%d,"offer":%d,'
    '"bid_size":%d,"offer_size":%d}'
)
_ORDER: Final = (
    '{"kind":"order","side":"%s","symbol":%s,"order_id":%d,"event_ns":%d,"price":%d,"qty":%d,'
    '"account":%d,"client_tag":%d}'
)


class MarketSpread(App):
    """Quotes and orders, merged or on two streams; the verdicts on all orders, or the rejects."""

    name = "market-spread"
    about = (
        "market-spread gives for each order a verdict, reject or accept, by the "
        "latest quote of its symbol."
    )
    choices = {"inputs": INPUTS, "emit": ("rejects", "verdicts")}
    kind = "market"
    sparse = True
    members = {
        "order_id": ("uint64", "order_id"),
        "symbol": ("string", "symbol"),
        "quote_id": ("uint64", "quote_id"),
        "bid": ("int64", "bid"),
        "offer": ("int64", "offer"),
        "verdict": ("uint8", "verdict"),
    }

    @property
    def merged(self) -> bool:
        """True if quotes and orders are in one stream, so that there is one right answer."""
        return self.params["inputs"] == "merged"

    @property
    def rejects_only(self) -> bool:
        """True if an order that is accepted has no output."""
        return self.params["emit"] == "rejects"

    @property
    def order_stream(self) -> int:
        """The stream that holds the orders."""
        return 0 if self.merged else 1

    def input_layouts(self, size: int) -> tuple[np.dtype, ...]:
        """Return the layout of both, or of quotes and of orders."""
        return (MESSAGE,) if self.merged else (QUOTE, ORDER)

    def output_layout(self, size: int) -> np.dtype:
        """Return the layout of verdicts."""
        return VERDICT

    def check(self, history: History, log: OutputLog, leeway: Leeway) -> Findings:
        """Judge each verdict; on two streams by what the engine may have known."""
        emit, limit = self.params["emit"], history.spread_limit
        if self.merged:
            inputs, (fetches,) = history.inputs(MESSAGE), leeway.first_fetches
            return merged.check_merged(inputs, log, emit, limit=limit, fetches=fetches)
        return two_streams.check_two_streams(
            history.inputs(QUOTE, 0),
            history.inputs(ORDER, 1),
            log,
            emit,
            freshness_ns=history.claims.freshness_ns,
            publishes=history.publishes,
            fetches=history.fetches_with_cause,
            pauses=leeway.pauses(),
            delivery=history.claims.delivery,
            limit=limit,
            first_fetches=leeway.first_fetches,
        )

    def _orders(self, history: History) -> list[np.ndarray]:
        """Return the partitions that hold orders, with whatever else is in them."""
        stream = self.order_stream
        return history.inputs((MESSAGE, ORDER)[stream], stream)

    def due(self, history: History) -> int:
        """Return the number of orders, 0 if not all have an output."""
        if self.rejects_only:
            return 0
        return sum(int((part["kind"] == ORDER_KIND).sum()) for part in self._orders(history))

    def answerable(self, history: History, ends: Mapping[tuple[int, int], int]) -> int:
        """Count the orders."""
        return sum(
            int((part[: ends.get((self.order_stream, at), 0)]["kind"] == ORDER_KIND).sum())
            for at, part in enumerate(self._orders(history))
        )

    def expected(self, inputs: Sequence[np.ndarray], limit: int = FIVE_CENTS) -> np.ndarray | None:
        """Return all verdicts, or the rejects.

        Two streams have no agreed order: the ids of the orders there, None for rejects alone.
        """
        if not self.merged:
            orders = [part["order_id"] for part in inputs if part.dtype == ORDER]
            return None if self.rejects_only else np.concatenate([np.empty(0, np.uint64), *orders])
        found = [verdicts for _, verdicts in merged_verdicts(inputs, limit=limit)]
        verdicts = np.concatenate(found) if found else np.empty(0, ANSWER)
        return verdicts[verdicts["tail"] == 1] if self.rejects_only else verdicts

    def told(self, outputs: np.ndarray) -> np.ndarray:
        """Return verdicts, on two streams the ids of their orders."""
        return outputs if self.merged else outputs["order_id"]

    def match(self, history: History, log: OutputLog) -> Matching | None:
        """Match verdicts by order_id."""
        stream = self.order_stream
        inputs = placed(history, (MESSAGE, ORDER)[stream], stream)
        emit, limit = self.params["emit"], history.spread_limit
        return match_market(inputs, log, emit, merged=self.merged, limit=limit)

    def words(self, output: np.void) -> str:
        """Return a verdict in words."""
        return show_answer(np.array([output]).view(ANSWER)[0])

    def lanes(self, history: History) -> Iterator[Lane]:
        """Measure each order with a verdict: of rejects on two streams, the probes."""
        parts = self._orders(history)
        places = (
            _rejected(parts)
            if self.merged and self.rejects_only
            else [_chosen(part, probes_only=self.rejects_only) for part in parts]
        )
        first = sum(row.stream < self.order_stream for row in history.partitions)
        for number, (part, offsets) in enumerate(zip(parts, places, strict=True)):
            orders = part.view(ORDER)
            tagged = orders["client_tag"][offsets] >= np.uint64(PROBE_TAG)
            yield Lane(first + number, offsets, np.array(orders["order_id"][offsets]), tagged)

    def arrivals(self, words: np.ndarray, log: OutputLog) -> np.ndarray:
        """Find the first verdict on each order."""
        return first_arrivals(words, np.array(log.payloads["order_id"]), log.times)

    def messages(self, payloads: np.ndarray) -> Messages:
        """Return quotes and orders as JSON, by their symbols."""
        whole = np.ascontiguousarray(payloads)
        quotes, orders = whole.view(QUOTE), whole.view(ORDER)
        is_quote = whole.view(MESSAGE)["kind"] == QUOTE_KIND
        names = [name.decode("ascii").rstrip(" ") for name in quotes["symbol"][is_quote].tolist()]
        ordered = [
            name.decode("ascii").rstrip(" ") for name in orders["symbol"][~is_quote].tolist()
        ]
        said = {name: json.dumps(name) for name in {*names, *ordered}}
        values = np.empty(len(whole), object)
        keys = np.empty(len(whole), object)
        fields = ("quote_id", "event_ns", "bid", "offer", "bid_size", "offer_size")
        columns = [quotes[name][is_quote].tolist() for name in fields]
        values[is_quote] = [
            (_QUOTE % (said[name], *row)).encode()
            for name, *row in zip(names, *columns, strict=True)
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

    def fill(self, payloads: np.ndarray, columns: Mapping[str, Any]) -> None:
        """Take verdicts; a symbol has at most 8 ASCII characters."""
        padded = [name.encode("ascii").ljust(_SYMBOL_BYTES) for name in columns["symbol"]]
        if any(len(name) > _SYMBOL_BYTES for name in padded):
            raise ValueError("expected a symbol of at most 8 characters")
        super().fill(payloads, {**columns, "symbol": np.array(padded, f"S{_SYMBOL_BYTES}")})
        payloads["zero"] = 0


def _rejected(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Return, for each partition of a merged market, the offsets of orders to be rejected."""
    found = [at[expected["tail"] == 1] for at, expected in merged_verdicts(parts)]
    at = np.concatenate([np.empty(0, np.int64), *found])
    offsets, partition = np.divmod(at, len(parts))
    return [np.sort(offsets[partition == number]) for number in range(len(parts))]


def _chosen(part: np.ndarray, *, probes_only: bool) -> np.ndarray:
    """Return the offsets of orders among quotes and orders; or of the probes among them."""
    found = [np.empty(0, np.int64)]
    for start, piece in pieces(part):
        orders = piece.view(ORDER)
        chosen = orders["kind"] == ORDER_KIND
        if probes_only:
            chosen &= orders["client_tag"] >= np.uint64(PROBE_TAG)
        found.append(start + np.flatnonzero(chosen))
    return np.concatenate(found)
