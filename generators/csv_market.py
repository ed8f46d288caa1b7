"""Recorded markets: quotes.csv and orders.csv (plain or gzip) as one stream by time.

Prices are parsed exactly to ten-thousandths. Sizes and quantities take no part in the
rule: they are kept in ten-thousandths of a unit too, rounded half-even, at most
2**32 - 1. Rows are sorted by time within each file, rows of one time in file order; at
equal times quotes go before orders, so an order meets the latest quote at or before it.

Each oddity is a counted warning, or with ``strict`` a CsvError at the first of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.generators.csv_table import Batch, CsvError, batches
from tickproof.generators.decimals import parse
from tickproof.generators.files import Progress, ranges, write_chunks
from tickproof.generators.layouts import (
    BUY,
    MESSAGE,
    ORDER,
    ORDER_KIND,
    QUOTE,
    QUOTE_KIND,
    SELL,
    framed,
)
from tickproof.generators.numbers import chunk_records
from tickproof.generators.partitions import Chunk, Source
from tickproof.generators.symbols import aliases, with_words, words

MAX_PRICE: Final = 2**53
MAX_SIZE: Final = 2**32 - 1
QUOTE_COLUMNS: Final = ("ts_ns", "symbol", "bid", "offer", "bid_size", "offer_size")
ORDER_COLUMNS: Final = ("ts_ns", "symbol", "side", "price", "qty")
#: Warnings: what is counted -> what strict says of the first one.
WARNINGS: Final = {
    "rounded_prices": "more than 4 decimals: {}",
    "crossed_quotes": "crossed: the offer {} is below the bid",
    "times_back": "the time goes back: {}",
    "capped_sizes": "above 429496.7295: {}",
}
_SIDES: Final = {
    **dict.fromkeys((b"BUY", b"B", b"1"), BUY),
    **dict.fromkeys((b"SELL", b"S", b"2"), SELL),
}


class _Reader:
    """State that goes from batch to batch: symbols met so far, warnings, the last time."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.codes: dict[str, int] = {}
        self.warnings: Counter[str] = Counter()
        self.latest = np.uint64(0)

    def warn(self, batch: Batch, column: str, where: np.ndarray, kind: str) -> None:
        self.warnings[kind] += int(np.count_nonzero(where))
        if self.strict:
            batch.reject(column, where, WARNINGS[kind])

    def times(self, batch: Batch) -> np.ndarray:
        got = parse(batch.columns["ts_ns"], 0)
        batch.reject("ts_ns", got.bad, "not a whole number of nanoseconds: {}")
        batch.reject("ts_ns", got.negative | got.huge, "expected a time from 0 to 2**64 - 1: {}")
        before = np.maximum.accumulate(np.append(self.latest, got.value))
        self.warn(batch, "ts_ns", got.value < before[:-1], "times_back")
        self.latest = before[-1]
        return got.value

    def symbols(self, batch: Batch) -> np.ndarray:
        encoded = batch.columns["symbol"].array.dictionary_encode()
        index = encoded.indices.to_numpy()
        table = np.zeros(len(encoded.dictionary), np.int32)
        for i, raw in enumerate(encoded.dictionary.to_pylist()):
            try:
                name = raw.decode("utf-8").strip(" ")
            except UnicodeDecodeError:
                batch.reject("symbol", index == i, "not UTF-8: {}")
                continue
            if not name.isprintable() or not name:
                batch.reject("symbol", index == i, "expected printable characters: {}")
                continue
            table[i] = self.codes.setdefault(name, len(self.codes))
        return table[index]

    def prices(self, batch: Batch, column: str) -> np.ndarray:
        got = parse(batch.columns[column], 4)
        batch.reject(column, got.bad, "not a plain decimal number: {}")
        batch.reject(column, got.negative & (got.value > 0) & ~got.bad, "negative price: {}")
        too_big = got.huge | (got.value > MAX_PRICE)
        batch.reject(column, too_big & ~got.bad, "price above 2**53 ten-thousandths: {}")
        self.warn(batch, column, got.inexact, "rounded_prices")
        return got.value.astype(np.int64)

    def sizes(self, batch: Batch, column: str) -> np.ndarray:
        got = parse(batch.columns[column], 4)
        batch.reject(column, got.bad, "not a plain decimal number: {}")
        batch.reject(column, got.negative & (got.value > 0) & ~got.bad, "negative size: {}")
        above = got.huge | (got.value > MAX_SIZE)
        self.warn(batch, column, above, "capped_sizes")
        return np.where(above, MAX_SIZE, got.value).astype(np.uint32)

    def sides(self, batch: Batch) -> np.ndarray:
        encoded = batch.columns["side"].array.dictionary_encode()
        known = [_SIDES.get(raw.strip().upper(), 0) for raw in encoded.dictionary.to_pylist()]
        side = np.array(known, np.uint8)[encoded.indices.to_numpy()]
        batch.reject("side", side == 0, "unknown side {}: expected BUY, SELL, B, S, 1 or 2")
        return side

    def quotes(self, batch: Batch) -> np.ndarray:
        out = self._start(batch, QUOTE, QUOTE_KIND)
        payload = out["payload"]
        payload["bid"] = bid = self.prices(batch, "bid")
        payload["offer"] = offer = self.prices(batch, "offer")
        payload["bid_size"] = self.sizes(batch, "bid_size")
        payload["offer_size"] = self.sizes(batch, "offer_size")
        self.warn(batch, "offer", offer < bid, "crossed_quotes")
        return out

    def orders(self, batch: Batch) -> np.ndarray:
        out = self._start(batch, ORDER, ORDER_KIND)
        out["payload"]["side"] = self.sides(batch)
        out["payload"]["price"] = self.prices(batch, "price")
        out["payload"]["qty"] = self.sizes(batch, "qty")
        return out

    def _start(self, batch: Batch, layout: np.dtype, kind: int) -> np.ndarray:
        out = np.zeros(batch.rows, with_words(layout))
        out["size"] = layout.itemsize
        out["payload"]["kind"] = kind
        out["payload"]["event_ns"] = self.times(batch)
        out["payload"]["symbol"] = self.symbols(batch)  # a code until all names are known
        return out


