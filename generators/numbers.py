"""Input of the apps passthrough, double and count: each record a function of its index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.generators.choices import KEY_SHAPES, KeyShape
from tickproof.generators.hashing import MAX_SEED, hashed, key_avoiding, key_of, scaled
from tickproof.generators.layouts import COUNT_IN, NUMBER, framed, opaque

_MASK: Final = 2**64 - 1
#: Odd, so that multiples of different numbers differ in any number of low bits that hold them.
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
#: The first records of app ``double``: where doubling overflows, and its neighbours.
EDGE_NUMBERS: Final = tuple(
    number & _MASK
    for number in (
        *(0, -1, 1, -(2**63), 2**63 - 1, 2**62, -(2**62), 2**62 - 1, -(2**62) - 1),
        *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**53 + 1, -(2**53) - 1),
    )
)
#: What comes next with ``edges``: the ends of shorter types.
SMALL_NUMBERS: Final = tuple(
    number & _MASK
    for number in (
        *(2, 100, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**16),
        *(-2, -128, -129, -(2**15), -(2**15) - 1, -(2**31), -(2**31) - 1),
    )
)
#: The first keys where edge keys are asked for: ends of the range, then keys that are
#: equal in their low 32 bits, in their high 32 bits, or once they went through a float.
EDGE_KEYS: Final = (
    *(0, 2**64 - 1, 1, 2**63, 2**63 - 1, 2**32, 2**32 - 1),
    *(0x00000001_89ABCDEF, 0x00000002_89ABCDEF, 0x01234567_00000001, 0x01234567_00000002),
    *(2**53, 2**53 + 1),
)
#: What comes next with ``edges``: the ends of shorter types.
SMALL_KEYS: Final = (2, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31)
#: Values of a stream with edges, one in 64: no change, and what shorter or other types do not hold.
EDGE_VALUES: Final = (
    *(0, 0, 0, 1, -1, 2, 2**8, 2**15, -(2**15) - 1, 2**16, 2**31, -(2**31) - 1, 2**32, -(2**32)),
    *(2**53 + 1, -(2**53) - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)),
)
#: Where keys of the shape "limits" lie: on both sides of these.
KEY_LIMITS: Final = (0, 2**63, 2**32, 2**31, 2**53)
_MAX_KEYS: Final = 2**24
_CHUNK_BYTES: Final = 1 << 20


def _check(name: str, value: int, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name}: expected a whole number {low} to {high}, got {value!r}")


class Numbers:
    """Signed integers for app ``double``, all distinct, EDGE_NUMBERS first.

    edges: then SMALL_NUMBERS.
    """

    dtype = framed(NUMBER)

    def __init__(self, seed: int, edges: bool = False) -> None:
        self._edges = EDGE_NUMBERS + SMALL_NUMBERS * edges
        self._key = key_avoiding(seed, "numbers", self._edges)

    def records(self, start: int, stop: int) -> np.ndarray:
        """Return records [start, stop) as framed NUMBER records."""
        out = np.empty(stop - start, self.dtype)
        x = hashed(self._key, np.arange(start, stop, dtype=np.uint64))
        edges = self._edges[start:stop]
        x[: len(edges)] = edges
        out["size"] = NUMBER.itemsize
        out["payload"]["x"] = x.view(np.int64)
        return out


class Payloads:
    """Opaque payloads of ``size`` bytes, all distinct from 8 bytes on."""

    def __init__(self, seed: int, size: int) -> None:
        _check("size", size, 1, 1 << 20)
        self._size = size
        self._key = key_of(seed, "payloads")
        self._filler = key_of(seed, "payload filler")
        self.dtype = framed(opaque(size))

    def records(self, start: int, stop: int) -> np.ndarray:
        """Return records [start, stop): the first 8 bytes are a scrambled index."""
        index = np.arange(start, stop, dtype=np.uint64)
        words = -(-self._size // 8)
        filler = index[:, None] * np.uint64(words) + np.arange(words, dtype=np.uint64)
        filler = hashed(self._filler, filler)
        filler[:, 0] = hashed(self._key, index)
        rows = np.empty((stop - start, 4 + self._size), np.uint8)
        rows[:, :4] = np.frombuffer(self._size.to_bytes(4, "little"), np.uint8)
        rows[:, 4:] = filler.astype("<u8").view(np.uint8)[:, : self._size]
        return rows.reshape(-1).view(self.dtype)


@dataclass(frozen=True)
class KeyedParams:
    """Input of app ``count``.

    keys: how many keys; hot_share of the records fall on the first hot_keys (a share,
    too) of them. key_shape: "spread" over all 64 bits; "dense", 1 to ``keys``; "same-low-32"
    or "same-low-16", equal in so many low bits; "limits", by turns on both sides of KEY_LIMITS,
    nearest first, so 2**64 - 1 is among them. edge_keys: the first keys of a spread are
    EDGE_KEYS, with edges then SMALL_KEYS. wrap: values of all 64 bits, so that totals wrap; else
    odd values between -2**24 and 2**24. units: each value is 1 or -1, so that many keys have the
    same total, and many totals are 0. edges: one value in 64 is one of EDGE_VALUES; without, none
    is 0.
    """

    seed: int = 1
    keys: int = 1000
    hot_share: float = 0.8
    hot_keys: float = 0.2
    edge_keys: bool = False
    wrap: bool = False
    units: bool = False
    edges: bool = False
    key_shape: KeyShape = "spread"

    def __post_init__(self) -> None:
        _check("seed", self.seed, 0, MAX_SEED)
        _check("keys", self.keys, 1, _MAX_KEYS)
        for name in ("hot_share", "hot_keys"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value <= 1:
                raise ValueError(f"{name}: expected a share 0 to 1, got {value!r}")
        for name in ("edge_keys", "wrap", "units", "edges"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name}: expected true or false, got {getattr(self, name)!r}")
        if self.key_shape not in KEY_SHAPES:
            raise ValueError(
                f"key_shape: expected one of {', '.join(KEY_SHAPES)}; got {self.key_shape!r}"
            )
        if self.edge_keys and self.key_shape != "spread":
            raise ValueError(
                f"edge_keys: expected only with key_shape spread, not {self.key_shape}"
            )


class Keyed:
    """Keys and values for app ``count``.

    ``numbers``: the numbers of the keys that stand for the first ones; None: they do themselves.
    """

    dtype = framed(COUNT_IN)

    def __init__(self, params: KeyedParams) -> None:
        self.params = params
        self.numbers: np.ndarray | None = None
        edge_keys = EDGE_KEYS + SMALL_KEYS * params.edges
        self._edge_keys = np.array(edge_keys, np.uint64)
        self._key = key_avoiding(params.seed, "keys", edge_keys)
        self._choice = key_of(params.seed, "key choice")
        self._value = key_of(params.seed, "values")
        self._edge = key_of(params.seed, "edge values")
        self._hot = min(params.keys, max(1, round(params.hot_keys * params.keys)))
        self._hot_16 = 65536 if self._hot == params.keys else round(params.hot_share * 65536)

    def keys(self, number: np.ndarray) -> np.ndarray:
        """Return the 64-bit keys of numbers (uint64, below 2**48); all distinct."""
        match self.params.key_shape:
            case "dense":
                return number + np.uint64(1)
            case "same-low-32":
                return self._same_low(number, 32)
            case "same-low-16":
                return self._same_low(number, 16)
            case "limits":
                return _at_limits(number)
        keys = hashed(self._key, number)
        if self.params.edge_keys:
            edge = number < len(self._edge_keys)
            keys[edge] = self._edge_keys[number[edge]]
        return keys

    def _same_low(self, number: np.ndarray, bits: int) -> np.ndarray:
        """Return keys whose low ``bits`` are equal: above them, an odd multiple of the number."""
        low = np.uint64(self._key & ((1 << bits) - 1))
        return ((number + np.uint64(1)) * _GOLDEN << np.uint64(bits)) | low

    def records(self, start: int, stop: int) -> np.ndarray:
        """Return records [start, stop) as framed COUNT_IN records."""
        index = np.arange(start, stop, dtype=np.uint64)
        h = hashed(self._choice, index)
        hot = (h & 0xFFFF) < self._hot_16
        cold_keys = np.uint64(self.params.keys - self._hot)
        count = np.where(hot, np.uint64(self._hot), cold_keys)
        number = scaled(h >> 32, 32, count) + np.where(hot, np.uint64(0), np.uint64(self._hot))
        if self.numbers is not None:
            number = self.numbers[number]
        value = hashed(self._value, index).view(np.int64)
        if not self.params.wrap:
            value >>= 39
        if self.params.units:
            value >>= 63
        value |= 1
        if self.params.edges:
            drawn = hashed(self._edge, index)
            at = np.flatnonzero(drawn & np.uint64(63) == 0)
            which = (drawn[at] >> np.uint64(6)) % len(EDGE_VALUES)
            value[at] = np.array(EDGE_VALUES, np.int64)[which]
        out = np.empty(len(index), self.dtype)
        out["size"] = COUNT_IN.itemsize
        out["payload"]["key"] = self.keys(number)
        out["payload"]["value"] = value
        return out


def _at_limits(number: np.ndarray) -> np.ndarray:
    """Return keys ever further from each limit: it and what follows, or what precedes it."""
    side = number % np.uint64(2 * len(KEY_LIMITS))
    away = number // np.uint64(2 * len(KEY_LIMITS))
    limit = np.array(KEY_LIMITS, np.uint64)[side >> np.uint64(1)]
    return np.where(side & np.uint64(1), limit - away - np.uint64(1), limit + away)


def chunk_records(record_size: int) -> int:
    """Return how many framed records make a chunk of about a megabyte."""
    return max(1, min(1 << 14, _CHUNK_BYTES // record_size))
