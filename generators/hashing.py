"""Counter-based hashing: the value at an index is a function of (seed, name, index).

Only 64-bit integer arithmetic is used, so the bytes do not depend on the machine,
on SIMD, on libm, or on how a stream is cut into chunks.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MUL1: Final = 0xBF58476D1CE4E5B9
_MUL2: Final = 0x94D049BB133111EB
_MASK: Final = 2**64 - 1
#: The largest seed: 64 bits, and above them 128 of a secret.
MAX_SEED: Final = 2**192 - 1


def key_of(seed: int, name: str) -> int:
    """Return the key of one named stream of hashes; seed is 0 to MAX_SEED.

    It has 64 bits, or 256 for a seed with a secret.
    """
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed: expected 0 to 2**192 - 1, got {seed}")
    size = 32 if seed > _MASK else 8
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:size], "little")


def mix(x: np.ndarray) -> np.ndarray:
    """Scramble a uint64 array in place and return it: a bijection of 64-bit values."""
    shifted = x >> 30
    x ^= shifted
    x *= _MUL1
    np.right_shift(x, 27, out=shifted)
    x ^= shifted
    x *= _MUL2
    np.right_shift(x, 31, out=shifted)
    x ^= shifted
    return x


def _rounds(key: int) -> tuple[int, ...]:
    """Return the 64-bit keys of the rounds of ``mix``, one or four.

    With one, whoever knows one value can compute the key, and with it all others.
    """
    return (key,) if key <= _MASK else tuple(key >> shift & _MASK for shift in (0, 64, 128, 192))


def hashed(key: int, index: np.ndarray) -> np.ndarray:
    """Return one uint64 for each index (uint64 array); distinct indexes, distinct values."""
    first, *others = _rounds(key)
    x = index * np.uint64(_GOLDEN)
    x += np.uint64(first)
    mix(x)
    for other in others:
        x ^= np.uint64(other)
        mix(x)
    return x


def index_of(key: int, value: int) -> int:
    """Return the index at which ``hashed`` gives ``value``: its inverse."""
    first, *others = _rounds(key)
    x = _unmixed(value)
    for other in reversed(others):
        x = _unmixed(x ^ other)
    return (x - first) * pow(_GOLDEN, -1, 2**64) & _MASK


def _unmixed(x: int) -> int:
    x = _unshift(x, 31)
    x = _unshift(x * pow(_MUL2, -1, 2**64) & _MASK, 27)
    return _unshift(x * pow(_MUL1, -1, 2**64) & _MASK, 30)


def _unshift(y: int, bits: int) -> int:
    x = y
    for _ in range(64 // bits):
        x = y ^ (x >> bits)
    return x


def key_avoiding(seed: int, name: str, values: tuple[int, ...], indexes: int = 2**48) -> int:
    """Return a key under which none of ``values`` is hashed from an index below ``indexes``.

    So hand-picked values can be put beside hashed ones and all stay distinct.
    """
    key = key_of(seed, name)
    while any(index_of(key, value) < indexes for value in values):
        key = key & ~_MASK | (key + 1) & _MASK
    return key


def scaled(bits: np.ndarray, width: int, count: int | np.ndarray) -> np.ndarray:
    """Map ``width``-bit values evenly to 0 .. count - 1, without a division."""
    return (bits * count) >> width
