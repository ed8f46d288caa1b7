"""Recorded markets: a file of quotes and one of orders as one stream by time.

Prices are exact. Their unit is a ten-thousandth of a dollar, or as much finer as the files ask
for, so that each price is a whole number of units; files whose largest price is then beyond
2**53 are refused. Sizes and quantities take no part in the rule: they are kept in
ten-thousandths, rounded half-even, at most 2**32 - 1. Rows are sorted by time within each file,
rows of one time in file order; ``ties`` says what is first of a quote and an order of one time.

What is doubtful is a warning, or with ``strict`` a CsvError; see `plausibility`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.generators import plausibility
from tickproof.generators.csv_table import Batch, CsvError, Fields, batches
from tickproof.generators.decimals import parse
from tickproof.generators.files import Progress, ranges, write_chunks
from tickproof.generators.held_market import HeldMarket
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
from tickproof.generators.partitions import Source
from tickproof.generators.plausibility import Doubt
from tickproof.generators.reading import USUAL, Reading, Ties
from tickproof.generators.spill import Spill, blocks, copied, places, spilled, taken, zeros
from tickproof.generators.spread_rule import DECIMALS, MAX_PRICE, MOST_DECIMALS
from tickproof.generators.symbols import aliases, with_words, words

MAX_SIZE: Final = 2**32 - 1
QUOTE_COLUMNS: Final = ("ts_ns", "symbol", "bid", "offer", "bid_size", "offer_size")
ORDER_COLUMNS: Final = ("ts_ns", "symbol", "side", "price", "qty")
_LAYOUTS: Final = {QUOTE_COLUMNS: QUOTE, ORDER_COLUMNS: ORDER}
#: The column that says what is first of one time, with ties "file".
SEQUENCE: Final = "seq"
#: What stands for no price, beside an empty field: NaN, and 2**63 - 1 as an integer, in
#: billionths, and as either of them is after it was a double.
_NO_PRICE: Final = (
    b"nan", b"9223372036854775807", b"9223372036.854775807", b"9223372036854775808",
    b"9.223372036854776e+18", b"9223372036.854776",
)  # fmt: skip
#: A side that is not known is written as BUY: it takes no part in the rule.
_SIDES: Final = {
    **dict.fromkeys((b"BUY", b"B", b"1", b"BID"), BUY),
    **dict.fromkeys((b"SELL", b"S", b"2", b"A", b"ASK"), SELL),
    **dict.fromkeys((b"", b"N", b"NONE", b"UNKNOWN"), BUY),
}


@dataclass(frozen=True)
class _Price:
    """A price of a file: value * 10**-decimals."""

    value: int
    decimals: int
    path: Path
    line: int
    column: str
    text: str

    def units(self, decimals: int) -> int:
        """Return the price in a unit at least as fine as its own."""
        return int(self.value * 10 ** (decimals - self.decimals))


class _Unit:
    """The decimal places that the prices read so far need, and if the largest has room then."""

    def __init__(self) -> None:
        self.decimals = DECIMALS
        self._finest: _Price | None = None
        self._largest: _Price | None = None

    @property
    def finest(self) -> str:
        """The price with the most decimal places; "" if none has more than DECIMALS."""
        fine = self._finest
        if fine is None:
            return ""
        message = f"{fine.text} has {self.decimals} decimal places"
        return str(CsvError(fine.path, fine.line, fine.column, message))

    def add(self, batch: Batch, column: str, values: np.ndarray, places: np.ndarray) -> None:
        """Take in prices, all exact at the larger of DECIMALS and the most of their places."""
        decimals = max(DECIMALS, int(places.max(initial=0)))

        def price(row: int) -> _Price:
            text = batch.columns[column].text(row)
            where = batch.path, batch.line + row, column
            return _Price(int(values[row]), decimals, *where, text)

        if decimals > self.decimals:
            self.decimals, self._finest = decimals, price(int(np.argmax(places)))
        found = price(int(np.argmax(values)))
        if self._largest is None or found.units(MOST_DECIMALS) > self._largest.units(MOST_DECIMALS):
            self._largest = found
        if self._largest.units(self.decimals) > MAX_PRICE:
            batch.errors.append(self._no_room(self._largest))

    def _no_room(self, large: _Price) -> CsvError:
        fine = self._finest
        if fine is None:
            message = f"price above 2**53 ten-thousandths: {large.text}"
            return CsvError(large.path, large.line, large.column, message)
        message = (
            f"{fine.text} has {self.decimals} decimal places, but {large.text} "
            f"({large.path.name}:{large.line}) is more than 2**53 units of that size"
        )
        return CsvError(fine.path, fine.line, fine.column, message)


class _Reader:
    """State that goes from batch to batch: symbols met so far, counts, the last time."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.codes: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self.unit = _Unit()
        self.latest = np.uint64(0)

    def doubt(self, batch: Batch, column: str, where: np.ndarray, name: str, message: str) -> None:
        """Count what is doubtful; with strict the first of it is an error."""
        self.counts[name] += int(np.count_nonzero(where))
        if self.reading.strict:
            batch.reject(column, where, message)

    def times(self, batch: Batch) -> np.ndarray:
        values = self.whole(batch, "ts_ns", "a time", " of nanoseconds")
        before = np.append(self.latest, values[:-1])
        self.doubt(batch, "ts_ns", values < before, "steps_back", "the time goes back: {}")
        self.latest = values[-1]
        return values

    def whole(self, batch: Batch, column: str, what: str, unit: str = "") -> np.ndarray:
        got = parse(batch.columns[column], 0)
        batch.reject(column, got.bad, f"not a whole number{unit}: {{}}")
        outside = got.huge | (got.negative & (got.value > 0))
        batch.reject(column, outside, f"expected {what} from 0 to 2**64 - 1: {{}}")
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

    def prices(self, batch: Batch, *columns: str) -> list[np.ndarray]:
        """Return the columns in the unit that is known after them, 0 for no price."""
        read = [self._prices(batch, column) for column in columns]
        scale = [np.uint64(10 ** (self.unit.decimals - decimals)) for _, decimals in read]
        return [(values * by).astype(np.int64) for (values, _), by in zip(read, scale, strict=True)]

    def _prices(self, batch: Batch, column: str) -> tuple[np.ndarray, int]:
        fields, decimals = batch.columns[column], DECIMALS
        absent = _absent(fields)
        got = parse(fields, decimals)
        places = np.where(got.bad | absent, 0, got.places)
        if DECIMALS < places.max() <= MOST_DECIMALS:
            decimals = int(places.max())
            got = parse(fields, decimals)
        there = ~got.bad & ~absent
        batch.reject(column, got.bad & ~absent, "not a decimal number: {}")
        batch.reject(column, got.negative & (got.value > 0) & there, "negative price: {}")
        fine = places > MOST_DECIMALS
        batch.reject(column, fine, f"more than {MOST_DECIMALS} decimal places: {{}}")
        batch.reject(column, got.huge & there, "price above 2**53 units of its last decimal: {}")
        good = there & ~fine & ~got.huge
        values = np.where(good, got.value, np.uint64(0))
        self.unit.add(batch, column, values, np.where(good, places, 0))
        return values, decimals

    def sizes(self, batch: Batch, column: str) -> np.ndarray:
        got = parse(batch.columns[column], 4)
        batch.reject(column, got.bad, "not a decimal number: {}")
        batch.reject(column, got.negative & (got.value > 0) & ~got.bad, "negative size: {}")
        above = got.huge | (got.value > MAX_SIZE)
        self.doubt(batch, column, above, "capped_sizes", "above 429496.7295: {}")
        self.counts["sizes"] += batch.rows
        return np.where(above, MAX_SIZE, got.value).astype(np.uint32)

    def sides(self, batch: Batch) -> np.ndarray:
        encoded = batch.columns["side"].array.dictionary_encode()
        known = [_SIDES.get(raw.strip().upper(), 0) for raw in encoded.dictionary.to_pylist()]
        side = np.array(known, np.uint8)[encoded.indices.to_numpy()]
        expected = "BUY, B, BID or 1; SELL, S, A, ASK or 2; N, or nothing"
        batch.reject("side", side == 0, f"unknown side {{}}: expected {expected}")
        return side

    def quotes(self, batch: Batch) -> np.ndarray:
        out = self._start(batch, QUOTE, QUOTE_KIND)
        payload = out["payload"]
        bid, offer = self.prices(batch, "bid", "offer")
        payload["bid_size"] = self.sizes(batch, "bid_size")
        payload["offer_size"] = self.sizes(batch, "offer_size")
        missing = self._missing(batch, bid == 0, offer == 0)
        crossed = (offer < bid) & ~missing
        self.doubt(batch, "offer", crossed, "crossed", "crossed: the offer {} is below the bid")
        if self.reading.missing_side == "reject":
            bid, offer = np.where(missing, 0, bid), np.where(missing, 0, offer)
        payload["bid"], payload["offer"] = bid, offer
        return out

    def _missing(self, batch: Batch, no_bid: np.ndarray, no_offer: np.ndarray) -> np.ndarray:
        """Return a mask of the quotes that lack a side; count or refuse them as was chosen."""
        chosen = self.reading.missing_side
        for column, gone in (("bid", no_bid), ("offer", no_offer)):
            if chosen == "refuse" or (chosen is None and self.reading.strict):
                batch.reject(column, gone, f"no {column}: {{}}")
        self.counts["no_bid"] += int(np.count_nonzero(no_bid & ~no_offer))
        self.counts["no_offer"] += int(np.count_nonzero(no_offer & ~no_bid))
        self.counts["neither"] += int(np.count_nonzero(no_bid & no_offer))
        self.counts["quotes"] += batch.rows
        return no_bid | no_offer

    def orders(self, batch: Batch) -> np.ndarray:
        out = self._start(batch, ORDER, ORDER_KIND)
        out["payload"]["side"] = self.sides(batch)
        (out["payload"]["price"],) = self.prices(batch, "price")
        out["payload"]["qty"] = self.sizes(batch, "qty")
        return out

    def _start(self, batch: Batch, layout: np.dtype, kind: int) -> np.ndarray:
        out = np.zeros(batch.rows, with_words(layout))
        out["size"] = layout.itemsize
        out["payload"]["kind"] = kind
        out["payload"]["event_ns"] = self.times(batch)
        out["payload"]["symbol"] = self.symbols(batch)  # a code until all names are known
        return out


