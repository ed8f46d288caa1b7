"""One limit against all runs: what each run says of it, and what they say together.

Noise and lateness make latency worse, never better. So each run gives two figures: ``high``
as measured, ``low`` with everything excused that the engine may not be to blame for. A limit
passes by the high ones and fails by the low ones; what lies between is unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.latency.figures import QUANTILES, RunFigures
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.latency.statistics import median_interval, samples_needed, tolerated
from tickproof.conformance.verdicts import Verdict

TOO_FEW_RUNS, CI_STRADDLES = "TOO_FEW_RUNS", "CI_STRADDLES"
HOST_NOISE, HOST_CHANGED = "HOST_NOISE", "HOST_CHANGED"
GENERATOR_LATE, KIT_FLOOR, KILL_MISSED = "GENERATOR_LATE", "KIT_FLOOR", "KILL_MISSED"
#: Less than this part of the rate is not the rate.
ACHIEVED_LEAST: Final = 0.999

#: The name of the limit on the time to recover, beside those of percentiles.
RECOVERY: Final = "recovery"


@dataclass(frozen=True)
class Bounds:
    """Bounds of one run for one limit; microseconds, or of the rate 0 and 1 with the limit 0.

    high: at most so much; low: at least so much, and low <= high. void: the code of why the
    run does not count, "" if it does. excuse: the code of why low is below high. beyond:
    the host was noisier than the profile allows.
    """

    limit: float
    high: float
    low: float
    void: str = ""
    excuse: str = ""
    beyond: bool = False

    @property
    def over(self) -> bool:
        """True if it was over the limit, whatever the cause."""
        return self.high > self.limit

    @property
    def surely(self) -> bool:
        """True if the engine was over the limit, whatever is excused."""
        return self.low > self.limit

    @property
    def set_aside(self) -> bool:
        """True if the run tells nothing of this limit and is to be played again."""
        return bool(self.void) or (self.beyond and self.over and not self.surely)


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


def tally(seen: Sequence[Bounds]) -> Tally:
    """Count the runs by what they say of a limit."""
    valid = sum(not one.void for one in seen)
    over = [one for one in seen if one.over]
    of_under = [one for one in seen if not (one.void and one.over)]
    return Tally(
        valid=valid,
        over=len(over),
        of_over=valid + sum(bool(one.void) for one in over),
        under=sum(not one.surely for one in of_under),
        of_under=len(of_under),
        ambiguous=sum(not one.void and not one.surely for one in over),
    )


def judge_limit(seen: Sequence[Bounds], least: int, most: int) -> tuple[Verdict, str]:
    """Return the verdict on one limit, and the code of why where it is unknown.

    Pass at once when at least ``least`` runs are all under: a median at the limit does that
    once in 2**least times. Else nothing is said before ``most`` runs: whoever looks after
    each run finds what he looks for. Then the order-statistics interval for the median over
    runs (statistics.tolerated) decides: under, over, or around the limit.
    """
    count = tally(seen)
    if count.valid >= most and count.under <= tolerated(count.of_under):
        return Verdict.FAIL, ""
    enough = count.valid >= most and count.over <= tolerated(count.of_over)
    if enough or (count.valid >= least and not count.over):
        return Verdict.PASS, ""
    return Verdict.UNKNOWN, _why(seen, count, most)


def interval_ends(seen: Sequence[Bounds]) -> tuple[float, float] | None:
    """Return the ends of the interval for the median over runs, None below 6 valid runs."""
    highs = median_interval([one.high for one in seen if not one.void or one.over])
    lows = median_interval([one.low for one in seen if not one.void])
    return (lows.low, highs.high) if highs and lows else None


def _why(seen: Sequence[Bounds], count: Tally, most: int) -> str:
    """Return the code of what stands between the runs and an answer."""
    void = [one for one in seen if one.void]
    if count.valid < most:
        return _commonest([one.void for one in void]) or TOO_FEW_RUNS
    valid = [one for one in seen if not one.void]
    bears = tolerated(count.valid)
    over = sum(one.over for one in valid)
    surely = over - count.ambiguous
    if count.ambiguous and (surely <= bears or count.valid - over <= bears):
        excuses = [one.excuse for one in valid if one.over and not one.surely]
        return _commonest(excuses) or CI_STRADDLES
    if void and (over <= bears or count.valid - surely <= bears):
        return _commonest([one.void for one in void])
    return CI_STRADDLES


def _commonest(codes: Sequence[str]) -> str:
    """Return the code that most runs have, "" where none has one; of as many, the first by name."""
    counts = Counter(filter(None, codes))
    return min(counts, key=lambda code: (-counts[code], code), default="")


def unsustained(run: RunFigures) -> bool:
    """Tell whether a run fell behind, by whoever's fault."""
    return run.achieved < ACHIEVED_LEAST or run.backlog_growth > 0


