"""Price paths: mean-reverting value noise on a hashed lattice, in whole ticks.

Prices are int64 ten-thousandths of a dollar. README.md gives the formulas.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from tickproof.generators.hashing import hashed, key_of, scaled
from tickproof.generators.spread_rule import FIVE_CENTS, MAX_PRICE

#: Quotes (and orders) between two points of the finest lattice.
BLOCK_BITS: Final = 13
BLOCK: Final = 1 << BLOCK_BITS

#: Spread from which a quote rejects every order, and one in how many quotes is a near miss.
SPREAD_LIMIT: Final = FIVE_CENTS
NEAR_MISS_ONE_IN: Final = 256

#: Weights of octaves with periods of 1, 2, 4 ... blocks, about the square root of the
#: period as in a random walk; they add up to _WEIGHT.
_WEIGHTS: Final = np.array([10, 14, 20, 28, 40, 56, 80, 113], np.int64)
_WEIGHT: Final = int(_WEIGHTS.sum())
_OCTAVES: Final = np.arange(len(_WEIGHTS), dtype=np.uint64)
_CENT: Final = 100
_LOW_TICK: Final = 10


class PricePaths:
    """The paths of all symbols of one market.

    Every fifth symbol (1, 6, 11 ...) costs less than a dollar, so that the relative
    clause of the reject rule can be met alone; all others cost more than 4 dollars.
    """

    def __init__(self, seed: int, symbols: int) -> None:
        index = np.arange(symbols, dtype=np.uint64)
        h = hashed(key_of(seed, "prices"), index)
        self._low = index % 5 == 1
        self._tick = np.where(self._low, _LOW_TICK, _CENT).astype(np.int64)
        octave = np.uint64(500) << (h % 7)
        base = np.where(self._low, 300 + (h >> 32) % 600, octave + (h >> 32) % octave)
        self._base_256 = base.astype(np.int64) << 8
        self._key = key_of(seed, "lattice")
        self._count = symbols
        # Two blocks are in use at a time: the ends of the one being made.
        self._levels = lru_cache(maxsize=4)(self._levels_at)

    def _levels_at(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mid prices and spreads at the start of a block, in 1/256 ticks, by symbol."""
        at = np.uint64(block)
        left = at >> _OCTAVES
        cell = np.arange(self._count, dtype=np.uint64)[:, None] << np.uint64(40)
        cell = cell | (_OCTAVES << np.uint64(36))
        a = hashed(self._key, cell + left)
        b = hashed(self._key, cell + left + np.uint64(1))
        frac = (at & ((np.uint64(1) << _OCTAVES) - np.uint64(1))).astype(np.int64)
        period = np.int64(1) << _OCTAVES.astype(np.int64)
        noise_a = (a >> np.uint64(48)).astype(np.int64)
        noise_b = (b >> np.uint64(48)).astype(np.int64)
        noise = (noise_a * (period - frac) + noise_b * frac) // period - 32768
        # At most a tenth of the base price away from it.
        away = self._base_256 * (noise @ _WEIGHTS) // (32768 * _WEIGHT * 10)
        # Every octave's low bits, averaged: 0 to 511, that is 0 to 2 ticks above the least.
        spread = (a & np.uint64(511)).astype(np.int64) * (period - frac)
        spread = (spread + (b & np.uint64(511)).astype(np.int64) * frac) // period
        return self._base_256 + away, spread[:, :3].sum(axis=1) // 3

    def _ticks(self, which: int, block: int, symbol: np.ndarray, frac: np.ndarray) -> np.ndarray:
        left, right = self._levels(block)[which], self._levels(block + 1)[which]
        value = (right - left)[symbol]
        value *= frac
        value >>= BLOCK_BITS
        value += left[symbol]
        return value

    def mid(self, block: int, symbol: np.ndarray, frac: np.ndarray) -> np.ndarray:
        """Return mid prices of symbols at ``frac`` (0 to BLOCK - 1) of one block."""
        value = self._ticks(0, block, symbol, frac)
        value >>= 8
        value *= self._tick[symbol]
        return value

    def quotes(
        self, block: int, symbol: np.ndarray, frac: np.ndarray, h: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return normal bids and offers: spreads of 1 to 3 ticks, never a reject."""
        noise = h.view(np.int64)
        spread = self._ticks(1, block, symbol, frac)
        spread += (noise >> 20) & 255
        spread >>= 8
        spread += 1
        bid = self._ticks(0, block, symbol, frac)
        bid += (noise >> 40) & 255
        bid += (noise >> 48) & 255
        bid -= 255
        bid >>= 8
        bid -= spread >> 1
        tick = self._tick[symbol]
        bid *= tick
        spread *= tick
        spread += bid
        return bid, spread

    def near_misses(
        self,
        symbol: np.ndarray,
        h: np.ndarray,
        allowed: np.ndarray,
        crossed: bool,
        edges: bool,
        bid: np.ndarray,
        offer: np.ndarray,
    ) -> None:
        """Turn a few quotes, in place, into others that accept.

        They are just short of a reject; if ``crossed``, or with ``edges``, crossed; with these
        also locked, without an offer, and locked at the highest price.
        """
        choice = (h >> 44) % NEAR_MISS_ONE_IN
        near = np.flatnonzero((choice == 0) & allowed)
        low = self._low[symbol[near]]
        unit = bid[near] // 40
        offer[near] = np.where(low, 41 * unit - 1, bid[near] + SPREAD_LIMIT - 1)
        bid[near] = np.where(low, 39 * unit, bid[near])
        if crossed or edges:
            swap = np.flatnonzero((choice == 1) & allowed)
            bid[swap], offer[swap] = offer[swap], bid[swap]
        if edges:
            bid[(choice == 2) & allowed] = MAX_PRICE
            locked = np.flatnonzero(((choice == 2) | (choice == 3)) & allowed)
            offer[locked] = bid[locked]
            offer[(choice == 4) & allowed] = 0

    def abnormal(
        self, symbol: np.ndarray, bid: np.ndarray, offer: np.ndarray, h: np.ndarray, edges: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return quotes that reject: exactly at the limit, beyond it, 0 and 0, or without a bid.

        Dear symbols meet the absolute clause, cheap ones the relative clause alone:
        with bid 39u - e and offer 41u + e, 40 * spread = bid + offer + 80e. Only with ``edges``
        is there one without a bid.
        """
        low = self._low[symbol]
        kind = h & 7
        exact = kind < 4
        unit = (bid + offer) // 80
        room = ((SPREAD_LIMIT - 1 - 2 * unit) // 2).astype(np.uint64)
        extra = np.where(exact, 0, scaled((h >> 8) & 0xFFFF, 16, room) + 1).astype(np.int64)
        wide = SPREAD_LIMIT + np.where(exact, 0, (h >> 8) % 40 + 1).astype(np.int64) * _CENT
        new_bid = np.where(low, 39 * unit - extra, bid)
        new_offer = np.where(low, 41 * unit + extra, bid + wide)
        halted = kind == 7
        new_bid[halted] = 0
        new_offer[halted] = 0
        if edges:
            new_bid[kind == 6] = 0
        return new_bid, new_offer
