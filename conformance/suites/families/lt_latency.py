"""Latency under the load of the claimed profile, published whatever the engine does.

No engine is failed for what the machine or the kit did: what is over a limit has to be so in
quiet seconds, and from the moment of publication on, too. What holds under noise holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency import profiles
from tickproof.conformance.latency.figures import QUANTILES, shown_us
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.suites.carriers import EVERY
from tickproof.conformance.suites.judge import Fail, NotClaimed, Unknown
from tickproof.conformance.suites.require import require_completed, require_fired
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import TICK_US, Context, paced, scenario
from tickproof.conformance.suites.service import (
    ACHIEVED,
    SECOND_NS,
    Service,
    backlog_growth,
    compared,
    excess_us,
    late_share,
    longest_quiet,
    medians,
    percentile,
    rise,
    service,
    too_low_to_rise,
    ways,
)
from tickproof.conformance.verdicts import Reason

LT: Final = Family("LT", "Latency", tier=5)
#: Share of the measured seconds that need answers; for a pass, in words: 10 of 14.
_COVERED: Final = 0.7
#: Rejected orders that have to be held against probes, and the share far behind that fails.
_REJECTS: Final = 100
_FAR_BEHIND: Final = 0.9
#: Quiet seconds required before a rise could be seen.
_QUIET_EARLY: Final = 3
#: Shortest quiet stretch over which a backlog is looked at.
_STRETCH_S: Final = 5
#: Measured seconds: long enough for what begins after ten seconds.
MEASURED_S: Final = 14.0
#: One in this many orders is rejected by its quote: company for the probes.
REJECT_ONE_IN: Final = 50
#: ... of an engine on the log of the kit; over Kafka it is that of its profile.
RECOVERY_RATE: Final = 10_000
#: From the end of the warm-up to the kill (drawn), and what is looked at after the recovery.
KILL_S: Final = (0.5, 1.5)
TAIL_S: Final = 3.0
#: An engine whose profile says nothing has its recovery_timeout_s, but at most this.
WITHIN_MOST_S: Final = 60.0


@scenario(name="service")
def service_run(context: Context, _rng: random.Random) -> Scenario:
    profile = profiles.load(context.latency)
    drawn, load = profile.scenario(0), profile.load
    recipe = {key: value for key, value in drawn.recipe.items() if key != "seed"}
    recipe |= paced(load.warm_up_s + MEASURED_S, load.rate, load.tick_us)
    recipe["partitions"] = load.partitions
    if load.probes_per_s and load.params["inputs"] == "merged":
        recipe["reject_one_in"] = REJECT_ONE_IN
    pace = Pace(load.tick_us, load.warm_up_s)
    return replace(drawn, recipe=recipe, faults=(), pace=pace)


def _trusted(history: History, start_ns: int | None = None) -> Service:
    """Return the numbers of a run that came to its end, on time; else raises.

    ``start_ns``: from when on the generator had to be on time; None: from the warm-up's end.
    """
    require_completed(history)
    found = service(history)
    late = found.lateness(start_ns or found.start_ns, found.end_ns)
    bound = found.profile.generator.late_p99_us
    if not len(late) or percentile(late, "p99") > bound * 1_000:
        got = shown_us(percentile(late, "p99") / 1_000) if len(late) else "no tick"
        raise Unknown(
            Reason.GENERATOR_LATE,
            f"input published on time: p99 at most {shown_us(bound)} late",
            got,
        )
    return found


def _covered(found: Service) -> None:
    """Expect answers in most of the measured seconds: a pass rests on them."""
    answered = found.answers.intended_ns[found.answers.answered]
    seconds = len(found.starts_ns)
    held = len(np.unique(found.at_seconds(answered))) if len(answered) else 0
    if held < _COVERED * seconds or not seconds:
        raise Unknown(
            Reason.TOO_FEW_SAMPLES,
            "answers in seven of ten measured seconds",
            f"{held} of {seconds}",
        )


def _above_the_floor(found: Service, name: str, late: np.ndarray) -> None:
    """Expect a limit of at least twice the generator's own lateness."""
    limit, own = found.profile.limits[name], percentile(late, name) / 1_000
    if limit < 2 * own:
        raise Unknown(
            Reason.KIT_FLOOR,
            f"a limit of at least twice the generator's own lateness, {shown_us(own)}",
            f"{name} {shown_us(limit)}",
        )


