"""The partition of a key where clients of Kafka put it, by its bytes; on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_WORD: Final = 4
_POWERS: Final = 10 ** np.arange(20, dtype=np.uint64)
_SPACE: Final = ord(" ")
_FNV_BASIS: Final = np.uint32(0x811C9DC5)
_FNV_PRIME: Final = np.uint32(0x01000193)


@dataclass(frozen=True)
class Texts:
    """Byte strings: row i of ``rows`` (uint8) begins with ``lengths[i]`` bytes; zeros follow."""

    rows: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, texts: list[bytes]) -> Texts:
        """Return byte strings, as they are."""
        width = -(-max(map(len, texts), default=0) // _WORD) * _WORD
        padded = b"".join(text.ljust(width, b"\0") for text in texts)
        rows = np.frombuffer(padded, np.uint8).reshape(len(texts), width)
        return cls(rows, np.array([len(text) for text in texts], np.int64))


#: Turns keys as records hold them (uint64) into the bytes that a message has as its key.
AsTexts = Callable[[np.ndarray], Texts]


def decimals(numbers: np.ndarray) -> Texts:
    """Return unsigned numbers as decimal digits."""
    lengths = np.maximum(np.searchsorted(_POWERS, numbers, side="right"), 1)
    digits = (numbers[:, None] // _POWERS[::-1] % np.uint64(10)).astype(np.uint8) + ord("0")
    rows = np.zeros(digits.shape, np.uint8)
    for length in np.unique(lengths).tolist():
        some = lengths == length
        rows[some, :length] = digits[some, len(_POWERS) - length :]
    return Texts(rows, lengths)


def symbols(words: np.ndarray) -> Texts:
    """Return symbols (eight characters in a number, as on the wire) without their padding."""
    rows = words.astype("<u8").view(np.uint8).reshape(len(words), 8).copy()
    padding = np.logical_and.accumulate(rows[:, ::-1] == _SPACE, axis=1)[:, ::-1]
    rows[padding] = 0
    return Texts(rows, 8 - padding.sum(axis=1))


def murmur2(texts: Texts) -> np.ndarray:
    """Return the hash (uint32) of each text."""
    words = np.ascontiguousarray(texts.rows).view("<u4")
    lengths = texts.lengths.astype(np.uint32)
    found = _SEED ^ lengths
    for at in range(words.shape[1]):
        word = words[:, at].astype(np.uint32)
        rest = lengths - np.minimum(lengths, np.uint32(_WORD * at))
        mixed = word * _M
        mixed ^= mixed >> np.uint32(24)
        mixed *= _M
        whole = found * _M ^ mixed
        last = (found ^ word) * _M
        found = np.where(rest >= _WORD, whole, np.where(rest > 0, last, found))
    found ^= found >> np.uint32(13)
    found *= _M
    found ^= found >> np.uint32(15)
    return found


def fnv1a(texts: Texts) -> np.ndarray:
    """Return the 32-bit FNV-1a hash (uint32) of each text."""
    found = np.full(len(texts.lengths), _FNV_BASIS)
    for at, column in enumerate(texts.rows.T):
        np.copyto(found, (found ^ column) * _FNV_PRIME, where=texts.lengths > at)
    return found


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ (table & np.uint32(1)) * np.uint32(0xEDB88320)
    return table


_CRC_TABLE: Final = _crc_table()


def crc32(texts: Texts) -> np.ndarray:
    """Return the CRC-32 (uint32) of each text."""
    found = np.full(len(texts.lengths), np.uint32(0xFFFFFFFF))
    for at, column in enumerate(texts.rows.T):
        step = _CRC_TABLE[(found ^ column) & np.uint32(0xFF)] ^ found >> np.uint32(8)
        np.copyto(found, step, where=texts.lengths > at)
    return ~found


#: The number (int64, not negative) whose rest by the partitions counts, by name of a partitioner:
#: of the Java client, of Sarama in Go, and of librdkafka unless it is told otherwise.
_NUMBERS: Final[dict[str, Callable[[Texts], np.ndarray]]] = {
    "murmur2": lambda texts: (murmur2(texts) & np.uint32(0x7FFFFFFF)).astype(np.int64),
    "fnv1a": lambda texts: np.abs(fnv1a(texts).view(np.int32).astype(np.int64)),
    "crc32": lambda texts: crc32(texts).astype(np.int64),
}
OF_CLIENTS: Final = tuple(_NUMBERS)


def partitions_of(partitioner: str, texts: Texts, count: int) -> np.ndarray:
    """Return the partition (int64), of ``count``, of messages that have these texts as keys.

    partitioner: one of `OF_CLIENTS`.
    """
    return _NUMBERS[partitioner](texts) % count
