"""Samples a percentile needs, intervals for medians and ratios, and trends of a series.

All of it holds for any continuous distribution, because only the order of values counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np

#: One in so many times an interval may miss the median, or a sample its percentile.
ONE_IN: Final = 20
#: Standard deviations: 99.9 % on one side.
_SURE: Final = 3.09
#: Above this many values the approximation is close: within a tenth at p = 0.003.
_EXACT: Final = 60


@dataclass(frozen=True)
class Interval:
    """Covers the median with probability ``coverage``, at least 0.95."""

    low: float
    high: float
    coverage: float


def samples_needed(quantile: float) -> int:
    """Return how many samples a percentile needs: 0.9999 needs 29,956.

    With so many, the largest lies above the percentile with 95 % confidence:
    1 - quantile**n >= 0.95. Source: Wilks, 1941, "Determination of sample sizes for setting
    tolerance limits". Raises ValueError unless 0 < quantile < 1.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"expected a quantile between 0 and 1; got {quantile:g}")
    return math.ceil(math.log(1 / ONE_IN) / math.log(quantile))


def tolerated(runs: int) -> int:
    """Return how many of ``runs`` may lie on the wrong side of a limit, -1: no answer yet.

    The largest k for which the order statistics k + 1 and runs - k cover the median with at
    least 95 %: 2 * P(Binomial(runs, 1/2) <= k) <= 0.05. At least 6 runs are needed for 0,
    and 9 for 1. Source: Hahn and Meeker, "Statistical intervals", chapter 5.
    """
    # The mode of the binomial is never reached: the sum passes the bound far below it.
    k, tail = -1, 0
    while True:
        tail += math.comb(runs, k + 1)
        if 2 * ONE_IN * tail > 2**runs:
            return k
        k += 1


def median_interval(values: Sequence[float]) -> Interval | None:
    """Return the order-statistics interval for the median, None for fewer than 6 values."""
    count = len(values)
    k = tolerated(count)
    if k < 0:
        return None
    ordered = sorted(values)
    missed = 2 * sum(math.comb(count, i) for i in range(k + 1))
    return Interval(ordered[k], ordered[count - 1 - k], 1 - missed / 2**count)


@dataclass(frozen=True)
class Ratio:
    """``low`` to ``high`` covers the ratio with at least 95 %; ``estimate`` lies within."""

    estimate: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """True if a difference was shown at all."""
        return not self.low <= 1.0 <= self.high


def ratio(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """Return after over before; None for too few values (4 and 4, 3 and 5 suffice).

    The sets are shifted against each other as logarithms: the estimate is the median of all
    pairwise ratios (Hodges and Lehmann), the interval inverts the exact rank test of Mann and
    Whitney. Source: Hollander, Wolfe, Chicken, "Nonparametric statistical methods", chapter 4.
    Raises ValueError for a value that is not finite and above 0.
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


def theil_sen(times: np.ndarray, values: np.ndarray) -> float:
    """Return the slope of ``values`` over ``times``: the median of the slopes of all pairs.

    All pairs are formed at once: meant for some thousands of values at most.
    Pairs at one time have no slope and are left out; 0 where no pair is left. Source: Theil,
    1950, "A rank-invariant method of linear and polynomial regression analysis"; Sen, 1968.
    Raises ValueError for arrays of different length.
    """
    slopes = _slopes(times, values)
    return float(np.median(slopes)) if len(slopes) else 0.0


def least_slope(times: np.ndarray, values: np.ndarray) -> float:
    """Return the lower bound of the slope, at 99.9 % on one side; 0 where no pair is left.

    By the rank that Kendall's variance gives, no ties among the values (Sen, 1968).
    """
    slopes, n = _slopes(times, values), len(values)
    if not len(slopes):
        return 0.0
    spread = _SURE * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return float(slopes[max(0, math.floor((len(slopes) - spread) / 2))])


def _slopes(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the slopes of all pairs that lie apart in time, ascending."""
    if len(times) != len(values):
        raise ValueError(f"expected as many times as values; got {len(times)} and {len(values)}")
    first, second = np.triu_indices(len(values), 1)
    steps = np.asarray(times, float)[second] - np.asarray(times, float)[first]
    rises = np.asarray(values, float)[second] - np.asarray(values, float)[first]
    apart = steps != 0
    return np.sort(rises[apart] / steps[apart])


def mann_kendall(values: np.ndarray) -> float:
    """Return the two-sided p-value of "no trend" for a series in its order of time.

    Exact where no two values are equal; else the normal approximation with the variance
    for ties and a continuity correction of 1. At least 6 values can fall below 0.01. Source:
    Mann, 1945, "Nonparametric tests against trend"; Kendall, "Rank correlation methods".
    """
    values = np.asarray(values, float)
    count = len(values)
    first, second = np.triu_indices(count, 1)
    score = int(np.sign(values[second] - values[first]).sum())
    groups = np.unique(values, return_counts=True)[1]
    if score == 0 or count < 2:
        return 1.0
    if np.max(groups) == 1 and count <= _EXACT:
        return _exact(count, score)
    spread = sum(_spread(int(size)) for size in groups[groups > 1])
    deviation = math.sqrt((_spread(count) - spread) / 18)
    return math.erfc((abs(score) - 1) / deviation / math.sqrt(2))


def _spread(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)


def _exact(count: int, score: int) -> float:
    """Return the share of all orders of ``count`` values whose score is at least as far from 0.

    The score is pairs - 2 * inversions, and inversions are counted by Mahonian numbers.
    """
    ways = [1]
    for size in range(2, count + 1):
        sums = [0]
        for number in [*ways, *[0] * (size - 1)]:
            sums.append(sums[-1] + number)
        ways = [high - sums[max(0, at - size)] for at, (_, high) in enumerate(pairwise(sums), 1)]
    pairs = count * (count - 1) // 2
    inversions = (pairs - abs(score)) // 2
    tail = sum(ways[: inversions + 1])
    return min(1.0, 2 * tail / math.factorial(count))


def relative_change(values: np.ndarray) -> float:
    """Return by what part of their median the values change from the first to the last.

    The change is that of the Theil-Sen line; 0.25 is a rise by a quarter. 0 for fewer than
    two values. Raises ValueError where the median is not above 0.
    """
    if len(values) < 2:
        return 0.0
    middle = float(np.median(values))
    if not middle > 0:
        raise ValueError(f"expected values with a median above 0; got {middle:g}")
    return theil_sen(np.arange(len(values)), values) * (len(values) - 1) / middle