def rate_bounds(profile: Profile, run: RunFigures) -> Bounds:
    """Return whether a run fell behind, as 0 or 1.

    Noise excuses no more than its share of the run; where the null engine did not keep the
    rate either, everything is excused.
    """
    growth = profile.load.rate * run.noisy
    behind = run.achieved < ACHIEVED_LEAST * (1 - run.noisy) or run.backlog_growth > growth
    surely = behind and bool(run.floor)
    excuse = HOST_NOISE if run.floor else KIT_FLOOR
    return _bounds(profile, run, 0.0, float(unsustained(run)), float(surely), excuse)


def percentile_bounds(profile: Profile, name: str, run: RunFigures) -> Bounds:
    """Return what a run says of a percentile, microseconds.

    Low is the percentile of the quiet seconds, 0 where too few samples are left in them. A
    run that fell behind is over every limit.
    """
    high = _with_unanswered(name, run)
    excuse = HOST_NOISE
    if run.noisy > 0:
        enough = run.quiet_samples >= samples_needed(QUANTILES[name])
        quiet = run.quiet_percentiles.get(name, 0.0) if enough else 0.0
        low = min(quiet, run.percentiles.get(name, quiet))
    else:
        low = high if math.isinf(high) else run.percentiles.get(name, 0.0)
    if unsustained(run):
        surely = rate_bounds(profile, run).low > 0
        excuse = HOST_NOISE if run.floor else KIT_FLOOR
        high, low = math.inf, math.inf if surely else low
    return _bounds(profile, run, profile.limits[name], high, low, excuse)


def _with_unanswered(name: str, run: RunFigures) -> float:
    """Return a bound of a percentile over all records: what is unanswered takes for ever."""
    if not run.unanswered:
        return run.percentiles.get(name, math.inf)
    part = QUANTILES[name] * (run.samples + run.unanswered) / max(run.samples, 1)
    if part > 1:
        return math.inf
    higher = [other for other, quantile in QUANTILES.items() if quantile >= part]
    return run.percentiles.get(higher[0] if higher else "max", math.inf)


def recovery_bounds(profile: Profile, run: RunFigures, within_us: float) -> Bounds:
    """Return how long a run took to recover."""
    if run.recovery_s is None:
        return Bounds(within_us, 0.0, 0.0, void=KILL_MISSED)
    quiet_s = 0.0 if run.quiet_recovery_s is None else run.quiet_recovery_s
    low_s = min(quiet_s, run.recovery_s) if run.noisy > 0 else run.recovery_s
    return _bounds(profile, run, within_us, run.recovery_s * 1e6, low_s * 1e6, HOST_NOISE)


def bounds_of(profile: Profile, run: RunFigures) -> dict[str, Bounds]:
    """Return what a run says of each limit of its profile: the percentiles, then RECOVERY."""
    found = {name: percentile_bounds(profile, name, run) for name in profile.limits}
    if profile.recovering:
        found[RECOVERY] = recovery_bounds(profile, run, profile.recovering.within_s * 1e6)
    return found


def _bounds(
    profile: Profile, run: RunFigures, limit: float, high: float, low: float, excuse: str
) -> Bounds:
    beyond = run.noisy > profile.host.noisy
    return Bounds(limit, high, low, void_code(profile, run), excuse if low < high else "", beyond)


def void_code(profile: Profile, run: RunFigures) -> str:
    """Return the code of why a run tells nothing of any limit, "" where it may."""
    if run.host_changed:
        return HOST_CHANGED
    # A lateness that nobody recorded is no punctuality.
    late = run.late.get("p99", math.inf) > profile.generator.late_p99_us
    return GENERATOR_LATE if late else ""
