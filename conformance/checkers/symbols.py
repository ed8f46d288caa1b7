"""Numbering symbols: small codes for 8-byte words, by one look into a table."""

from __future__ import annotations

from typing import Final

import numpy as np

_TABLE_BITS: Final = 22
_TRIES: Final = 64


class Symbols:
    """Codes from 0 in order of first sight; ``words[code]`` is the symbol as a u64."""

    def __init__(self) -> None:
        self.words = np.empty(0, np.uint64)
        self._table = np.zeros(2, np.int32)
        self._multiplier = np.uint64(1)
        self._shift = np.uint64(63)
        self._sorted: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.words)

    def codes(self, words: np.ndarray) -> np.ndarray:
        """Return the code (int32) of each word; words never seen get new codes."""
        found = self._look_up(words)
        strange = np.ones(len(words), bool)
        if len(self.words):
            strange = self.words[found] != words
        if strange.any():
            new, where = np.unique(words[strange], return_index=True)
            self.words = np.concatenate((self.words, new[np.argsort(where)]))
            self._rebuild()
            found = self._look_up(words)
        return found

    def _look_up(self, words: np.ndarray) -> np.ndarray:
        if self._sorted is not None:
            place = np.searchsorted(self.words[self._sorted], words)
            return self._sorted[np.minimum(place, len(self.words) - 1)].astype(np.int32)
        return self._table[(words * self._multiplier) >> self._shift]

    def _rebuild(self) -> None:
        """Find a multiplier that gives each word a place of its own; else fall back to sorting."""
        bits = min(_TABLE_BITS, 2 * len(self.words).bit_length() + 2)
        self._shift = np.uint64(64 - bits)
        multipliers = np.random.default_rng(1).integers(0, 2**64, _TRIES, np.uint64) | np.uint64(1)
        for multiplier in multipliers:
            place = (self.words * multiplier) >> self._shift
            if len(np.unique(place)) == len(place):
                self._multiplier, self._sorted = multiplier, None
                self._table = np.zeros(1 << bits, np.int32)
                self._table[place] = np.arange(len(place))
                return
        self._sorted = np.argsort(self.words)


def order_by(codes: np.ndarray, count: int) -> np.ndarray:
    """Return the stable order by code; codes below 65,536 sort by radix."""
    return np.argsort(codes.astype(np.uint16) if count <= 1 << 16 else codes, kind="stable")
