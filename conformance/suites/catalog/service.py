"""The scenarios of T5: the load of the claimed profile, published whatever the engine does."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from tickproof.conformance.hosts import cores
from tickproof.conformance.hosts.model import HostError
from tickproof.conformance.latency import profiles
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.scenario import FaultStep, Pace, Scenario
from tickproof.conformance.suites.catalog.builders import Context, carried, scenario
from tickproof.conformance.suites.catalog.carriers import EVERY, STATELESS_FIRST

#: Measured seconds: long enough for what begins after ten seconds.
MEASURED_S: Final = 14.0
#: Of the orders, one in so many is rejected by its quote: company for the probes.
REJECT_ONE_IN: Final = 50
TICK_US: Final = 1_000
RECOVERY: Final = "service-recovery"
RECOVERY_RATE: Final = 10_000
#: From the end of the warm-up to the kill (drawn), and what is looked at after the recovery.
KILL_S: Final = (0.5, 1.5)
TAIL_S: Final = 3.0
#: An engine whose profile says nothing has its recovery_timeout_s, but no more than this.
WITHIN_MOST_S: Final = 60.0
PINNED_RATE: Final = 5_000
PINNED_S: Final = 5.0


def within_s(profile: Profile, recovery_timeout_s: float) -> float:
    """Return how long after a kill p99 has to be back under its limit, in seconds."""
    if profile.recovering is not None:
        return profile.recovering.within_s
    return min(recovery_timeout_s, WITHIN_MOST_S)


def _paced(seconds: float, rate: int, tick_us: int = TICK_US) -> dict[str, Any]:
    """Return the keys of a recipe that make ``seconds`` of input at a rate."""
    tick = rate * tick_us // 1_000_000
    return {"records": round(seconds * 1_000_000 / tick_us) * tick, "tick": tick, "partitions": 4}


@scenario("service")
def _(context: Context, _rng: random.Random) -> Scenario:
    profile = profiles.load(context.latency)
    drawn, load = profile.scenario(0), profile.load
    recipe = {key: value for key, value in drawn.recipe.items() if key != "seed"}
    recipe |= _paced(load.warm_up_s + MEASURED_S, load.rate, load.tick_us)
    recipe["partitions"] = load.partitions
    if load.probes_per_s and load.params["inputs"] == "merged":
        recipe["reject_one_in"] = REJECT_ONE_IN
    pace = Pace(load.tick_us, load.warm_up_s)
    return replace(drawn, recipe=recipe, faults=(), pace=pace)


@scenario(RECOVERY, (EVERY,))
def _(context: Context, rng: random.Random) -> Scenario:
    profile = profiles.load(context.latency)
    warm_up_s = profile.load.warm_up_s
    kill_s = warm_up_s + rng.uniform(*KILL_S)
    total_s = warm_up_s + KILL_S[1] + within_s(profile, context.recovery_s) + TAIL_S
    recipe = {"kind": "keyed", "keys": 1_000} | _paced(total_s, RECOVERY_RATE)
    faults = (FaultStep("kill", "engine", "fetched", fraction=round(kill_s / total_s, 4)),)
    return Scenario(
        "",
        "count",
        EVERY.params,
        recipe,
        rate=RECOVERY_RATE,
        faults=faults,
        pace=Pace(TICK_US, warm_up_s),
    )


@scenario("pinned", STATELESS_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    recipe = _paced(PINNED_S, PINNED_RATE)
    try:
        own = cores.assign(1, 0)
    except HostError:
        own = None
    apart = () if own is None or own.shared else (own.kit, own.engine)
    return carried(
        context, recipe["records"], recipe=recipe, rate=PINNED_RATE, pace=Pace(TICK_US, 0.0, *apart)
    )