def _each_limit(found: Service, check: Callable[[str], None]) -> None:
    """Check every limit: a fail outweighs an unknown of another one."""
    late = found.lateness(found.start_ns, found.end_ns)
    unknown: list[Unknown] = []
    for name in found.profile.limits:
        try:
            _above_the_floor(found, name, late)
            check(name)
        except Unknown as error:
            unknown.append(error)
    if unknown:
        raise unknown[0]


def _sure_excess(found: Service, name: str) -> float | None:
    """Return the percentile (us) that passes its limit for certain; None: it holds.

    Raises Unknown where noise or a late generator may be the cause.
    """
    value = excess_us(found, name, found.since(found.answers.intended_ns))
    if value is not None and not excess_us(found, name, found.since(found.answers.published_ns)):
        raise Unknown(
            Reason.GENERATOR_LATE,
            "a limit passed also from the publication on",
            f"{name} {shown_us(value)} from the intended time, within the limit from publication",
        )
    return value


def _figures(found: Service, waits: np.ndarray) -> dict[str, Any]:
    """Return the percentiles of a run for its report, and how quiet it was."""
    shown = {name: shown_us(percentile(waits, name) / 1_000) for name in QUANTILES}
    return {
        "percentiles": shown,
        "samples": len(waits),
        "quiet_seconds": f"{int(found.quiet.sum())} of {len(found.quiet)}",
    }


def _limits_hold(history: History) -> None:
    found = _trusted(history)
    waits = found.since(found.answers.intended_ns)

    def check(name: str) -> None:
        value = _sure_excess(found, name)
        if value is not None:
            limit = found.profile.limits[name]
            raise Fail(
                Reason.OVER_LIMIT,
                f"{name} at most {shown_us(limit)} (profile {found.profile.name})",
                f"{name} {shown_us(value)} in quiet seconds",
                **_figures(found, waits),
            )

    _each_limit(found, check)
    _covered(found)


LT.requirement(
    "LT-LIMITS",
    "the claimed limits hold",
    """Under the load of the claimed profile each percentile of the time from a record's intended
    time to its answer stays within its limit.
    If it fails, look at what happens now and then: a collection of garbage, a cut that stops the
    work, a lock, a timer that sends output in lumps.""",
    clauses="lat-limits lat-kafka toml-claim-latency",
    needs=Needs(latency=("claimed",)),
    judges={service_run: _limits_hold},
)


def _waiting_counts(history: History) -> None:
    found = _trusted(history)
    fetched = np.where(
        found.answers.fetched_ns < 0, found.answers.intended_ns, found.answers.fetched_ns
    )

    def check(name: str) -> None:
        value = _sure_excess(found, name)
        if value is None:
            return
        limit, inside = found.profile.limits[name], found.since(fetched)[found.calm]
        from_fetch = percentile(inside, name) / 1_000
        if from_fetch <= limit:
            raise Fail(
                Reason.HIDDEN_WAIT,
                f"{name} at most {shown_us(limit)} from the intended time, as from the fetch",
                f"{name} {shown_us(value)} from the intended time, {shown_us(from_fetch)} from the "
                "first fetch on: records were left to wait in the "
                + ("topic" if history.claims.over_kafka else "log"),
            )
        raise Unknown(
            Reason.NOT_SEEN,
            "a limit that holds from the fetch on",
            f"{name} {shown_us(from_fetch)} from the fetch on, limit {shown_us(limit)}",
        )

    _each_limit(found, check)
    _covered(found)


LT.requirement(
    "LT-SOURCE",
    "waiting at the source counts",
    """Where a limit holds from the first fetch of a record on, it also holds from its intended
    time: nothing is left to wait in the log, or in a topic.
    If it fails, the engine stopped fetching for a while, or fetched by a timer, and its own clock
    began to run too late.""",
    clauses="lat-source lat-intended",
    needs=Needs(latency=("claimed",)),
    judges={service_run: _waiting_counts},
)


