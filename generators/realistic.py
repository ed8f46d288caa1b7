"""A market with the habits of real ones: bursts, favourites, calm and nervous hours, halts.

Where `market` gives each record alone, here a record depends on those before it, so a market is
made as a whole, in memory. README.md beside this file says what is modelled, and which figures
tests hold it to. Only integers are computed: the same seed gives the same bytes anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Final

import numpy as np

from tickproof.generators.hashing import MAX_SEED, hashed, key_of, scaled
from tickproof.generators.held_market import HeldMarket
from tickproof.generators.layouts import BUY, ORDER, ORDER_KIND, QUOTE, QUOTE_KIND
from tickproof.generators.market import ACCOUNTS, MAX_SYMBOLS
from tickproof.generators.symbols import tickers, with_words, words

#: 2 January 2024, 9:30 in New York, and the length of the session that follows.
START_NS: Final = 1_704_205_800_000_000_000
SESSION_NS: Final = 23_400 * 10**9
#: A market is held in memory, at some 250 bytes a record while it is made.
MAX_RECORDS: Final = 10_000_000

#: Records for each slice of the session, from open to close: a U, steeper at both ends.
_SLICES: Final = 78
_INTENSITY: Final = np.array(
    [(abs(2 * i - _SLICES + 1) ** 4 << 4) // _SLICES**4 + 4 for i in range(_SLICES)], np.uint64
)
#: Records of one burst, of one symbol, follow each other by this much on average.
_WITHIN_NS: Final = 400_000
#: A dollar in units of price; from it on a tick is a cent, below a hundredth of one.
_DOLLAR: Final = 10_000
_CENT: Final = 100
#: How much more a symbol moves in a nervous hour than in a calm one, by a byte that is drawn.
_MOODS: Final = np.array([1] * 8 + [2] * 5 + [4] * 2 + [9], np.int64)
#: Hours of a mood, of the session.
_MOOD_SLICES: Final = 13
#: One symbol in so many is halted once, and one in so many changes its name.
_HALTED_ONE_IN: Final = 50
_RENAMED_ONE_IN: Final = 100
#: Of 1,024 quotes: locked, crossed, without an offer, without a bid.
_LOCKED: Final = 6
_CROSSED: Final = 2
_NO_OFFER: Final = 3
_NO_BID: Final = 3

_QUOTE: Final = with_words(QUOTE)
_ORDER: Final = with_words(ORDER)


@dataclass(frozen=True)
class RealisticParams:
    """Parameters that decide every byte of such a market.

    records: quotes and orders together. quotes_per_order: quotes for each order, on average.
    """

    records: int
    seed: int = 1
    symbols: int = 350
    quotes_per_order: int = 4

    def __post_init__(self) -> None:
        ranges = {
            "records": (0, MAX_RECORDS),
            "seed": (0, MAX_SEED),
            "symbols": (1, MAX_SYMBOLS),
            "quotes_per_order": (1, 1000),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(f"{name}: expected a whole number {low} to {high}, got {value!r}")


class _Draws:
    """Named columns of random integers, one for each of ``count`` indexes."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def bits(self, name: str, count: int) -> np.ndarray:
        """Return uint64, evenly spread."""
        return hashed(key_of(self._seed, f"realistic/{name}"), np.arange(count, dtype=np.uint64))

    def below(self, name: str, count: int, limit: int | np.ndarray) -> np.ndarray:
        """Return int64 from 0 on, below a limit of at most 2**31."""
        return scaled(self.bits(name, count) >> 32, 32, np.uint64(limit)).astype(np.int64)


@cache
def _exponential() -> np.ndarray:
    """Return 4,096 quantiles of an exponential distribution of mean 1,024.

    By Decimal, which rounds correctly everywhere; a float's log need not.
    """
    return np.array([int(-1024 * (Decimal(2 * i + 1) / 8192).ln()) for i in range(4096)], np.int64)


def make(params: RealisticParams) -> HeldMarket:
    """Return the market of some parameters."""
    draws = _Draws(params.seed)
    symbol, time = _arrivals(draws, params)
    count = len(symbol)
    is_order = draws.below("orders", count, params.quotes_per_order + 1) == 0
    tape = _Tape(draws, params.symbols, symbol, time)
    names = _names(draws, params, symbol, time)
    quotes = np.zeros(int((~is_order).sum()), _QUOTE)
    orders = np.zeros(int(is_order.sum()), _ORDER)
    for out, at, kind in ((quotes, ~is_order, QUOTE_KIND), (orders, is_order, ORDER_KIND)):
        out["size"] = QUOTE.itemsize
        out["payload"]["kind"] = kind
        out["payload"]["symbol"] = names[at]
        out["payload"]["event_ns"] = time[at]
    _fill_quotes(quotes["payload"], tape, ~is_order)
    _fill_orders(orders["payload"], tape, is_order)
    order = np.empty(count, np.int64)
    order[~is_order] = np.arange(len(quotes))
    order[is_order] = len(quotes) + np.arange(len(orders))
    return HeldMarket(quotes, orders, time, order)


