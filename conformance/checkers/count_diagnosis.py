"""The single mistake that turns a right running total into a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tickproof.conformance.checkers.arrays import pieces

#: Values skipped or applied again in one stretch: stretches up to this are looked for.
_LONGEST: Final = 2_000
_WORK: Final = 20_000_000


def values_of(inputs: Sequence[np.ndarray], key: np.uint64, most: int) -> np.ndarray:
    """Return up to ``most`` values of one key in log order."""
    found, size = [np.empty(0, np.int64)], 0
    for partition in inputs:
        for _, piece in pieces(partition):
            values = piece["value"][piece["key"] == key][: most - size]
            found.append(values)
            size += len(values)
            if size >= most:
                return np.concatenate(found)
    return np.concatenate(found)


@dataclass(frozen=True)
class Diagnosis:
    """The mistake that a total fits; values ``first`` to ``last`` of the key (from 1) are meant.

    rounded, cut: the true total in floating point, or in 32 bits; only where that changes it.
    again: their sum alone, the key began again. tail: their sum, but counted from the first.
    twice, left-out: of the true total; ``counted``: n shows it, too. other: the total after
    ``last`` values. value: the only one that is twice or left out.
    """

    kind: Literal["rounded", "cut", "other", "again", "tail", "twice", "left-out", "none"]
    first: int
    last: int
    value: int | None = None
    counted: bool = False


def diagnose_total(values: np.ndarray, n: int, actual: int) -> Diagnosis:
    """Say which mistake turns the first ``n`` of a key's values into ``actual``.

    ``values``: all int64 values of the key in log order (1 <= n <= len(values)).
    The simplest mistake that fits is named; an unlucky sum may fit by chance.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _simple(values, n, np.int64(actual)) or _stretch(values, n, np.int64(actual))


def _simple(values: np.ndarray, n: int, actual: np.int64) -> Diagnosis | None:
    sums = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    rounded = float(np.cumsum(values[:n].astype(np.float64))[-1])
    if rounded == float(actual) and abs(int(sums[n])) > 2**53:
        return Diagnosis("rounded", 1, n)
    if actual != sums[n] and actual in (sums[n].astype(np.int32), sums[n].astype(np.uint32)):
        return Diagnosis("cut", 1, n)
    same = np.flatnonzero(sums == actual)
    if len(same):
        return Diagnosis("other", 1, int(same[np.argmin(np.abs(same - n))]))
    again = np.flatnonzero(sums[n + 1 :] - sums[1:-n] == actual)
    if len(again):
        first = int(again[0]) + 2
        return Diagnosis("again", first, first + n - 1)
    over = actual - sums[n]
    twice = np.flatnonzero(values[:n] == over)
    if len(twice):
        at = int(twice[-1]) + 1
        return Diagnosis("twice", at, at, int(over))
    without = np.flatnonzero(values[:n] == -over)
    if len(without):
        at = int(without[-1]) + 1
        return Diagnosis("left-out", at, at, int(values[at - 1]))
    tail = np.flatnonzero(sums[1:n] == sums[n] - actual)
    return Diagnosis("tail", int(tail[-1]) + 2, n) if len(tail) else None


def _stretch(values: np.ndarray, n: int, actual: np.int64) -> Diagnosis:
    """Look for one stretch of values applied twice or left out, counted by n or not."""
    sums = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    over = actual - sums[n]
    for d in range(1, min(n, _LONGEST, max(1, _WORK // n)) + 1):
        window = sums[d : n + 1] - sums[: n + 1 - d]
        again = np.flatnonzero(window == over)
        if len(again):
            return _stretched("twice", int(again[-1]), d, counted=False)
        skipped = np.flatnonzero(window == -over)
        if len(skipped):
            return _stretched("left-out", int(skipped[-1]), d, counted=False)
        counted = np.flatnonzero(window[: n - 2 * d + 1] == actual - sums[n - d])
        if n >= 2 * d and len(counted):
            return _stretched("twice", int(counted[-1]), d, counted=True)
        if n + d < len(sums):
            # Those left out may be the very last, before the record of this total.
            window = sums[d : n + d + 1] - sums[: n + 1]
            skipped = np.flatnonzero(window == sums[n + d] - actual)
            if len(skipped):
                return _stretched("left-out", int(skipped[-1]), d, counted=True)
    return Diagnosis("none", 0, 0)


def _stretched(
    kind: Literal["twice", "left-out"], before: int, length: int, *, counted: bool
) -> Diagnosis:
    return Diagnosis(kind, before + 1, before + length, counted=counted)