def _probes_alike(history: History) -> None:
    params = history.params
    if (params.get("inputs"), params.get("emit")) != ("merged", "rejects"):
        raise NotClaimed("the claimed profile has no probe orders beside others that are rejected")
    found = _trusted(history)
    # Noise meets those that stand side by side alike: it makes no difference. It may hide one,
    # but no large one while answers come within the lowest limit.
    seen = compared(found, history.fetches, calm=False)
    if seen.count < _REJECTS:
        raise Unknown(
            Reason.TOO_FEW_SAMPLES, f"{_REJECTS} rejected orders beside probes", f"{seen.count}"
        )
    if seen.behind >= _FAR_BEHIND * seen.count:
        raise Fail(
            Reason.PROBES_FIRST,
            "probes and other rejected orders answered alike",
            f"{seen.behind:,} of {seen.count:,} other orders took more than twice as long as the "
            f"probes beside them: {shown_us(seen.others_ns / 1_000)}, these "
            f"{shown_us(seen.probes_ns / 1_000)} (medians)",
        )
    lowest = min(found.profile.limits.values())
    quiet = compared(found, history.fetches, calm=True).count
    if seen.probes_ns > lowest * 1_000 and quiet < _REJECTS:
        raise Unknown(
            Reason.HOST_NOISE,
            f"{_REJECTS} rejected orders beside probes that are answered within "
            f"{shown_us(lowest)}, or in quiet seconds",
            f"{quiet} of {seen.count:,} in quiet seconds, probes answered after "
            f"{shown_us(seen.probes_ns / 1_000)} (median)",
        )


LT.requirement(
    "LT-PROBES",
    "probe orders are treated like any other order",
    """Probe orders are answered no sooner than the ordinary orders of the same partition and moment
    that are rejected, too.
    If it fails, the engine knows a probe by its tag or its symbol and serves it first, so the
    probes measure nothing.""",
    clauses="lat-probes",
    needs=Needs(
        app=("market-spread",), emit=("rejects",), inputs=("merged",), latency=("claimed",)
    ),
    judges={service_run: _probes_alike},
)