def _arrivals(draws: _Draws, params: RealisticParams) -> tuple[np.ndarray, np.ndarray]:
    """Return symbol and event_ns of each record, by time: bursts of one symbol each."""
    # Burst sizes have no scale of their own up to 256: many of one record, a few of hundreds.
    sizes = 255 // (draws.below("sizes", params.records, 255) + 1) + 1
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), params.records, side="left") + 1]
    weights = (2**40 // np.arange(1, params.symbols + 1)).cumsum()
    picked = scaled(draws.bits("symbols", len(sizes)) >> 40, 24, np.uint64(weights[-1] >> 24))
    of_burst = np.searchsorted(weights, picked.astype(np.int64) << 24, side="right")
    whole = np.repeat(np.arange(len(sizes)), sizes)[: params.records]
    shares = np.concatenate(([0], np.cumsum(_INTENSITY))).astype(np.int64)
    at = draws.below("bursts", len(sizes), int(shares[-1]) << 16)
    slice_ = np.searchsorted(shares << 16, at, side="right") - 1
    span = SESSION_NS // _SLICES
    inside = draws.below("inside", len(sizes), 2**22) * span >> 22
    gaps = _exponential()[draws.below("gaps", len(whole), 4096)] * _WITHIN_NS >> 10
    first = np.concatenate(([True], whole[1:] != whole[:-1]))[: len(whole)]
    time = _since_first(gaps, first) + (slice_ * span + inside)[whole] + START_NS
    by_time = np.argsort(time, kind="stable")
    return of_burst[whole][by_time], time[by_time].astype(np.uint64)


def _since_first(steps: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return running sums of steps within groups, which begin where ``first`` is set, at 0."""
    total = np.cumsum(np.where(first, 0, steps))
    starts = np.flatnonzero(first)
    return total - np.repeat(total[starts], np.diff(np.append(starts, len(steps))))


class _Tape:
    """Prices at each record: mid, tick and spread in units of price; and who is halted.

    The mid is a random walk of each symbol, whose steps are larger in nervous hours.
    """

    def __init__(self, draws: _Draws, symbols: int, symbol: np.ndarray, time: np.ndarray) -> None:
        self.draws, self.count, self.symbol = draws, len(symbol), symbol
        slice_ = (time - START_NS).astype(np.int64) * _SLICES // SESSION_NS
        slice_ = np.minimum(slice_, _SLICES - 1)
        mood = symbol * _MOOD_SLICES + slice_ * _MOOD_SLICES // _SLICES
        moods = _MOODS[draws.below("moods", symbols * _MOOD_SLICES, len(_MOODS))][mood]
        # A few dollars for most, hundreds for some, less than one for one in ten.
        octave = 1 << draws.below("octaves", symbols, 9)
        base = _DOLLAR * octave + draws.below("bases", symbols, _DOLLAR * 512) % (_DOLLAR * octave)
        cheap = draws.below("cheap", symbols, 10) == 0
        base = np.where(cheap, 2_000 + draws.below("pennies", symbols, 9_000), base)
        walk = self._walk(moods, symbols)
        mid = base[symbol] + (base[symbol] * walk >> 20)
        self.tick = np.where(mid < _DOLLAR, 1, _CENT)
        self.mid = np.maximum(mid // self.tick, 4) * self.tick
        # In hundred-thousandths of the price: the rarer a symbol, the wider its market.
        wide = 10 + 2_000 * np.arange(symbols) // (symbols + 200)
        opening = 1 + 3 * (slice_ == 0)
        drawn = _exponential()[draws.below("spreads", self.count, 4096)]
        spread = self.mid * (wide[symbol] * opening * moods) // 100_000 * drawn >> 10
        self.spread = (spread // self.tick + 1) * self.tick
        self.halted = self._halts(symbols, time)

    def _walk(self, moods: np.ndarray, symbols: int) -> np.ndarray:
        """Return how far each record's price is from its base, in 2**-20 of it, above -0.9."""
        bits = self.draws.bits("steps", self.count)
        normal = sum(((bits >> (16 * i)) & 0xFFFF).astype(np.int64) for i in range(4)) - 131_070
        by_symbol = np.argsort(self.symbol, kind="stable")
        many = np.bincount(self.symbol, minlength=symbols)
        # A session moves a symbol by some per cent, however many records it has.
        length = np.maximum(np.array([int(n) for n in np.sqrt(many)]), 16)
        steps = (normal * moods // length[self.symbol])[by_symbol]
        first = np.concatenate(([True], np.diff(self.symbol[by_symbol]) != 0))[: self.count]
        walk = np.empty(self.count, np.int64)
        walk[by_symbol] = _since_first(steps, first) >> 3
        return np.maximum(walk, -(9 << 20) // 10)

    def _halts(self, symbols: int, time: np.ndarray) -> np.ndarray:
        """Return whether the symbol of each record is halted then: for 5 to 35 minutes."""
        chosen = self.draws.below("halts", symbols, _HALTED_ONE_IN) == 0
        chosen[min(1, symbols - 1)] = symbols > 1  # a busy one is always among them
        minute = 60 * 10**9
        start = START_NS + (30 + self.draws.below("halted", symbols, 300)) * minute
        end = start + (5 + self.draws.below("lasting", symbols, 30)) * minute
        at = time.astype(np.int64)
        symbol = self.symbol
        return np.asarray(chosen[symbol] & (at >= start[symbol]) & (at < end[symbol]))


def all_names(params: RealisticParams) -> list[str]:
    """Return every symbol that may occur: those of the open, then those that replace them."""
    return tickers(params.seed, 2 * params.symbols)


def _names(
    draws: _Draws, params: RealisticParams, symbol: np.ndarray, time: np.ndarray
) -> np.ndarray:
    """Return the symbol of each record as a word; a few change in mid-session, for good."""
    names = words(all_names(params))
    renamed = draws.below("renamed", params.symbols, _RENAMED_ONE_IN) == 0
    renamed[min(2, params.symbols - 1)] = params.symbols > 2  # a busy one is always among them
    noon = START_NS + draws.below("noon", params.symbols, 2**30) * (SESSION_NS // 2**30)
    later = renamed[symbol] & (time.astype(np.int64) >= noon[symbol])
    return np.asarray(names[symbol + later * params.symbols])


def _fill_quotes(payload: np.ndarray, tape: _Tape, at: np.ndarray) -> None:
    count = len(payload)
    spread, tick = tape.spread[at], tape.tick[at]
    bid = np.maximum(tape.mid[at] - spread // 2 // tick * tick, tick)
    offer = bid + spread
    odd = tape.draws.below("odd", count, 1024)
    limits = np.cumsum((_LOCKED, _CROSSED, _NO_OFFER, _NO_BID))
    offer = np.where(odd < limits[0], bid, offer)
    crossed = (odd >= limits[0]) & (odd < limits[1])
    offer = np.where(crossed, np.maximum(bid - tick, tick), offer)
    halted = tape.halted[at]
    no_offer = halted | ((odd >= limits[1]) & (odd < limits[2]))
    no_bid = halted | ((odd >= limits[2]) & (odd < limits[3]))
    payload["quote_id"] = np.arange(1, count + 1)
    payload["bid"] = np.where(no_bid, 0, bid)
    payload["offer"] = np.where(no_offer, 0, offer)
    for name, gone in (("bid_size", no_bid), ("offer_size", no_offer)):
        payload[name] = np.where(gone, 0, _lots(tape.draws, name, count))


def _fill_orders(payload: np.ndarray, tape: _Tape, at: np.ndarray) -> None:
    count, draws = len(payload), tape.draws
    side = draws.below("sides", count, 2)
    # Half are at the market, the others up to some ticks away from it.
    away = _exponential()[draws.below("away", count, 4096)] >> 8
    away *= draws.below("limit", count, 2) * tape.tick[at]
    ahead = tape.spread[at] // 2 // tape.tick[at] * tape.tick[at]
    price = tape.mid[at] + np.where(side == 0, ahead - away, away - ahead)
    payload["side"] = BUY + side
    payload["order_id"] = np.arange(1, count + 1)
    payload["price"] = np.maximum(price, tape.tick[at])
    payload["qty"] = _lots(draws, "qty", count)
    weights = (2**32 // np.arange(1, ACCOUNTS + 1)).cumsum()
    drawn = scaled(draws.bits("accounts", count) >> 32, 32, np.uint64(weights[-1] >> 8))
    payload["account"] = np.searchsorted(weights >> 8, drawn.astype(np.int64), side="right")
    payload["client_tag"] = draws.bits("tags", count) >> 1


def _lots(draws: _Draws, name: str, count: int) -> np.ndarray:
    """Return sizes: lots of a hundred, few for most and many for some; one in eight is odd."""
    lots = _exponential()[draws.below(name, count, 4096)] >> 9
    size = (lots * lots // 2 + 1) * 100
    odd = draws.below(f"{name}/odd", count, 800)
    return np.where(odd < 100, odd + 1, size)
