"""The verdict on a profile, from the figures of its runs: pure, the same for the same figures.

The run is the unit: within one, samples hang together. limits.py holds the rule for one limit,
latency.statistics its statistics; docs/verdicts.md says what each reason means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Final

from tickproof.conformance.hosts.model import Reading
from tickproof.conformance.latency.figures import QUANTILES, RunFigures, as_json, shown_us
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.performance.limits import (
    CI_STRADDLES,
    GENERATOR_LATE,
    HOST_CHANGED,
    HOST_NOISE,
    KILL_MISSED,
    KIT_FLOOR,
    RECOVERY,
    TOO_FEW_RUNS,
    Bounds,
    Comparison,
    comparisons,
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
    """Why the verdict is what it is: a stable code, and the figures in words."""

    code: str
    text: str

    @property
    def verdict(self) -> Verdict:
        """The verdict that this reason leads to."""
        return REASONS[self.code]


@dataclass(frozen=True)
class LimitDecision:
    """The verdict on one limit; times in microseconds.

    percentile: "p50" ..., or "recovery". values_us: of each run, None where nothing is
    published. interval_us: 95 % for the median over runs, None below 6 runs. floor_us: median
    over runs, inf where the null engine could not keep the rate, None for recovery. reason: a
    code, "" for a pass. text: the figures in words.
    """

    percentile: str
    limit_us: float
    values_us: tuple[float | None, ...]
    interval_us: tuple[float, float] | None
    floor_us: float | None
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

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict, infinity as the text "inf"."""
        reasons = [asdict(one) | {"verdict": one.verdict.value} for one in self.reasons]
        void = {str(number): code for number, code in self.void.items()}
        found = asdict(self) | {"verdict": self.verdict.value, "reasons": reasons, "void": void}
        return as_json(found)


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
    broken = _broken_reasons(figures)
    rate = _rate_reason(profile, runs)
    limits = [_percentile_decision(profile, name, runs, floor) for name in profile.limits]
    if profile.recovering:
        limits.append(_recovery_decision(profile, runs))
    if rate and rate.code == "UNSUSTAINABLE":
        limits = [
            one
            if one.reason == KIT_FLOOR
            else replace(one, verdict=Verdict.FAIL, reason=rate.code, text=rate.text)
            for one in limits
        ]
    reasons = [*broken, *_host_reasons(problems)]
    if not problems and not broken:
        reasons += [*_merged_reasons(profile, rate, limits, runs), *_trend_reasons(profile, runs)]
    elif problems:
        code = _host_reasons(problems)[0].code
        limits = [
            one if one.reason == KIT_FLOOR else replace(one, verdict=Verdict.UNKNOWN, reason=code)
            for one in limits
        ]
        if texts := [one.text for one in limits if one.reason == KIT_FLOOR]:
            reasons.append(Reason(KIT_FLOOR, "; ".join(dict.fromkeys(texts))))
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
        return not all(one.surely(0) or one.void or one.excuse == KIT_FLOOR for one in fell)
    closed = {
        name
        for name, limit in profile.limits.items()
        if _floor_us(name, runs) * FLOOR_FACTOR > limit or _short_counts(profile, name, runs)
    }
    found = [one for run in runs for one in comparisons(profile, run)]
    return any(one.over for one in found if one.name not in closed)


def _set_aside_code(profile: Profile, run: RunFigures) -> str:
    """Return the code of why a run is to be played again, "" where it counts."""
    found = comparisons(profile, run)
    found.insert(len(profile.limits), Comparison("rate", rate_bounds(profile, run), 0.0))
    set_aside = (one.bounds for one in found if one.bounds.set_aside(one.limit_us))
    return next((one.void or one.excuse for one in set_aside), "")


