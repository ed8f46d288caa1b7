"""Ticker symbols made from the seed, and symbols as the 64-bit words they are on the wire."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from tickproof.generators.hashing import hashed, key_of
from tickproof.generators.layouts import framed

#: Reserved symbols of the probe orders. No quote ever carries one of them.
PROBE_SYMBOLS: Final = tuple(f"PROBE.{number:02d}" for number in range(16))

#: Legal symbols that are easily taken for something else: no value, a number, more than one field.
EDGE_SYMBOLS: Final = (
    *("NA", "NULL", "NAN", "None", "nan", "TRUE", "00017", "17", "1E5", "0", "-0", "INF", "0X1F"),
    *("A", "EIGHTLTR", "BRK.B", "A B", "C,D", "E\\N", 'F"G', "H'I", "J;K", "%s", "~", "\\"),
    *("N/A", "#N/A", "nil", "-", "1_000", "FALSE", "L|M", "eightltr"),
)
#: Where they stand among the symbols of a market with edges: every eighth, the fourth first.
_EDGE_FIRST: Final = 3
_EDGE_EVERY: Final = 8

_FIRST: Final = "ABCDEFGHIKLMNOPRSTUVW"
_BASE32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_REST: Final = "AEIOUBCDFGHKLMNPRSTVXYZ"


def tickers(seed: int, count: int, edges: bool = False) -> list[str]:
    """Return ``count`` distinct tickers of 2 to 5 capital letters; EDGE_SYMBOLS in between.

    The first of them do not depend on how many there are.
    """
    taken = EDGE_SYMBOLS if edges else ()
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
            if letters not in taken:
                chosen.setdefault(letters)
        start += count
    names = list(chosen)[:count]
    for place, edge in zip(range(_EDGE_FIRST, count, _EDGE_EVERY), taken, strict=False):
        names[place] = edge
    return names


def words(symbols: list[str] | tuple[str, ...]) -> np.ndarray:
    """Return symbols (ASCII, at most 8 characters) as uint64, space padded as on the wire."""
    padded = b"".join(symbol.encode("ascii").ljust(8) for symbol in symbols)
    if len(padded) != 8 * len(symbols):
        raise ValueError("symbol: expected at most 8 ASCII characters")
    return np.frombuffer(padded, "<u8").astype(np.uint64)


def with_words(payload: np.dtype) -> np.dtype:
    """Return the framed layout with the symbol as one integer: strings copy slowly."""
    names = list(payload.names or ())
    formats = ["<u8" if name == "symbol" else payload[name] for name in names]
    return framed(np.dtype(list(zip(names, formats, strict=True))))


def aliases(names: Iterable[str]) -> dict[str, str]:
    """Return, for each name, 1 to 8 ASCII characters that stand for it, all distinct.

    A name that fits stays as it is. Any other becomes its first letters and digits, a
    tilde and two characters of its hash: the same in every file, unless two collide.
    """
    names = sorted(set(names))
    alias = {name: name for name in names if len(name) <= 8 and name.isascii()}
    taken = set(alias)
    for name in names:
        if name not in alias:
            alias[name] = next(short for short in _shortened(name) if short not in taken)
            taken.add(alias[name])
    return alias


def _shortened(name: str) -> Iterator[str]:
    """Yield candidates with more and more of the hash, so that they do not run out."""
    stem = "".join(c for c in name if c.isascii() and c.isalnum())
    for attempt in itertools.count():
        digest = hashlib.sha256(f"{attempt}/{name}".encode("utf-8", "surrogatepass")).digest()
        width = min(2 + attempt // 4, 7)
        yield stem[: 7 - width] + "~" + "".join(_BASE32[byte % 32] for byte in digest[:width])