@dataclass(frozen=True)
class MarketCsv:
    """A market read from files.

    quotes, orders: framed records, each in time order. times: event_ns of the merged
    stream. order: for each merged record, its position in quotes + orders.
    """

    quotes: np.ndarray
    orders: np.ndarray
    times: np.ndarray
    order: np.ndarray
    warnings: dict[str, int]
    symbols: dict[str, str]

    def messages(self, start: int, stop: int) -> np.ndarray:
        """Return records [start, stop) of the merged stream as framed MESSAGE records."""
        message = framed(MESSAGE)
        quotes, orders = self.quotes.view(message), self.orders.view(message)
        at = self.order[start:stop]
        chunk = np.empty(len(at), message)
        is_order = at >= len(quotes)
        chunk[~is_order] = quotes[at[~is_order]]
        chunk[is_order] = orders[at[is_order] - len(quotes)]
        return chunk


def read_market(quotes: Path, orders: Path, *, strict: bool = False) -> MarketCsv:
    """Read and merge two files; raises CsvError with path, line and column."""
    reader = _Reader(strict)
    quote = _rows(quotes, QUOTE_COLUMNS, reader, reader.quotes)
    order = _rows(orders, ORDER_COLUMNS, reader, reader.orders)
    names = list(reader.codes)
    alias = aliases(names)
    word = words([alias[name] for name in names])
    for rows, number in ((quote, "quote_id"), (order, "order_id")):
        payload = rows["payload"]
        payload["symbol"] = word[payload["symbol"].astype(np.int64)]
        payload[number] = np.arange(1, len(rows) + 1)
    times = np.concatenate([quote["payload"]["event_ns"], order["payload"]["event_ns"]])
    merged = np.argsort(times, kind="stable")
    renamed = {alias[name]: name for name in names if alias[name] != name}
    return MarketCsv(quote, order, times[merged], merged, dict(reader.warnings), renamed)


def _rows(
    path: Path, columns: tuple[str, ...], reader: _Reader, make: Callable[[Batch], np.ndarray]
) -> np.ndarray:
    """Return all rows of one file in time order."""
    reader.latest = np.uint64(0)
    pieces = []
    for batch in batches(path, columns):
        pieces.append(make(batch))
        batch.check()
    rows = np.concatenate(pieces)
    del pieces
    times = rows["payload"]["event_ns"]
    if np.any(times[1:] < times[:-1]):
        rows = rows[np.argsort(times, kind="stable")]
    return rows


def write_market_csv(
    quotes: Path,
    orders: Path,
    path: Path,
    progress: Progress | None = None,
    *,
    strict: bool = False,
) -> MarketCsv:
    """Write the merged stream of two CSV files to one file of framed records."""
    market = read_market(quotes, orders, strict=strict)
    pairs = ranges(len(market.order), chunk_records(framed(MESSAGE).itemsize))
    write_chunks((market.messages(a, b) for a, b in pairs), path, progress)
    return market


def checked_sha256(path: Path, expected: str | None) -> str:
    """Return the sha256 of a file; raises CsvError where another one was expected."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CsvError(path, 0, "", f"cannot be read: {error.strerror}") from error
    if expected not in (None, found):
        raise CsvError(path, 0, "", f"changed: expected sha256 {expected}, got {found}")
    return found


def csv_source(recipe: dict[str, Any]) -> Source:
    """Return the source of a market-csv recipe."""
    if type(recipe["strict"]) is not bool:
        raise ValueError(f"recipe: strict: expected true or false, got {recipe['strict']!r}")
    paths = {key: Path(recipe[key]) for key in ("quotes", "orders")}
    hashes = {
        f"{key}_sha256": checked_sha256(path, recipe[f"{key}_sha256"])
        for key, path in paths.items()
    }
    market = read_market(**paths, strict=recipe["strict"])
    two = recipe["inputs"] == "two"
    return Source(
        records=len(market.order),
        dtypes=(framed(MESSAGE),) * (1 + two),
        chunk=lambda start, stop: Chunk.of_market(market.messages(start, stop), two),
        times=market.times,
        warnings=market.warnings,
        symbols=market.symbols,
        recipe=hashes,
    )
