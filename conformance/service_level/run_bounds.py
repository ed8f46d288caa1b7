"""What the figures of one run say of each limit, with what has to be excused of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.latency.figures import QUANTILES, RunFigures
from tickproof.conformance.latency.order_statistics import samples_needed
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.service_level.limits import Bounds

HOST_NOISE, HOST_CHANGED = "HOST_NOISE", "HOST_CHANGED"
GENERATOR_LATE, KIT_FLOOR, KILL_MISSED = "GENERATOR_LATE", "KIT_FLOOR", "KILL_MISSED"
#: Less than this part of the rate is not the rate.
ACHIEVED_LEAST: Final = 0.999

#: The name of the limit on the time to recover, beside those of percentiles.
RECOVERY: Final = "recovery"


@dataclass(frozen=True)
class Comparison:
    """One run against one limit: a percentile, or RECOVERY; microseconds."""

    name: str
    bounds: Bounds
    limit_us: float

    @property
    def over(self) -> bool:
        """Whether it was over the limit, by whoever's fault."""
        return self.bounds.over(self.limit_us)

    @property
    def surely(self) -> bool:
        """Whether the engine was over the limit, whatever is excused."""
        return self.bounds.surely(self.limit_us)


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
    return _bounds(profile, run, float(unsustained(run)), float(surely), excuse)


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
    return _bounds(profile, run, high, low, excuse)


def _with_unanswered(name: str, run: RunFigures) -> float:
    """Return a bound of a percentile over all records: what is unanswered takes for ever."""
    if not run.unanswered:
        return run.percentiles.get(name, math.inf)
    part = QUANTILES[name] * (run.samples + run.unanswered) / max(run.samples, 1)
    if part > 1:
        return math.inf
    higher = [other for other, quantile in QUANTILES.items() if quantile >= part]
    return run.percentiles.get(higher[0] if higher else "max", math.inf)


def recovery_bounds(profile: Profile, run: RunFigures) -> Bounds:
    """Return how long a run took to recover, microseconds."""
    if run.recovery_s is None:
        return Bounds(0.0, 0.0, void=KILL_MISSED)
    quiet_s = 0.0 if run.quiet_recovery_s is None else run.quiet_recovery_s
    low_s = min(quiet_s, run.recovery_s) if run.noisy > 0 else run.recovery_s
    return _bounds(profile, run, run.recovery_s * 1e6, low_s * 1e6, HOST_NOISE)


def comparisons(profile: Profile, run: RunFigures) -> list[Comparison]:
    """Return what a run says of each limit of its profile: the percentiles, then the recovery."""
    found = [
        Comparison(name, percentile_bounds(profile, name, run), limit_us)
        for name, limit_us in profile.limits.items()
    ]
    if profile.recovering:
        within_us = profile.recovering.within_s * 1e6
        found.append(Comparison(RECOVERY, recovery_bounds(profile, run), within_us))
    return found


def _bounds(profile: Profile, run: RunFigures, high: float, low: float, excuse: str) -> Bounds:
    beyond = run.noisy > profile.host.noisy
    return Bounds(high, low, void_code(profile, run), excuse if low < high else "", beyond)


def void_code(profile: Profile, run: RunFigures) -> str:
    """Return the code of why a run tells nothing of any limit, "" where it may."""
    if run.host_changed:
        return HOST_CHANGED
    # A lateness that nobody recorded is no punctuality.
    late = run.late.get("p99", math.inf) > profile.generator.late_p99_us
    return GENERATOR_LATE if late else ""
