"""The verdict on a profile, from the figures of its runs: pure, the same for the same figures.

The run is the unit: within one, samples hang together. limits.py holds the rule for one limit,
latency.statistics its statistics; docs/verdicts.md says what each reason means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from tickproof.conformance.hosts.model import Reading
from tickproof.conformance.latency.figures import QUANTILES, Number, RunFigures, shown_us
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.performance.limits import (
    ACHIEVED_LEAST,
    CI_STRADDLES,
    GENERATOR_LATE,
    HOST_CHANGED,
    HOST_NOISE,
    KILL_MISSED,
    KIT_FLOOR,
    RECOVERY,
    TOO_FEW_RUNS,
    Bounds,
    bounds_of,
    interval_ends,
    judge_limit,
    percentile_bounds,
    rate_bounds,
    recovery_bounds,
    tally,
    unsustained,
    void_code,
)
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import SEVERITY, Verdict

#: A limit closer to the floor than by this factor is judged by nobody.
FLOOR_FACTOR: Final = 2.0
#: The median of a run may change by this part of it.
TREND_MOST: Final = 0.25
#: Code -> the verdict that goes with it; from worst to best.
REASONS: Final[Mapping[str, Verdict]] = {
    "KIT_ERROR": Verdict.KIT_ERROR,
    "WRONG_ANSWERS": Verdict.FAIL,
    "ENGINE_FAILURE": Verdict.FAIL,
    "UNSUSTAINABLE": Verdict.FAIL,
    "OVER_LIMIT": Verdict.FAIL,
    "SLOW_RECOVERY": Verdict.FAIL,
    "HOST_NOT_OK": Verdict.UNKNOWN,
    "UNOBSERVABLE_HOST": Verdict.UNKNOWN,
    HOST_CHANGED: Verdict.UNKNOWN,
    HOST_NOISE: Verdict.UNKNOWN,
    GENERATOR_LATE: Verdict.UNKNOWN,
    KIT_FLOOR: Verdict.UNKNOWN,
    "TOO_FEW_SAMPLES": Verdict.UNKNOWN,
    KILL_MISSED: Verdict.UNKNOWN,
    "NONSTATIONARY": Verdict.UNKNOWN,
    CI_STRADDLES: Verdict.UNKNOWN,
    TOO_FEW_RUNS: Verdict.UNKNOWN,
}


@dataclass(frozen=True)
class Reason:
    """Why the verdict is what it is: a stable code, the figures in words, the code's verdict."""

    code: str
    text: str
    verdict: Verdict

    @classmethod
    def of(cls, code: str, text: str) -> Reason:
        """Return a reason with the verdict that its code leads to."""
        return cls(code, text, REASONS[code])


@dataclass(frozen=True)
class LimitDecision:
    """The verdict on one limit; times in microseconds.

    percentile: "p50" ..., or "recovery". values_us: of each run, None where nothing is
    published. interval_us: 95 % for the median over runs, None below 6 runs. floor_us: median
    over runs, inf where the null engine could not keep the rate, None for recovery. reason: a
    code, "" for a pass. text: the figures in words.
    """

    percentile: str
    limit_us: Number
    values_us: tuple[Number | None, ...]
    interval_us: tuple[Number, Number] | None
    floor_us: Number | None
    verdict: Verdict
    reason: str
    text: str


