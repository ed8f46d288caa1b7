"""Whether a series rises or falls: the slope of Theil and Sen, the test of Mann and Kendall.

Both look at the order of pairs only, so a few wild seconds move neither. All pairs are formed
at once: meant for series of some thousands of elements at most, such as one a second.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np

#: Standard deviations: 99.9 % on one side.
_SURE: Final = 3.09


def theil_sen(times: np.ndarray, values: np.ndarray) -> float:
    """Return the slope of ``values`` over ``times``: the median of the slopes of all pairs.

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
    if groups.max() == 1 and count <= _EXACT:
        return _exact(count, score)
    spread = sum(_spread(int(size)) for size in groups[groups > 1])
    deviation = math.sqrt((_spread(count) - spread) / 18)
    return math.erfc((abs(score) - 1) / deviation / math.sqrt(2))


#: Above this many values the approximation is close: within a tenth at p = 0.003.
_EXACT = 60


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
