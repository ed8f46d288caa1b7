"""Signs that a recorded market is not what its reader takes it for: other clocks, names, units.

`doubts` is a pure function of the arrays of a market; each doubt says itself in words. A doubt
does not change what is read: it is a warning, or with ``strict`` an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

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
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        yield StepsBack(file, len(back), len(times), int((times[back] - times[back + 1]).max()))


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
    symbols = np.concatenate((quotes["symbol"], orders["symbol"]))[merged]
    is_quote = merged < len(quotes)
    place = latest_quotes(symbols, is_quote)
    seen = place >= 0
    quote = np.where(seen, merged[place], 0)
    bid, offer = quotes["bid"][quote], quotes["offer"][quote]
    price = orders["price"][merged[~is_quote] - len(quotes)]
    yield from _scale(price, np.where(seen & (bid > 0) & (offer > 0), bid + offer, 0))
    rejected = rejects(bid, offer, seen, spread_limit(decimals))
    if len(orders) >= LEAST and (rejected.all() or not rejected.any()):
        yield OneVerdict(len(orders), bool(rejected[0]))


def _times(quotes: np.ndarray, orders: np.ndarray) -> Iterator[TimesApart]:
    spans = [(int(times[0]), int(times[-1])) for times in (quotes, orders)]
    low = np.uint64(max(spans[0][0] - _SLACK_NS, 0))
    high = np.uint64(min(spans[0][1] + _SLACK_NS, 2**64 - 1))
    outside = int(np.count_nonzero((orders < low) | (orders > high)))
    if 2 * outside > len(orders):
        yield TimesApart(outside, len(orders), spans[0], spans[1])


def _symbols(quotes: np.ndarray, orders: np.ndarray, names: Sequence[str]) -> Iterator[Doubt]:
    known = np.zeros(len(names), bool)
    known[quotes] = True
    unknown = ~known[orders]
    if 2 * np.count_nonzero(unknown) > len(orders):
        ordered = names[int(orders[np.argmax(unknown)])]
        quoted = names[int(quotes[0])]
        yield OtherSymbols(int(unknown.sum()), len(orders), ordered[:40], quoted[:40])


def _whole_prices(bid: np.ndarray, offer: np.ndarray, unit: int) -> Iterator[WholePrices]:
    both = (bid > 0) & (offer > 0)
    prices = np.concatenate((bid[bid > 0], offer[offer > 0]))
    if len(prices) < LEAST or not both.any() or (prices % unit).any():
        return
    power = 0
    while not (prices % (unit * 10 ** (power + 1))).any():
        power += 1
    spread = int(np.median((offer - bid)[both])) // unit
    yield WholePrices(len(prices), power, spread)


def _scale(price: np.ndarray, twice_the_midpoint: np.ndarray) -> Iterator[OtherScale]:
    told = (price > 0) & (twice_the_midpoint > 0)
    if np.count_nonzero(told) >= LEAST:
        ratio = float(np.median(2 * price[told] / twice_the_midpoint[told]))
        if not 1 / _PRICE_RATIO < ratio < _PRICE_RATIO:
            yield OtherScale(int(told.sum()), ratio)


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