@dataclass(frozen=True)
class Decision:
    """The verdict on a profile. reasons: the worst first, none for a pass. void: run number
    -> code of why it does not count; unsustained: numbers of the runs that fell behind."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    limits: tuple[LimitDecision, ...]
    void: dict[int, str]
    unsustained: tuple[int, ...]


def decide(
    profile: Profile,
    figures: Sequence[RunFigures],
    problems: Sequence[Reading] = (),
    floor: Mapping[str, float] | None = None,
) -> Decision:
    """Decide a profile.

    problems: probes of the host that are not met; with any, nothing but wrong answers and a
    failure of the engine is a fail. floor: percentiles in microseconds that were measured
    where there are no runs, empty where the null engine fell behind; None: not measured.
    """
    played = _judgeable(figures)
    runs = counted(profile, played)
    rate = _rate_reason(profile, runs)
    limits = [_percentile_decision(profile, name, runs, floor) for name in profile.limits]
    if profile.recovering:
        limits.append(_recovery_decision(profile, profile.recovering.within_s * 1e6, runs))
    if rate and rate.code == "UNSUSTAINABLE":
        limits = _overruled(limits, Verdict.FAIL, rate)
    broken, host = _broken_reasons(figures), _host_reasons(problems)
    found: list[Reason] = []
    if host:
        limits = _overruled(limits, Verdict.UNKNOWN, Reason.of(host[0].code, ""))
        found = [Reason.of(KIT_FLOOR, one.text) for one in limits if one.reason == KIT_FLOOR]
    elif not broken:
        found = [rate] if rate else []
        found += [Reason.of(one.reason, one.text) for one in limits if one.reason]
        found = [*_of_whole_runs(profile, found, runs), *_trend_reasons(profile, runs)]
    reasons = [*broken, *host, *_joined(found)]
    reasons.sort(key=lambda one: list(REASONS).index(one.code))
    verdicts = [Verdict.PASS, *(one.verdict for one in reasons)]
    return Decision(
        max(verdicts, key=SEVERITY.index),
        tuple(reasons),
        tuple(limits),
        {run.number: HOST_NOISE for run in played if run not in runs}
        | {run.number: code for run in runs if (code := _set_aside_code(profile, run))},
        tuple(run.number for run in runs if unsustained(run)),
    )


def _overruled(
    limits: Sequence[LimitDecision], verdict: Verdict, by: Reason
) -> list[LimitDecision]:
    """Return the limits with another verdict, except those that the floor leaves undecided."""
    return [
        one
        if one.reason == KIT_FLOOR
        else replace(one, verdict=verdict, reason=by.code, text=by.text or one.text)
        for one in limits
    ]


def _joined(reasons: Sequence[Reason]) -> list[Reason]:
    """Return one reason for each code, with each text once."""
    texts: dict[str, dict[str, None]] = {}
    for one in reasons:
        texts.setdefault(one.code, {})[one.text] = None
    return [Reason.of(code, "; ".join(said)) for code, said in texts.items()]


def more_runs(profile: Profile, figures: Sequence[RunFigures]) -> int:
    """Return how many more runs are wanted now; 0: decide.

    First ``least``; ``most`` once a limit that can be judged was not kept. A void run is
    played again, and a disturbed one, ``void_most`` times in all.
    """
    played = _judgeable(figures)
    if len(played) < len(figures):
        return 0
    asked = profile.runs
    runs = counted(profile, played)
    target = asked.most if _wants_most(profile, runs) else asked.least
    valid = sum(not _set_aside_code(profile, run) for run in runs)
    return max(0, min(target - valid, target + asked.void_most - len(played)))


def counted(profile: Profile, runs: Sequence[RunFigures]) -> list[RunFigures]:
    """Return the runs that a verdict rests on.

    A run that others disturbed does not count, fast or slow: it is played again. Where more
    than ``void_most`` were disturbed the host is as it is, and all runs count. Which runs these
    are depends on nothing that an engine does by being slow, so none is chosen for its luck.
    """
    calm = [run for run in runs if run.disturbed <= profile.host.noisy]
    return calm if len(runs) - len(calm) <= profile.runs.void_most else list(runs)


def _judgeable(figures: Sequence[RunFigures]) -> list[RunFigures]:
    return [run for run in figures if run.ended == "completed" and not run.wrong]


def _wants_most(profile: Profile, runs: Sequence[RunFigures]) -> bool:
    """Tell whether a limit that can be judged was not kept, so that ``most`` runs are wanted."""
    fell = [rate_bounds(profile, run) for run in runs]
    if any(one.high for one in fell):
        # All of them for certain: more of the same would say nothing new.
        return not all(one.surely or one.void or one.excuse == KIT_FLOOR for one in fell)
    closed = {
        name
        for name, limit in profile.limits.items()
        if _floor_us(name, runs) * FLOOR_FACTOR > limit or _short_counts(profile, name, runs)
    }
    found = [one for run in runs for one in bounds_of(profile, run).items()]
    return any(bounds.over for name, bounds in found if name not in closed)


def _set_aside_code(profile: Profile, run: RunFigures) -> str:
    """Return the code of why a run is to be played again, "" where it counts."""
    found = bounds_of(profile, run)
    recovery = found.pop(RECOVERY, None)
    seen = [*found.values(), rate_bounds(profile, run), *([recovery] if recovery else [])]
    return next((one.void or one.excuse for one in seen if one.set_aside), "")


def _broken_reasons(figures: Sequence[RunFigures]) -> list[Reason]:
    """Return what is wrong whatever the noise, by the first run of each kind."""
    found: dict[str, Reason] = {}
    for run in figures:
        code = {"kit-error": "KIT_ERROR", "engine-failure": "ENGINE_FAILURE"}.get(run.ended)
        code = code or ("WRONG_ANSWERS" if run.wrong else None)
        if code:
            what = shown(run.wrong, 300) or f"ended by {run.ended}"
            found.setdefault(code, Reason.of(code, f"{run.run}: {what}"))
    return list(found.values())


def _host_reasons(problems: Sequence[Reading]) -> list[Reason]:
    found = []
    for code, bad in (("HOST_NOT_OK", True), ("UNOBSERVABLE_HOST", False)):
        named = [
            f"{one.probe}: {shown(one.value, 60)}, wanted {shown(one.wanted, 60)}"
            for one in problems
            if (one.status == "NOT_OK") is bad
        ]
        if named:
            found.append(Reason.of(code, "; ".join(named)))
    return found


def _rate_reason(profile: Profile, runs: Sequence[RunFigures]) -> Reason | None:
    """Return why the rate was not sustained, or not known to be; None where it was."""
    seen = [rate_bounds(profile, run) for run in runs]
    verdict, code = judge_limit(seen, profile.runs.least, profile.runs.most)
    count = tally(seen)
    surely = sum(not one.void and one.surely for one in seen)
    if not count.over or (verdict is Verdict.PASS and not surely):
        return None
    fell = [run for run in runs if unsustained(run)]
    said = []
    # A backlog that grows is enough: "100.00% were done" would belie the rest.
    if (done := min(run.achieved for run in fell)) < ACHIEVED_LEAST:
        said.append(f"at worst {done:.2%} were done")
    if grew := max(run.backlog_growth for run in fell):
        said.append(
            f"the backlog grew by {f'{grew:,.0f}' if grew >= 1 else f'{grew:.2g}'} a second"
        )
    text = f"{len(fell)} of {len(runs)} runs did not keep {profile.load.rate:,} records a second: "
    text += ", and ".join(said)
    # All of the first runs, for certain: as sure as a pass in which all are under.
    all_fell = count.valid >= profile.runs.least and not count.under
    if verdict is Verdict.FAIL or (all_fell and count.of_under >= profile.runs.least):
        return Reason.of("UNSUSTAINABLE", text)
    if all(one.excuse == KIT_FLOOR for one in seen if one.high):
        code = KIT_FLOOR
    return Reason.of(code or CI_STRADDLES, text)


def _percentile_decision(
    profile: Profile, name: str, runs: Sequence[RunFigures], floor: Mapping[str, float] | None
) -> LimitDecision:
    values = tuple(None if unsustained(run) else run.percentiles.get(name) for run in runs)
    seen = [percentile_bounds(profile, name, run) for run in runs]
    found = _judged(profile, name, profile.limits[name], values, seen)
    if runs and (short := _short_counts(profile, name, runs)):
        needed = samples_needed(QUANTILES[name])
        text = f"{name} needs {needed:,} samples a run; got {short[0]:,}"
        found = replace(found, verdict=Verdict.UNKNOWN, reason="TOO_FEW_SAMPLES", text=text)
    floor_us = None if floor is None else floor.get(name, math.inf)
    if runs:
        floor_us = _floor_us(name, runs)
    if floor_us is None or floor_us * FLOOR_FACTOR <= found.limit_us:
        return replace(found, floor_us=floor_us)
    text = (
        f"{name}: limit {shown_us(found.limit_us)}, below twice the kit's own {shown_us(floor_us)}"
    )
    if math.isinf(floor_us):
        text = f"{name}: the null engine could not keep the rate either"
    return replace(found, floor_us=floor_us, verdict=Verdict.UNKNOWN, reason=KIT_FLOOR, text=text)


def _recovery_decision(
    profile: Profile, within_us: float, runs: Sequence[RunFigures]
) -> LimitDecision:
    values = tuple(None if run.recovery_s is None else run.recovery_s * 1e6 for run in runs)
    seen = [recovery_bounds(profile, run, within_us) for run in runs]
    return _judged(profile, RECOVERY, within_us, values, seen)


def _judged(
    profile: Profile,
    name: str,
    limit_us: float,
    values_us: tuple[float | None, ...],
    seen: Sequence[Bounds],
) -> LimitDecision:
    """Return the verdict on a limit by what the runs say of it alone."""
    verdict, code = judge_limit(seen, profile.runs.least, profile.runs.most)
    text = _sentence(name, seen, limit_us, code)
    if verdict is Verdict.FAIL:
        code = "SLOW_RECOVERY" if name == RECOVERY else "OVER_LIMIT"
    ends = interval_ends(seen)
    return LimitDecision(name, limit_us, values_us, ends, None, verdict, code, text)


def _sentence(name: str, seen: Sequence[Bounds], limit: float, code: str) -> str:
    """Say in words and figures what the runs show of a limit."""
    if not seen:
        return f"{name}: no run"
    over = sum(one.over for one in seen)
    text = f"{name}: {over} of {len(seen)} runs over {shown_us(limit)}"
    text += f", median {shown_us(median(one.high for one in seen))}"
    if code == CI_STRADDLES and (found := interval_ends(seen)):
        text += f", interval {shown_us(found[0])} to {shown_us(found[1])}"
    excused = sum(one.over and not one.surely and not one.void for one in seen)
    if code == HOST_NOISE:
        text += f"; {excused} of them not in their quiet seconds"
    void = sum(bool(one.void) for one in seen)
    return text + (f"; {void} void" if void else "")


def _of_whole_runs(
    profile: Profile, reasons: Sequence[Reason], runs: Sequence[RunFigures]
) -> list[Reason]:
    """Return the reasons, with the figures of whole runs that some rest on before them.

    What is the same for all limits of a run is said once, in place of their words.
    """
    found, codes = [], {one.code for one in reasons}
    if HOST_NOISE in codes:
        noisy = max(run.noisy for run in runs)
        found.append(Reason.of(HOST_NOISE, f"up to {noisy:.0%} of the seconds of a run were noisy"))
    whole = {
        GENERATOR_LATE: _lateness(profile, runs),
        HOST_CHANGED: "changed during a run: "
        + shown(", ".join(sorted({probe for run in runs for probe in run.host_changed})), 200),
    }
    for code in whole.keys() & codes:
        void = sum(void_code(profile, run) == code for run in runs)
        found.append(Reason.of(code, f"{whole[code]}; {void} of {len(runs)} runs void"))
    return found + [one for one in reasons if one.code not in whole]


def _lateness(profile: Profile, runs: Sequence[RunFigures]) -> str:
    late = [run.late["p99"] for run in runs if "p99" in run.late]
    worst = f"late by up to {shown_us(max(late))}" if late else "not looked at"
    return (
        f"at p99 the generator was {worst}, its bound is {shown_us(profile.generator.late_p99_us)}"
    )


def _trend_reasons(profile: Profile, runs: Sequence[RunFigures]) -> list[Reason]:
    counted = [run for run in runs if not _set_aside_code(profile, run)]
    moved = [run for run in counted if run.trend_sure and abs(run.trend) > TREND_MOST]
    if 2 * len(moved) <= len(counted):
        return []
    trends = f"{min(run.trend for run in moved):+.0%} to {max(run.trend for run in moved):+.0%}"
    text = f"in {len(moved)} of {len(counted)} runs the median changed from first to last second"
    return [Reason.of("NONSTATIONARY", f"{text}: {trends}")]


def _floor_us(name: str, runs: Sequence[RunFigures]) -> float:
    """Return the median over runs of the floor at a percentile; 0 without runs."""
    return median([run.floor.get(name, math.inf) for run in runs] or [0.0])


def _short_counts(profile: Profile, name: str, runs: Sequence[RunFigures]) -> list[int]:
    """Return the sample counts of the runs that have too few for a percentile."""
    needed = samples_needed(QUANTILES[name])
    counts = [run.samples + run.unanswered for run in runs if not void_code(profile, run)]
    return sorted(count for count in counts if count < needed)
