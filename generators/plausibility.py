"""Signs that a recorded market is not what its reader takes it for: other clocks, names, units.

`doubts` is a pure function of the arrays of a market; each doubt says itself in words. A doubt
does not change what is read: it is a warning, or with ``strict`` an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from tickproof.generators.spill import Spill, blocks, places
from tickproof.generators.spread_rule import rejects, spread_limit

#: Fewer orders, or prices, than these say nothing by being all alike.
LEAST: Final = 10
#: Orders so soon before the first quote, or after the last, are within their time.
_SLACK_NS: Final = 10**9
#: The median order price may be this many times the midpoint that it meets, or that part of it.
_PRICE_RATIO: Final = 5
#: Ratios of two clocks that count in different units, with the words for it.
_UNITS: Final = {10**3: "a thousandth", 10**6: "a millionth", 10**9: "a billionth"}


@dataclass(frozen=True)
class Doubt:
    """Base of all doubts; str() of one is its sentence."""


@dataclass(frozen=True)
class Counted(Doubt):
    """Values that were read otherwise than they stand in the file, or that follow an odd rule."""

    count: int
    of: int


class CrossedQuotes(Counted):
    """Offers below their bids, neither of them missing."""

    def __str__(self) -> str:
        return f"{self.count:,} of {self.of:,} quotes are crossed: the rule accepts by them"


class CappedSizes(Counted):
    """Sizes beyond what a record holds."""

    def __str__(self) -> str:
        most = "429,496.7295"
        return f"{self.count:,} of {self.of:,} sizes are above {most}: they are written as that"


@dataclass(frozen=True)
class MissingSides(Doubt):
    """Quotes without a bid, without an offer, without both; nothing said what to do with them."""

    no_bid: int
    no_offer: int
    neither: int
    quotes: int

    def __str__(self) -> str:
        return (
            f"of {self.quotes:,} quotes {self.no_offer:,} have a bid and no offer, {self.no_bid:,} "
            f"an offer and no bid, {self.neither:,} neither: a missing side counts as the price 0, "
            "so no offer accepts, as a crossed quote does, and the others reject; "
            "--missing-side chooses"
        )


@dataclass(frozen=True)
class StepsBack(Doubt):
    """Times of a file that are before the time of the row above."""

    file: str
    steps: int
    rows: int
    furthest_ns: int

    def __str__(self) -> str:
        return (
            f"the time of the {self.file} steps back {self.steps:,} times in {self.rows:,} rows, "
            f"by up to {_length(self.furthest_ns)}: two clocks in one file, or rows out of order; "
            "they were sorted"
        )


@dataclass(frozen=True)
class TimesApart(Doubt):
    """Orders that do not lie within the time of the quotes; spans: first and last time."""

    outside: int
    orders: int
    quote_span: tuple[int, int]
    order_span: tuple[int, int]

    def __str__(self) -> str:
        early, late = sorted((self.quote_span[0], self.order_span[0]))
        apart = f"they begin {_length(late - early)} apart: another time zone?"
        for factor, part in _UNITS.items():
            if early and 0.5 < late / early / factor < 2:
                apart = f"one clock is {part} of the other: another unit of time?"
        return (
            f"{self.outside:,} of {self.orders:,} orders do not lie within the time of the quotes: "
            f"quotes from {_span(self.quote_span)}, orders from {_span(self.order_span)}; {apart}"
        )


@dataclass(frozen=True)
class OtherSymbols(Doubt):
    """Orders with a symbol that no quote has, and one symbol of each file."""

    orders: int
    of: int
    ordered: str
    quoted: str

    def __str__(self) -> str:
        return (
            f"{self.orders:,} of {self.of:,} orders have a symbol that no quote has, such as "
            f"{self.ordered!r}; the quotes have such as {self.quoted!r}"
        )


@dataclass(frozen=True)
class WholePrices(Doubt):
    """Bids and offers that are all whole dollars; power: they are multiples of 10**power."""

    prices: int
    power: int
    median_spread: int

    def __str__(self) -> str:
        unit = f", and multiples of {10**self.power:,}" if self.power else ""
        return (
            f"all {self.prices:,} bids and offers are whole numbers{unit}; the median spread is "
            f"{self.median_spread:,} dollars: are they in cents, or in another unit?"
        )


@dataclass(frozen=True)
class OtherScale(Doubt):
    """Order prices that are far from the quotes which they meet: median of price / midpoint."""

    orders: int
    ratio: float

    def __str__(self) -> str:
        return (
            f"the median of {self.orders:,} orders has {self.ratio:,.4g} times the price that its "
            "quote has: do the two files have another unit of price?"
        )


@dataclass(frozen=True)
class OneVerdict(Doubt):
    """Orders that all get the same verdict."""

    orders: int
    rejected: bool

    def __str__(self) -> str:
        found = ("all", "are") if self.rejected else ("none", "is")
        return f"{found[0]} of {self.orders:,} orders {found[1]} rejected"


def _length(ns: int) -> str:
    if ns < 10**9:
        return f"{ns / 1e6:,.6g} ms"
    seconds = ns / 10**9
    if seconds < 60:
        return f"{seconds:,.6g} s"
    return f"{seconds / 3600:,.4g} hours" if seconds < 10**6 else f"{seconds / 86_400:,.4g} days"


def _span(span: tuple[int, int]) -> str:
    return " to ".join(
        f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000):%Y-%m-%d %H:%M:%S}"
        if ns < 2**63
        else f"{ns} ns"
        for ns in span
    )


def counted(counts: Mapping[str, int], *, chosen: bool) -> Iterator[Doubt]:
    """Yield doubts about values that were counted; chosen: what becomes of missing sides was."""
    if counts["crossed"]:
        yield CrossedQuotes(counts["crossed"], counts["quotes"])
    if counts["capped_sizes"]:
        yield CappedSizes(counts["capped_sizes"], counts["sizes"])
    sides = MissingSides(*(counts[key] for key in ("no_bid", "no_offer", "neither", "quotes")))
    if sides.no_bid + sides.no_offer + sides.neither and not chosen:
        yield sides


def steps_back(file: str, times: np.ndarray) -> Iterator[StepsBack]:
    """Yield the doubt about times (uint64) in the order of their file, if there is one."""
    steps, furthest = 0, 0
    for some in blocks(len(times)):
        piece = times[max(some.start - 1, 0) : some.stop]
        back = np.flatnonzero(piece[1:] < piece[:-1])
        steps += len(back)
        furthest = max(furthest, int((piece[back] - piece[back + 1]).max(initial=0)))
    if steps:
        yield StepsBack(file, steps, len(times), furthest)


def latest_quotes(symbols: np.ndarray, is_quote: np.ndarray) -> np.ndarray:
    """Return, for each order of a merged stream, the place of its quote there, -1 for none."""
    by_symbol = np.argsort(symbols, kind="stable")
    ranked, at = symbols[by_symbol], np.arange(len(symbols))
    first = np.concatenate(([True], ranked[1:] != ranked[:-1]))[: len(ranked)]
    head = np.maximum.accumulate(np.where(first, at, 0))
    quote = np.maximum.accumulate(np.where(is_quote[by_symbol], at, -1))
    found = np.empty(len(symbols), np.int64)
    found[by_symbol] = np.where(quote >= head, by_symbol[quote], -1)
    return found[~is_quote]


def doubts(
    quotes: np.ndarray, orders: np.ndarray, merged: np.ndarray, names: Sequence[str], decimals: int
) -> Iterator[Doubt]:
    """Yield what is doubtful in a market, from its records alone.

    quotes, orders: payloads in order of time, their symbols as positions in ``names``.
    merged: the order of both, as positions in quotes + orders. decimals: of the unit of prices.
    """
    if not len(quotes) or not len(orders):
        return
    yield from _times(quotes["event_ns"], orders["event_ns"])
    yield from _symbols(quotes["symbol"], orders["symbol"], names)
    yield from _whole_prices(quotes["bid"], quotes["offer"], 10**decimals)
    ratios, rejected, limit = Spill(np.float64), 0, spread_limit(decimals)
    for price, bid, offer, seen in _orders_met(quotes, orders, merged, len(names)):
        told = (price > 0) & seen & (bid > 0) & (offer > 0)
        ratios.append(2 * price[told] / (bid + offer)[told])
        rejected += int(np.count_nonzero(rejects(bid, offer, seen, limit)))
    yield from _scale(ratios.array())
    if len(orders) >= LEAST and rejected in (0, len(orders)):
        yield OneVerdict(len(orders), rejected > 0)


def _orders_met(
    quotes: np.ndarray, orders: np.ndarray, merged: np.ndarray, symbols: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the price of some orders at a time, the bid and offer that each meets, if any."""
    latest = np.full(symbols, -1)
    for some in blocks(len(merged)):
        at = merged[some]
        is_quote = at < len(quotes)
        quoted, ordered = at[is_quote], at[~is_quote] - len(quotes)
        symbol = np.empty(len(at), np.int64)
        symbol[is_quote], symbol[~is_quote] = quotes["symbol"][quoted], orders["symbol"][ordered]
        place = latest_quotes(symbol, is_quote)
        quote = np.where(place >= 0, at[place], latest[symbol[~is_quote]])
        latest[symbol[is_quote]] = quoted  # of one symbol, the last
        seen = quote >= 0
        met = np.where(seen, quote, 0)
        yield orders["price"][ordered], quotes["bid"][met], quotes["offer"][met], seen