def _broken_reasons(figures: Sequence[RunFigures]) -> list[Reason]:
    """Return what is wrong whatever the noise, by the first run of each kind."""
    found: dict[str, Reason] = {}
    for run in figures:
        code = {"kit-error": "KIT_ERROR", "engine-failure": "ENGINE_FAILURE"}.get(run.ended)
        code = code or ("WRONG_ANSWERS" if run.wrong else None)
        if code:
            what = shown(run.wrong, 300) or f"ended by {run.ended}"
            found.setdefault(code, Reason(code, f"{run.run}: {what}"))
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
            found.append(Reason(code, "; ".join(named)))
    return found


def _rate_reason(profile: Profile, runs: Sequence[RunFigures]) -> Reason | None:
    """Return why the rate was not sustained, or not known to be; None where it was."""
    seen = [rate_bounds(profile, run) for run in runs]
    verdict, code = judge_limit(seen, 0, profile.runs.least, profile.runs.most)
    count = tally(seen, 0)
    surely = sum(not one.void and one.surely(0) for one in seen)
    if not count.over or (verdict is Verdict.PASS and not surely):
        return None
    fell = [run for run in runs if unsustained(run)]
    text = f"{len(fell)} of {len(runs)} runs did not keep {profile.load.rate:,} records a second: "
    text += f"at worst {min(run.achieved for run in fell):.2%} were done"
    if grew := max(run.backlog_growth for run in fell):
        text += f", and the backlog grew by {grew:,.0f} a second"
    # All of the first runs, for certain: as sure as a pass in which all are under.
    all_fell = count.valid >= profile.runs.least and not count.under
    if verdict is Verdict.FAIL or (all_fell and count.of_under >= profile.runs.least):
        return Reason("UNSUSTAINABLE", text)
    if all(one.excuse == KIT_FLOOR for one in seen if one.high):
        code = KIT_FLOOR
    return Reason(code or CI_STRADDLES, text)


def _percentile_decision(
    profile: Profile, name: str, runs: Sequence[RunFigures], floor: Mapping[str, float] | None
) -> LimitDecision:
    limit = profile.limits[name]
    floor_us = None if floor is None else floor.get(name, float("inf"))
    if runs:
        floor_us = _floor_us(name, runs)
    seen = [percentile_bounds(profile, name, run) for run in runs]
    values = tuple(None if unsustained(run) else run.percentiles.get(name) for run in runs)
    verdict, code = judge_limit(seen, limit, profile.runs.least, profile.runs.most)
    text = _sentence(name, seen, limit, code)
    if runs and (short := _short_counts(profile, name, runs)):
        verdict, code = Verdict.UNKNOWN, "TOO_FEW_SAMPLES"
        text = f"{name} needs {samples_needed(QUANTILES[name]):,} samples a run; got {short[0]:,}"
    if floor_us is not None and floor_us * FLOOR_FACTOR > limit:
        verdict, code = Verdict.UNKNOWN, KIT_FLOOR
        text = f"{name}: limit {shown_us(limit)}, below twice the kit's own {shown_us(floor_us)}"
        if floor_us == float("inf"):
            text = f"{name}: the null engine could not keep the rate either"
    return LimitDecision(
        name,
        limit,
        values,
        interval_ends(seen, limit),
        floor_us,
        verdict,
        "OVER_LIMIT" if verdict is Verdict.FAIL else code,
        text,
    )


def _recovery_decision(profile: Profile, runs: Sequence[RunFigures]) -> LimitDecision:
    assert profile.recovering is not None
    limit = profile.recovering.within_s * 1e6
    seen = [recovery_bounds(profile, run) for run in runs]
    verdict, code = judge_limit(seen, limit, profile.runs.least, profile.runs.most)
    values = tuple(None if run.recovery_s is None else run.recovery_s * 1e6 for run in runs)
    text = _sentence(RECOVERY, seen, limit, code)
    code = "SLOW_RECOVERY" if verdict is Verdict.FAIL else code
    ends = interval_ends(seen, limit)
    return LimitDecision(RECOVERY, limit, values, ends, None, verdict, code, text)


