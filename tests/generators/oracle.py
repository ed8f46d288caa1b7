"""Slow and obvious versions of what generators compute on whole arrays."""

from __future__ import annotations

_MASK = 2**32 - 1


def slow_murmur2(data: bytes) -> int:
    """Return the hash of Kafka's Utils.murmur2 as an unsigned number, byte by byte."""
    m, length = 0x5BD1E995, len(data)
    h = 0x9747B28C ^ length
    for at in range(0, length - length % 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & _MASK
        k = (k ^ k >> 24) * m & _MASK
        h = (h * m & _MASK) ^ k
    if rest := data[length - length % 4 :]:
        h = (h ^ int.from_bytes(rest, "little")) * m & _MASK
    h = (h ^ h >> 13) * m & _MASK
    return h ^ h >> 15


def slow_fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of bytes."""
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & _MASK
    return h
