"""Buckets: shares of the key space, the same in each process and after each restart."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from tickproof.reference.api.arrays import numbered

#: How many there are, where nobody says.
BUCKETS = 8
#: The most: a bucket is a byte while records are sorted by it.
MOST = 256
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Fibonacci hashing


def bucket_of(keys: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each key, as bytes."""
    if keys.dtype.kind == "S":
        distinct, ids = numbered(keys)
        return np.array([crc32(key) % buckets for key in distinct.tolist()], np.uint8)[ids]
    spread = keys.astype(np.uint64) * _SPREAD
    return ((spread >> np.uint64(40)) % np.uint64(buckets)).astype(np.uint8)
