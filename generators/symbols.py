"""Ticker symbols made from the seed, and symbols as the 64-bit words they are on the wire."""

from __future__ import annotations

from typing import Final

import numpy as np

from generators.hashing import hashed, key_of

#: Reserved symbols of the probe orders. No quote ever carries one of them.
PROBE_SYMBOLS: Final = tuple(f"PROBE.{number:02d}" for number in range(16))

_FIRST: Final = "ABCDEFGHIKLMNOPRSTUVW"
_REST: Final = "AEIOUBCDFGHKLMNPRSTVXYZ"


def tickers(seed: int, count: int) -> list[str]:
    """Return ``count`` distinct tickers of 2 to 5 capital letters."""
    chosen: dict[str, None] = {}
    key = key_of(seed, "tickers")
    start = 0
    while len(chosen) < count:
        for word in hashed(key, np.arange(start, start + count, dtype=np.uint64)).tolist():
            length = 2 + word % 4
            word >>= 2
            letters = _FIRST[word % len(_FIRST)]
            for _ in range(length - 1):
                word //= 32
                letters += _REST[word % len(_REST)]
            chosen.setdefault(letters)
        start += count
    return list(chosen)[:count]


def words(symbols: list[str] | tuple[str, ...]) -> np.ndarray:
    """Return symbols (ASCII, at most 8 characters) as uint64, space padded as on the wire."""
    padded = b"".join(symbol.encode("ascii").ljust(8) for symbol in symbols)
    if len(padded) != 8 * len(symbols):
        raise ValueError("symbol: expected at most 8 ASCII characters")
    return np.frombuffer(padded, "<u8").astype(np.uint64)
