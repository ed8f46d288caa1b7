"""A point's strikes as the steps of a schedule."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from tickproof.conformance.fault_steps import (
    GRACE_S,
    KINDS,
    DelayHostStep,
    DelayStep,
    FaultStep,
    HostStep,
    KillEngineStep,
    KillHostStep,
    KillStep,
    LastingStep,
    LossStep,
    ScaleStep,
    ThrottleHostStep,
    ThrottleStep,
)
from tickproof.conformance.faults.space.dimensions import Point, Strike, Strikes, When

#: To how many workers an engine scales, one place after the other: up, down, and up again.
_WORKERS: Final = (3, 1, 4)
#: What some kinds need to be told. An engine may find another place while its host is down.
_GIVEN: Final[Mapping[type[FaultStep], Mapping[str, Any]]] = {
    DelayStep: {"lag_s": 0.1},
    ThrottleStep: {"rate": 50_000.0},
    ScaleStep: {"workers": _WORKERS[0]},
    KillHostStep: {"down_s": 2.0},
    LossStep: {"share": 0.1},
    ThrottleHostStep: {"rate": 100_000.0},
    DelayHostStep: {"lag_s": 0.1},
}
#: Seconds that a fault of a host lasts: some engines take it for dead then, or wait for it.
_CUT_OFF_S: Final = (0.5, 3.0)
#: Seconds from SIGTERM to SIGKILL; 0 for no SIGTERM.
_GRACES_S: Final = (0.0, 0.0, GRACE_S)
#: Deaths that a recovery may follow, by the claim that they need if a strike comes after them:
#: the first that is claimed.
PRELUDES: Final[dict[str, FaultStep]] = {
    "engine": KillEngineStep("fetched", cut=True),
    "all-workers": KillStep("fetched", target="worker", cut=True),
}
#: Cuts of a life after which a strike comes.
CUTS: Final = {
    When.BEFORE_CUT: 0, When.FIRST_CUT: 1, When.SECOND_CUT: 2, When.TENTH_CUT: 10,
    When.HUNDREDTH_CUT: 100,
}  # fmt: skip
#: Parts of the input at which strikes come.
_PLACES: Final = {
    Strikes.ONE: (0.5,), Strikes.TWO_CLOSE: (0.4, 0.43), Strikes.TWO_APART: (0.3, 0.75),
    Strikes.THREE: (0.2, 0.45, 0.7),
}  # fmt: skip


def step_of(strike: Strike) -> FaultStep:
    """Return a strike as a step, at no moment in particular, that lasts a second if it lasts."""
    do, target, *damage = strike.value.split()
    kind = KINDS[do, target]  # type: ignore[index]
    given = {"damage": damage[0]} if damage else dict(_GIVEN.get(kind, {}))
    given |= {"seconds": 1.0} if issubclass(kind, LastingStep) else {}
    return kind("fetched", target=target, **given)  # type: ignore[arg-type]


def steps(
    point: Point, survives: Collection[str], seconds: float, idle_s: float, rng: random.Random
) -> tuple[FaultStep, ...]:
    """Return the schedule of a point.

    survives: what the engine claims. seconds: how long a strike lasts that does. idle_s: the
    silence before a strike at an idle engine.
    """
    strike = step_of(point.strike)
    if isinstance(strike, LastingStep):
        of_host = isinstance(strike, HostStep)
        lasting_s = round(rng.uniform(*_CUT_OFF_S), 2) if of_host else seconds
        strike = replace(strike, seconds=lasting_s)
    if isinstance(strike, KillEngineStep):
        strike = replace(strike, grace_s=rng.choice(_GRACES_S))
    found: list[FaultStep] = []
    for place, workers in zip(_PLACES[point.strikes], _WORKERS, strict=False):
        fraction = round(place + rng.uniform(-0.01, 0.01), 4)
        if isinstance(strike, ScaleStep):
            strike = replace(strike, workers=workers)
        if point.when is When.SCALING:
            found += [scale(workers, fraction), replace(strike, at="scaling")]
        else:
            found += _at(point.when, strike, fraction, survives, idle_s, rng)
    return tuple(found)


def scale(workers: int, fraction: float) -> FaultStep:
    """Return a scale in the midst of the input, once there was a cut."""
    # A delay: a connection that is held might keep its worker from leaving.
    return ScaleStep("fetched", fraction=fraction, delay_s=0.02, workers=workers, cut=True)


def _at(
    when: When,
    strike: FaultStep,
    fraction: float,
    survives: Collection[str],
    idle_s: float,
    rng: random.Random,
) -> list[FaultStep]:
    """Return a strike at its moment, after what has to come before it."""
    match when:
        case When.IDLE:
            return [replace(strike, at="idle", fraction=fraction, idle_s=idle_s)]
        case When.DRAINING:
            return [replace(strike, at="draining", fraction=fraction)]
        case When.COMMITTING:
            return [replace(strike, at="committing", fraction=fraction)]
        case When.CUTTING:
            return [replace(strike, at="cutting", fraction=fraction)]
        case When.RECOVERY | When.SECOND_RECOVERY:
            claimed = next(death for need, death in PRELUDES.items() if need in survives)
            first = replace(claimed, fraction=fraction)
            again = [replace(first, at="recovery", fraction=0.0, cut=False)]
            return [first, *again * (when is not When.RECOVERY), replace(strike, at="recovery")]
    # Without a delay the connection is held, so that an engine quick to cut has to wait.
    late = when is When.BEFORE_CUT and rng.random() < 0.5
    delay_s = round(rng.uniform(0.0, 0.02), 4) if late else 0.0
    return [replace(strike, at="cuts", cuts=CUTS[when], fraction=fraction, delay_s=delay_s)]