def _sentence(name: str, seen: Sequence[Bounds], limit: float, code: str) -> str:
    """Say in words and figures what the runs show of a limit."""
    if not seen:
        return f"{name}: no run"
    over = sum(one.over(limit) for one in seen)
    text = f"{name}: {over} of {len(seen)} runs over {shown_us(limit)}"
    text += f", median {shown_us(median(one.high for one in seen))}"
    if code == CI_STRADDLES and (found := interval_ends(seen, limit)):
        text += f", interval {shown_us(found[0])} to {shown_us(found[1])}"
    excused = sum(one.over(limit) and not one.surely(limit) and not one.void for one in seen)
    if code == HOST_NOISE:
        text += f"; {excused} of them not in their quiet seconds"
    void = sum(bool(one.void) for one in seen)
    return text + (f"; {void} void" if void else "")


def _merged_reasons(
    profile: Profile,
    rate: Reason | None,
    limits: Sequence[LimitDecision],
    runs: Sequence[RunFigures],
) -> list[Reason]:
    """Return one reason for each code, with the words of the rate and of all its limits."""
    said = [(rate.code, rate.text)] if rate else []
    said += [(one.reason, one.text) for one in limits if one.reason]
    texts: dict[str, list[str]] = {}
    for code, text in said:
        found = texts.setdefault(code, _run_figure(code, profile, runs))
        if text not in found and code not in (GENERATOR_LATE, HOST_CHANGED):
            found.append(text)
    return [Reason(code, "; ".join(found)) for code, found in texts.items()]


def _run_figure(code: str, profile: Profile, runs: Sequence[RunFigures]) -> list[str]:
    """Return the figure that a reason rests on, where it is one of the whole run."""
    if code == GENERATOR_LATE:
        late = [run.late["p99"] for run in runs if "p99" in run.late]
        bound = shown_us(profile.generator.late_p99_us)
        worst = f"late by up to {shown_us(max(late))}" if late else "not looked at"
        text = f"at p99 the generator was {worst}, its bound is {bound}"
        return [f"{text}; {_count(code, profile, runs)}"]
    if code == HOST_CHANGED:
        probes = sorted({probe for run in runs for probe in run.host_changed})
        text = f"changed during a run: {shown(', '.join(probes), 200)}"
        return [f"{text}; {_count(code, profile, runs)}"]
    if code == HOST_NOISE:
        return [f"up to {max(run.noisy for run in runs):.0%} of the seconds of a run were noisy"]
    return []


def _count(code: str, profile: Profile, runs: Sequence[RunFigures]) -> str:
    return f"{sum(void_code(profile, run) == code for run in runs)} of {len(runs)} runs void"


def _trend_reasons(profile: Profile, runs: Sequence[RunFigures]) -> list[Reason]:
    counted = [run for run in runs if not _set_aside_code(profile, run)]
    moved = [run for run in counted if run.trend_sure and abs(run.trend) > TREND_MOST]
    if 2 * len(moved) <= len(counted):
        return []
    trends = f"{min(run.trend for run in moved):+.0%} to {max(run.trend for run in moved):+.0%}"
    text = f"in {len(moved)} of {len(counted)} runs the median changed from first to last second"
    return [Reason("NONSTATIONARY", f"{text}: {trends}")]


def _floor_us(name: str, runs: Sequence[RunFigures]) -> float:
    """Return the median over runs of the floor at a percentile; 0 without runs."""
    return median([run.floor.get(name, float("inf")) for run in runs] or [0.0])


def _short_counts(profile: Profile, name: str, runs: Sequence[RunFigures]) -> list[int]:
    """Return the sample counts of the runs that have too few for a percentile."""
    needed = samples_needed(QUANTILES[name])
    counts = [run.samples + run.unanswered for run in runs if not void_code(profile, run)]
    return sorted(count for count in counts if count < needed)
