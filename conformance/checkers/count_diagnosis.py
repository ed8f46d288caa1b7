"""What a wrong running total would be the right answer to."""

from __future__ import annotations

from typing import Final

import numpy as np

#: Values skipped or applied again in one stretch: stretches up to this are looked for.
_LONGEST: Final = 2_000
_WORK: Final = 20_000_000


def figures(values: np.ndarray, n: int) -> str:
    """Return ``n=3 total=30 (5+10+15)``, the sum left out where it is long."""
    total = int(values[:n].sum(dtype=np.int64))
    terms = "+".join(str(int(v)) for v in values[:n])
    return f"n={n} total={total}" + (f" ({terms})" if n <= 8 else "")


def diagnose_total(values: np.ndarray, n: int, actual: int) -> str:
    """Say which mistake turns the first ``n`` of a key's values into ``actual``.

    ``values``: all int64 values of the key in log order (1 <= n <= len(values)).
    The simplest mistake that fits is named; an unlucky sum may fit by chance.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _simple(values, n, np.int64(actual)) or _stretch(values, n, np.int64(actual))


def _simple(values: np.ndarray, n: int, actual: np.int64) -> str:
    sums = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    rounded = float(np.cumsum(values[:n].astype(np.float64))[-1])
    if rounded == float(actual) and abs(int(sums[n])) > 2**53:
        return "the sum in 64-bit floating point: rounded"
    same = np.flatnonzero(sums == actual)
    if len(same):
        m = int(same[np.argmin(np.abs(same - n))])
        return f"the total after {m} values, not after {n}"
    again = np.flatnonzero(sums[n + 1 :] - sums[1:-n] == actual)
    if len(again):
        first = int(again[0]) + 2
        return f"the sum of values {first} to {first + n - 1}: the key began again, its state lost"
    over = actual - sums[n]
    twice = np.flatnonzero(values[:n] == over)
    if len(twice):
        return f"value {twice[-1] + 1} (= {over}) applied twice"
    without = np.flatnonzero(values[:n] == -over)
    if len(without):
        return f"value {without[-1] + 1} (= {values[without[-1]]}) left out"
    tail = np.flatnonzero(sums[1:n] == sums[n] - actual)
    if len(tail):
        return f"the sum of values {tail[-1] + 2} to {n} only: state lost, position kept"
    return ""


def _stretch(values: np.ndarray, n: int, actual: np.int64) -> str:
    """Look for one stretch of values applied twice or left out, counted by n or not."""
    sums = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    over = actual - sums[n]
    for d in range(1, min(n, _LONGEST, max(1, _WORK // n)) + 1):
        window = sums[d : n + 1] - sums[: n + 1 - d]
        again = np.flatnonzero(window == over)
        if len(again):
            a = int(again[-1])
            return f"values {a + 1} to {a + d} applied twice: position restored, state not"
        skipped = np.flatnonzero(window == -over)
        if len(skipped):
            a = int(skipped[-1])
            return f"values {a + 1} to {a + d} left out: state restored, position not"
        counted = np.flatnonzero(window[: n - 2 * d + 1] == actual - sums[n - d])
        if n >= 2 * d and len(counted):
            a = int(counted[-1])
            return (
                f"values {a + 1} to {a + d} applied and counted twice: position restored, state not"
            )
        if n + d < len(sums):
            skipped = np.flatnonzero(window == sums[n + d] - actual)
            if len(skipped):
                a = int(skipped[-1])
                return (
                    f"values {a + 1} to {a + d} neither applied nor counted: "
                    "state restored, position not"
                )
    return "explained by no single mistake"
