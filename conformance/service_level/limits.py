"""One limit against all runs: what each run says of it, and what they say together.

Noise and lateness make latency worse, never better. So each run gives two figures: ``high``
as measured, ``low`` with everything excused that the engine may not be to blame for. A limit
passes by the high ones and fails by the low ones; what lies between is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tickproof.conformance.latency.order_statistics import median_interval, tolerated
from tickproof.conformance.verdicts import Verdict

TOO_FEW_RUNS, CI_STRADDLES = "TOO_FEW_RUNS", "CI_STRADDLES"


@dataclass(frozen=True)
class Bounds:
    """What one run says of one limit.

    high: at most so much; low: at least so much, and low <= high. void: the code of why the
    run does not count, "" where it does. excuse: the code of why low is below high. beyond:
    the host was noisier than the profile allows.
    """

    high: float
    low: float
    void: str = ""
    excuse: str = ""
    beyond: bool = False

    def over(self, limit: float) -> bool:
        """Whether it was over the limit, by whoever's fault."""
        return self.high > limit

    def surely(self, limit: float) -> bool:
        """Whether the engine was over the limit, whatever is excused."""
        return self.low > limit

    def set_aside(self, limit: float) -> bool:
        """Whether the run tells nothing of this limit and is to be played again."""
        return bool(self.void) or (self.beyond and self.over(limit) and not self.surely(limit))


@dataclass(frozen=True)
class Tally:
    """Counts of runs. A void run never helps: over its limit it stands against a pass, under
    it against a fail; else it is left out. One that is over by noise stands against both.

    valid: runs that are not void. over, of_over: over the limit, among all that stand for or
    against a pass. under, of_under: not surely over, among all that stand for or against a
    fail. ambiguous: valid, over, not surely.
    """

    valid: int
    over: int
    of_over: int
    under: int
    of_under: int
    ambiguous: int


def tally(seen: Sequence[Bounds], limit: float) -> Tally:
    """Count the runs by what they say of a limit."""
    valid = sum(not one.void for one in seen)
    over = [one for one in seen if one.over(limit)]
    of_under = [one for one in seen if not (one.void and one.over(limit))]
    return Tally(
        valid=valid,
        over=len(over),
        of_over=valid + sum(bool(one.void) for one in over),
        under=sum(not one.surely(limit) for one in of_under),
        of_under=len(of_under),
        ambiguous=sum(not one.void and not one.surely(limit) for one in over),
    )


def judge_limit(seen: Sequence[Bounds], limit: float, least: int, most: int) -> tuple[Verdict, str]:
    """Return the verdict on one limit, and the code of why where it is unknown.

    Pass at once when at least ``least`` runs are all under: a median at the limit does that
    once in 2**least times. Else nothing is said before ``most`` runs: whoever looks after
    each run finds what he looks for. Then the order-statistics interval for the median over
    runs (medians.tolerated) decides: under, over, or around the limit.
    """
    count = tally(seen, limit)
    if count.valid >= most and count.under <= tolerated(count.of_under):
        return Verdict.FAIL, ""
    enough = count.valid >= most and count.over <= tolerated(count.of_over)
    if enough or (count.valid >= least and not count.over):
        return Verdict.PASS, ""
    return Verdict.UNKNOWN, _why(seen, limit, count, most)


def interval_ends(seen: Sequence[Bounds], limit: float) -> tuple[float, float] | None:
    """Return the ends of the interval for the median over runs, None below 6 valid runs."""
    highs = median_interval([one.high for one in seen if not one.void or one.over(limit)])
    lows = median_interval([one.low for one in seen if not one.void])
    return (lows.low, highs.high) if highs and lows else None


def _why(seen: Sequence[Bounds], limit: float, count: Tally, most: int) -> str:
    """Return the code of what stands between the runs and an answer."""
    void = [one for one in seen if one.void]
    if count.valid < most:
        return _commonest([one.void for one in void]) or TOO_FEW_RUNS
    valid = [one for one in seen if not one.void]
    bears = tolerated(count.valid)
    over = sum(one.over(limit) for one in valid)
    surely = over - count.ambiguous
    if count.ambiguous and (surely <= bears or count.valid - over <= bears):
        excuses = [one.excuse for one in valid if one.over(limit) and not one.surely(limit)]
        return _commonest(excuses) or CI_STRADDLES
    if void and (over <= bears or count.valid - surely <= bears):
        return _commonest([one.void for one in void])
    return CI_STRADDLES


def _commonest(codes: Sequence[str]) -> str:
    """Return the code that most runs have, "" where none has one; of as many, the first by name."""
    counts = Counter(filter(None, codes))
    return min(counts, key=lambda code: (-counts[code], code), default="")