def _absent(fields: Fields) -> np.ndarray:
    """Return a mask of the fields that stand for no price."""
    found = fields.lengths == 0
    for text in _NO_PRICE:
        found |= fields.equal(text)
    return found


@dataclass(frozen=True)
class MarketCsv(HeldMarket):
    """A market read from files.

    decimals: of the unit of prices. finest: where a price asks for it, "" if none needs more
    than DECIMALS.
    """

    decimals: int
    finest: str
    doubts: tuple[Doubt, ...]
    symbols: dict[str, str]


@dataclass
class _Rows:
    """The rows of one file: framed records, and the numbers of a sequence if it counts.

    pieces: (first row, decimals of the prices from there on).
    """

    records: np.ndarray
    sequence: np.ndarray | None
    pieces: list[tuple[int, int]]

    def rescale(self, decimals: int, columns: tuple[str, ...]) -> None:
        """Bring all prices to one unit."""
        ends = [start for start, _ in self.pieces[1:]] + [len(self.records)]
        for (start, known), end in zip(self.pieces, ends, strict=True):
            if known < decimals:
                for column in columns:
                    self.records["payload"][column][start:end] *= 10 ** (decimals - known)

    @property
    def payload(self) -> np.ndarray:
        """The records without what frames them."""
        return self.records["payload"]

    def times(self) -> np.ndarray:
        """Return the time of each row (uint64)."""
        return copied(self.payload["event_ns"])

    def keep(self, at: np.ndarray) -> None:
        """Keep some rows, by their numbers."""
        whole = self.records.view(f"V{self.records.itemsize}")  # fields would be copied one by one
        self.records = taken(whole, at).view(self.records.dtype)
        self.sequence = None if self.sequence is None else taken(self.sequence, at)

    def sort(self) -> None:
        """Bring the rows into the order of time."""
        self.keep(np.argsort(self.times(), kind="stable"))