def _times(quotes: np.ndarray, orders: np.ndarray) -> Iterator[TimesApart]:
    spans = [(int(times[0]), int(times[-1])) for times in (quotes, orders)]
    low = np.uint64(max(spans[0][0] - _SLACK_NS, 0))
    high = np.uint64(min(spans[0][1] + _SLACK_NS, 2**64 - 1))
    pieces = (orders[some] for some in blocks(len(orders)))
    outside = sum(int(np.count_nonzero((one < low) | (one > high))) for one in pieces)
    if 2 * outside > len(orders):
        yield TimesApart(outside, len(orders), spans[0], spans[1])


def _symbols(quotes: np.ndarray, orders: np.ndarray, names: Sequence[str]) -> Iterator[Doubt]:
    known = np.zeros(len(names), bool)
    for some in blocks(len(quotes)):
        known[quotes[some]] = True
    unknown = places(~known[orders])
    if 2 * len(unknown) > len(orders):
        ordered = names[int(orders[unknown[0]])]
        quoted = names[int(quotes[0])]
        yield OtherSymbols(len(unknown), len(orders), ordered[:40], quoted[:40])


def _whole_prices(bid: np.ndarray, offer: np.ndarray, unit: int) -> Iterator[WholePrices]:
    prices, divisor, spreads = 0, 0, Spill(np.int64)
    for some in blocks(len(bid)):
        sides = np.concatenate((bid[some], offer[some]))
        prices += int(np.count_nonzero(sides > 0))
        divisor = math.gcd(divisor, int(np.gcd.reduce(sides)))
        if divisor % unit:
            return
        both = (bid[some] > 0) & (offer[some] > 0)
        spreads.append((offer[some] - bid[some])[both])
    spread = spreads.array()
    if prices < LEAST or not len(spread):
        return
    power = 0
    while not divisor % (unit * 10 ** (power + 1)):
        power += 1
    yield WholePrices(prices, power, int(_median(spread)) // unit)


def _scale(ratios: np.ndarray) -> Iterator[OtherScale]:
    """Yield the doubt about orders' prices, as parts of the midpoints that they meet."""
    if len(ratios) >= LEAST:
        ratio = _median(ratios)
        if not 1 / _PRICE_RATIO < ratio < _PRICE_RATIO:
            yield OtherScale(len(ratios), ratio)


def _median(values: np.ndarray) -> float:
    """Return the median of an array, which is sorted for it."""
    values.sort()
    return (float(values[(len(values) - 1) // 2]) + float(values[len(values) // 2])) / 2


def counts(found: Sequence[Doubt]) -> dict[str, int]:
    """Return counts by name, for the record of a run."""
    named: dict[str, int] = {}
    for doubt in found:
        match doubt:
            case CrossedQuotes():
                named["crossed_quotes"] = doubt.count
            case CappedSizes():
                named["capped_sizes"] = doubt.count
            case StepsBack():
                named["times_back"] = named.get("times_back", 0) + doubt.steps
    return named
