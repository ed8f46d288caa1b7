"""What functions on arrays are made with; a step takes them in place of one on a record."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa


def on_arrays(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Mark a computation's function: it takes an array of records and not one record."""
    function.on_arrays = True  # type: ignore[attr-defined]
    return function


def grouped(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort ids, stable. Return (order, first, last).

    ``order`` holds positions in ``ids``; ``first`` and ``last`` mark, by sorted position,
    where a group begins and ends.
    """
    # numpy sorts 16-bit numbers by radix, several times faster than wider ones.
    small = len(ids) and ids.max() < 1 << 16
    order = np.argsort(ids.astype(np.uint16) if small else ids, kind="stable")
    step = np.diff(ids[order]) != 0
    return order, np.append(True, step)[: len(ids)], np.append(step, True)[: len(ids)]


def joined(*parts: np.ndarray) -> np.ndarray:
    """Return records of one layout, one part after the other."""
    # As bytes: numpy joins records field by field, fifteen times slower.
    return np.concatenate([part.view(f"V{part.itemsize}") for part in parts]).view(parts[0].dtype)


def numbered(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (the distinct keys, for each key its index among them)."""
    encoded = pa.array(np.ascontiguousarray(keys)).dictionary_encode()
    return encoded.dictionary.to_numpy(zero_copy_only=False), encoded.indices.to_numpy()