def read_market(quotes: Path, orders: Path, reading: Reading = USUAL) -> MarketCsv:
    """Read and merge two files; raises CsvError with path, line and column."""
    reader = _Reader(reading)
    quote = _rows(quotes, QUOTE_COLUMNS, reader, reader.quotes)
    order = _rows(orders, ORDER_COLUMNS, reader, reader.orders)
    decimals, finest = reader.unit.decimals, reader.unit.finest
    quote.rescale(decimals, ("bid", "offer"))
    order.rescale(decimals, ("price",))
    files = {"quotes": quote, "orders": order}
    steps = [
        doubt
        for name, rows in files.items()
        for doubt in plausibility.steps_back(name, rows.payload["event_ns"])
    ]
    if reading.missing_side == "skip":
        quote.keep(places((quote.payload["bid"] > 0) & (quote.payload["offer"] > 0)))
    for step in steps:
        files[step.file].sort()
    merged, times = _merged(quote, order, reading.ties)
    payloads = [rows.payload for rows in files.values()]
    names = list(reader.codes)
    doubts = (
        *steps,
        *plausibility.counted(reader.counts, chosen=reading.missing_side is not None),
        *plausibility.doubts(payloads[0], payloads[1], merged, names, decimals),
    )
    if reading.strict and doubts:
        raise CsvError(quotes, 0, "", f"and {orders}: {doubts[0]}")
    alias = aliases(names)
    word = words([alias[name] for name in names])
    for payload, number in zip(payloads, ("quote_id", "order_id"), strict=True):
        for some in blocks(len(payload)):
            payload["symbol"][some] = word[payload["symbol"][some].astype(np.int64)]
            payload[number][some] = np.arange(some.start + 1, some.stop + 1)
    renamed = {alias[name]: name for name in names if alias[name] != name}
    return MarketCsv(quote.records, order.records, times, merged, decimals, finest, doubts, renamed)