def _steady(history: History) -> None:
    found = _trusted(history)
    _covered(found)
    levels = medians(found)
    everywhere = np.ones(len(levels), bool)
    split = rise(found.quiet, found.quiet, levels)
    if split is not None:
        before, after = (
            np.median(part[quiet & ~np.isnan(part)]) / 1_000
            for part, quiet in (
                (levels[:split], found.quiet[:split]),
                (levels[split:], found.quiet[split:]),
            )
        )
        second = (found.starts_ns[split] - found.table.t0_ns) // SECOND_NS
        raise Fail(
            Reason.NEW_LEVEL,
            f"a median that stays about {shown_us(before)}",
            f"{shown_us(after)} from second {second} of the run on",
            medians=[shown_us(level / 1_000) for level in levels if not np.isnan(level)],
        )
    if too_low_to_rise(levels):
        return
    early = int(found.quiet[: len(levels) // 2].sum())
    if early < _QUIET_EARLY or rise(found.quiet, everywhere, levels) is not None:
        raise Unknown(
            Reason.HOST_NOISE,
            f"{_QUIET_EARLY} quiet seconds in the first half, no rise after them",
            f"{early} quiet seconds in the first half, {int(found.quiet.sum())} in all",
        )


LT.requirement(
    "LT-STEADY",
    "late answers are as quick as early ones",
    """The median of a second does not rise to a new level while the load stays the same: not to
    more than twice of what it was, and 10 ms more.
    If it fails, something piles up (state, files, timers, memory), or the engine was tuned for
    short runs.""",
    clauses="lat-steady",
    needs=Needs(latency=("claimed",)),
    judges={service_run: _steady},
)


def _sustained(history: History) -> None:
    require_completed(history)
    found = service(history)
    # Whatever the machine did: what never came is no matter of time.
    missing = ~found.answers.answered
    if missing.any():
        first = (found.answers.intended_ns[missing][0] - found.table.t0_ns) / 1e9
        raise Fail(
            Reason.UNANSWERED,
            "an answer to each measured record",
            f"{int(missing.sum()):,} of {len(missing):,} have none, the first of them due "
            f"{first:.3f} s after the first record",
        )
    _trusted(history)
    loads = ways(history, found)
    for way, load in loads.items():
        done = late_share(found, load)
        grown = backlog_growth(found, load, found.start_ns, found.end_ns)
        if done >= ACHIEVED and not grown:
            continue
        seen = f"{done:.2%} of the rate {way} in time, backlog growing by {grown:,.0f} a second"
        if found.quiet.all():
            _unsustained(found, seen)
        start, end = longest_quiet(found)
        if end - start < _STRETCH_S * SECOND_NS or not backlog_growth(found, load, start, end):
            raise Unknown(
                Reason.HOST_NOISE,
                f"{_STRETCH_S} quiet seconds in a row in which the backlog grows, "
                "or a rate that is sustained",
                f"{seen}; {(end - start) / 1e9:g} quiet seconds",
            )
        _unsustained(found, seen)
    _covered(found)


def _unsustained(found: Service, seen: str) -> None:
    raise Fail(
        Reason.UNSUSTAINED,
        f"{ACHIEVED:.1%} of {found.profile.load.rate:,} records a second done by "
        f"{shown_us(found.p99_us)} after the end of the schedule, no backlog that grows",
        seen,
    )


LT.requirement(
    "LT-SUSTAINED",
    "the rate is sustained",
    """By the end of the schedule, and the limit of p99 more, 99.9 % of what was due is done, the
    backlog has not grown, and nothing stays unanswered.
    If it fails, the engine takes a little less than the rate: any latency that it shows is that of
    a queue which only begins to fill.""",
    clauses="lat-sustained",
    needs=Needs(latency=("claimed",)),
    judges={service_run: _sustained},
)


def within_s(profile: Profile, recovery_timeout_s: float) -> float:
    """Return how long after a kill p99 has to be back under its limit, in seconds."""
    if profile.recovering is not None:
        return profile.recovering.within_s
    return min(recovery_timeout_s, WITHIN_MOST_S)


@scenario(EVERY)
def service_recovery(context: Context, rng: random.Random) -> Scenario:
    profile = profiles.load(context.latency)
    warm_up_s, rate, tick_us = profile.load.warm_up_s, RECOVERY_RATE, TICK_US
    if context.transport == "kafka":
        rate, tick_us = profile.load.rate, profile.load.tick_us
    kill_s = warm_up_s + rng.uniform(*KILL_S)
    total_s = warm_up_s + KILL_S[1] + within_s(profile, context.recovery_s) + TAIL_S
    recipe = {"kind": "keyed", "keys": 1_000} | paced(total_s, rate, tick_us)
    faults = (KillEngineStep("fetched", fraction=round(kill_s / total_s, 4)),)
    return Scenario(
        "", "count", EVERY.params, recipe, rate=rate, faults=faults, pace=Pace(tick_us, warm_up_s)
    )


def _recovered(history: History) -> None:
    require_completed(history)
    back_ns = require_fired(history)[0].t_ns + round(history.record.service.within_s * SECOND_NS)
    found = service(history)
    later = found.answers.intended_ns >= back_ns
    limit, within = shown_us(found.p99_us), f"{history.record.service.within_s:g} s"
    expected = f"p99 at most {limit} from {within} after the kill on"
    if later.sum() < (needed := samples_needed(QUANTILES["p99"])):
        raise Unknown(Reason.NO_RECOVERY_SEEN, expected, f"{later.sum()} records were due by then")
    _trusted(history, back_ns)
    value = percentile(found.since(found.answers.intended_ns)[later], "p99") / 1_000
    if value <= found.p99_us:
        return
    calm = later & found.calm
    if calm.sum() < needed:
        raise Unknown(
            Reason.HOST_NOISE, expected, f"{shown_us(value)}, in seconds that were not quiet"
        )
    # From the publication on: a kit that was late itself fails nobody.
    waits = found.since(found.answers.published_ns)[calm]
    still = percentile(waits, "p99") / 1_000
    if still <= found.p99_us:
        raise Unknown(
            Reason.HOST_NOISE, expected, f"{shown_us(value)}; {shown_us(still)} without noise"
        )
    # Who has not recovered is slow in most seconds; a single stall is no sign of the death.
    seconds = (found.answers.intended_ns[calm] - back_ns) // SECOND_NS
    each = [percentile(waits[seconds == one], "p99") / 1_000 for one in np.unique(seconds)]
    slow = sum(value > found.p99_us for value in each)
    seen = f"p99 {shown_us(still)} in quiet seconds; {slow} of these {len(each)} above the limit"
    if slow <= len(each) // 2:
        raise Unknown(Reason.HOST_NOISE, expected, seen)
    raise Fail(Reason.SLOW_RECOVERY, expected, seen)


LT.requirement(
    "LT-RECOVERY",
    "after a death the limit holds again",
    """Once the engine was killed and had its time to recover, p99 is back under the limit of the
    claimed profile.
    If it fails, the engine came back with less than it had: a lost worker, a cold cache, a backlog
    that it cannot work off.""",
    clauses="lat-recovery",
    needs=Needs(app=("count",), emit=("every",), survives=("engine",), latency=("claimed",)),
    judges={service_recovery: _recovered},
)
