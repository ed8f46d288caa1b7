"""Statistics of few runs: samples a percentile needs, intervals for the median over runs.

Everything here is exact and holds for any continuous distribution: only the order counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: One in so many times an interval may miss the median, or a sample its percentile.
ONE_IN: Final = 20


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
