"""How much larger one set of runs is than another, with an interval that needs no distribution.

Both sets are shifted against each other as logarithms: the estimate is the median of all
pairwise ratios (Hodges and Lehmann), the interval inverts the exact rank test of Mann and
Whitney. Source: Hollander, Wolfe, Chicken, "Nonparametric statistical methods", chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tickproof.conformance.latency.order_statistics import ONE_IN


@dataclass(frozen=True)
class Ratio:
    """``low`` to ``high`` covers the ratio with at least 95 %; ``estimate`` lies within."""

    estimate: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether a difference was shown at all."""
        return not self.low <= 1.0 <= self.high


def ratio(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """Return after over before; None where there are too few values (4 and 4, 3 and 5 suffice).

    Every value has to be finite and above 0; raises ValueError.
    """
    values = np.array([*before, *after], float)
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("ratio: expected finite values above 0")
    left_out = _left_out(len(before), len(after))
    if left_out < 0:
        return None
    pairs = np.sort(np.subtract.outer(np.log(after), np.log(before)), axis=None)
    low, middle, high = pairs[left_out], np.median(pairs), pairs[len(pairs) - 1 - left_out]
    return Ratio(math.exp(middle), math.exp(low), math.exp(high))


@cache
def _left_out(before: int, after: int) -> int:
    """Return how many pairs an interval leaves out at either end, -1: even 0 are too many.

    The largest c with 2 * P(U <= c) <= 0.05, U being the statistic of Mann and Whitney.
    """
    if not before or not after:
        return -1
    ways, total, below = _ways(before, after), math.comb(before + after, before), 0
    for found, count in enumerate(ways):
        below += count
        if 2 * ONE_IN * below > total:
            return found - 1
    raise AssertionError("a probability reaches 1")


def _ways(before: int, after: int) -> list[int]:
    """Return in how many orders of all values U is 0, 1, 2, ...: a Gaussian binomial."""
    found = [1] + [0] * (before * after)
    for step in range(1, after + 1):
        for at in range(len(found) - 1, before + step - 1, -1):
            found[at] -= found[at - before - step]
        for at in range(step, len(found)):
            found[at] += found[at - step]
    return found
