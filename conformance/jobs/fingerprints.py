"""Fingerprints of records: 64 bits for each row of a column, the same for the same JSON value.

They say where two recordings differ; what differs is then read and compared exactly. Numbers are
equal by value (1 and 1.0), null is a field that is not there. Seeds are random, so that no
recording can be made to collide.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tickproof.conformance.jobs.comparison import canonical
from tickproof.conformance.jobs.records import plain
from tickproof.generators.hashing import mix

#: Texts of more bytes are hashed one by one, so that a long one costs its own length alone.
_LONG: Final = 256
_WORD: Final = 8
_INT64: Final = range(-(1 << 63), 1 << 63)
#: The last bytes of a word that are beyond a text: as many as it is short of a word.
_MASKS: Final = np.array(
    [(1 << 8 * count) - 1 if count < _WORD else (1 << 64) - 1 for count in range(_WORD + 1)],
    np.uint64,
)


def normal(value: Any) -> Any:
    """Return a value with one form for what is equal: dates are text, whole floats integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: normal(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [normal(one) for one in value]
    return plain(value)


def identity(value: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return some fields of a record as one text, the same for what is equal."""
    parts = [normal(value.get(name)) for name in names]
    return canonical(parts[0] if len(parts) == 1 else parts)


class Hashing:
    """Fingerprints with seeds of their own: only those of one `Hashing` can be compared."""

    def __init__(self) -> None:
        self._secret = os.urandom(16)

    def column(self, name: str, column: pa.Array | list[Any]) -> np.ndarray:
        """Return the fingerprint of each value of a field; 0 for null."""
        if isinstance(column, list):
            return self._of_values(name, column)
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self._of_dictionary(name, column)
        found = self._of_array(name, column)
        if found is None:
            return self._of_values(name, column.to_pylist())
        if column.null_count:
            found[column.is_null().to_numpy(zero_copy_only=False)] = 0
        return found

    def _of_array(self, name: str, column: pa.Array) -> np.ndarray | None:
        """Return the fingerprints of a column of a plain type, None for another one."""
        kind = column.type
        if pa.types.is_null(kind):
            return np.zeros(len(column), np.uint64)
        if pa.types.is_boolean(kind):
            values = column.fill_null(False).to_numpy(zero_copy_only=False)
            seeds = self._seed(name, "true"), self._seed(name, "false")
            return np.where(values, *seeds)
        if pa.types.is_uint64(kind):
            return None
        if pa.types.is_integer(kind):
            return self._of_integers(name, column.fill_null(0).to_numpy().astype(np.int64))
        if pa.types.is_floating(kind):
            values = column.fill_null(0).to_numpy().astype(np.float64)
            return self._of_floats(name, values)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._of_texts(self._seed(name, "text"), column)
        return None

    def _of_dictionary(self, name: str, column: pa.DictionaryArray) -> np.ndarray:
        """Return the fingerprints of values that stand in a dictionary, each hashed once."""
        used, which = np.unique(column.indices.fill_null(-1).to_numpy(), return_inverse=True)
        values = column.dictionary.take(pa.array(np.maximum(used, 0)))
        found = self.column(name, values)
        found[used < 0] = 0
        return found[which]

    def _of_values(self, name: str, values: Sequence[Any]) -> np.ndarray:
        """Return the fingerprints of any values."""
        found = np.zeros(len(values), np.uint64)
        kinds: dict[str, tuple[list[int], list[Any]]] = {}
        for at, value in enumerate(values):
            one = normal(value)
            if one is None:
                continue
            kind = type(one).__name__
            if kind not in ("bool", "float", "str") and (kind != "int" or one not in _INT64):
                kind, one = "other", canonical(one)
            places, some = kinds.setdefault(kind, ([], []))
            places.append(at)
            some.append(one)
        for kind, (places, some) in kinds.items():
            if kind == "bool":
                found[places] = self._of_array(name, pa.array(some))
            elif kind == "int":
                found[places] = self._of_integers(name, np.array(some, np.int64))
            elif kind == "float":
                found[places] = self._of_floats(name, np.array(some))
            else:
                seed = self._seed(name, "text" if kind == "str" else kind)
                texts = [one.encode("utf-8", "surrogatepass") for one in some]
                found[places] = self._of_texts(seed, pa.array(texts, pa.large_binary()))
        return found

    def _of_integers(self, name: str, values: np.ndarray) -> np.ndarray:
        return mix(values.view(np.uint64) ^ self._seed(name, "int"))

    def _of_floats(self, name: str, values: np.ndarray) -> np.ndarray:
        whole = np.isfinite(values) & (values == np.trunc(values))
        small = whole & (np.abs(values) < 2.0**63)
        found = mix(values.view(np.uint64) ^ self._seed(name, "float"))
        found[np.isnan(values)] = self._seed(name, "nan")
        found[small] = self._of_integers(name, values[small].astype(np.int64))
        large = np.flatnonzero(whole & ~small)
        if len(large):
            found[large] = self._of_values(name, [int(one) for one in values[large]])
        return found

    def _of_texts(self, seed: np.uint64, column: pa.Array) -> np.ndarray:
        """Return the fingerprints of texts, eight bytes of each of them at a time."""
        wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, np.int64 if wide else np.int32)
        bounds = bounds[column.offset : column.offset + len(column) + 1].astype(np.int64)
        starts, lengths = bounds[:-1], np.diff(bounds)
        first, last = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
        held = np.zeros(last - first + _WORD, np.uint8)
        if last > first:
            held[: last - first] = np.frombuffer(data, np.uint8)[first:last]
        starts = starts - first
        words = np.ndarray((len(held) - _WORD + 1,), "<u8", held, strides=(1,))
        found = mix(lengths.view(np.uint64) ^ seed)
        short = np.minimum(lengths, _LONG)
        at: Any = slice(None)
        for begin in range(0, int(short.max(initial=0)), _WORD):
            if begin:
                longer = short[at] > begin
                at = (np.arange(len(starts)) if isinstance(at, slice) else at)[longer]
            word = words[starts[at] + begin]
            word &= _MASKS[np.minimum(short[at] - begin, _WORD)]
            found[at] = mix(found[at] ^ word)
        for one in np.flatnonzero(lengths > _LONG):
            text = held[starts[one] : starts[one] + lengths[one]].tobytes()
            found[one] = _digest(self._secret, seed.tobytes() + text)
        return mix(found)

    def _seed(self, name: str, kind: str) -> np.uint64:
        text = f"{kind} {name}".encode("utf-8", "surrogatepass")
        return np.uint64(_digest(self._secret, text))


def combined(parts: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Return one fingerprint for each of ``count`` rows, of those of its fields in any order."""
    total = np.zeros(count, np.uint64)
    for one in parts:
        total += one
    return mix(total)


def _digest(secret: bytes, text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=secret).digest(), "little")