def _rows(
    path: Path, columns: tuple[str, ...], reader: _Reader, make: Callable[[Batch], np.ndarray]
) -> _Rows:
    """Return all rows of one file in its order."""
    reader.latest = np.uint64(0)
    sequenced = reader.reading.ties == "file"
    records, sequence = Spill(with_words(_LAYOUTS[columns])), Spill(np.uint64)
    pieces, start = [], 0
    for batch in batches(path, (*columns, SEQUENCE) if sequenced else columns):
        made = make(batch)
        if sequenced:
            sequence.append(reader.whole(batch, SEQUENCE, "a number"))
        batch.check()
        records.append(made)
        pieces.append((start, reader.unit.decimals))
        start += len(made)
    numbers = sequence.array()
    return _Rows(records.array(), numbers if sequenced else None, pieces)


def _merged(quotes: _Rows, orders: _Rows, ties: Ties) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of both by time, as positions in quotes + orders, and their times."""
    times = [rows.times() for rows in (quotes, orders)]
    joined = spilled(times, np.uint64)
    if quotes.sequence is not None and orders.sequence is not None:
        sequence = spilled((quotes.sequence, orders.sequence), np.uint64)
        found = np.lexsort((sequence, joined))
    else:
        found = zeros(len(joined), np.int64)
        for own, other, begin, is_first in (
            (times[0], times[1], 0, ties == "quote-first"),
            (times[1], times[0], len(times[0]), ties != "quote-first"),
        ):
            for some in blocks(len(own)):
                before = np.searchsorted(other, own[some], "left" if is_first else "right")
                at = np.arange(some.start, some.stop)
                found[at + before] = begin + at
    return found, taken(joined, found)


def write_market_csv(
    quotes: Path,
    orders: Path,
    path: Path,
    progress: Progress | None = None,
    reading: Reading = USUAL,
) -> MarketCsv:
    """Write the merged stream of two CSV files to one file of framed records."""
    market = read_market(quotes, orders, reading)
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
    reading = Reading.of(recipe)
    paths = {key: Path(recipe[key]) for key in ("quotes", "orders")}
    hashes = {
        f"{key}_sha256": checked_sha256(path, recipe[f"{key}_sha256"])
        for key, path in paths.items()
    }
    market = read_market(paths["quotes"], paths["orders"], reading)
    return market.source(
        two=recipe["inputs"] == "two",
        warnings=plausibility.counts(market.doubts),
        symbols=market.symbols,
        recipe=hashes | {"price_decimals": market.decimals},
    )
