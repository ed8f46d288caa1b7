"""What is done with many records at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def joined(*parts: np.ndarray) -> np.ndarray:
    """Return records of one layout, one part after the other."""
    return np.concatenate([_whole(part) for part in parts]).view(parts[0].dtype)


def taken(records: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the records with these indexes."""
    return _whole(records)[at].view(records.dtype)


def _whole(records: np.ndarray) -> np.ndarray:
    """View records as bytes: numpy copies them field by field, five to fifteen times slower."""
    return records.view(f"V{records.itemsize}")


def numbered(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (the distinct keys, for each key its index among them)."""
    encoded = pa.array(np.ascontiguousarray(keys)).dictionary_encode()
    return encoded.dictionary.to_numpy(zero_copy_only=False), encoded.indices.to_numpy()
