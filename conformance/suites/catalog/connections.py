"""The scenarios of T3 in which connections break, stand still, or are slow.

Several faults a run, as each run costs an engine a start. Those that meet output come after
output was acknowledged, so that there is a connection of the sink to meet.
"""

from __future__ import annotations

import random
from typing import Any, Final

from tickproof.conformance.scenario import Do, FaultStep, Scenario
from tickproof.conformance.suites.catalog.builders import Context, carried, market, scenario
from tickproof.conformance.suites.catalog.carriers import ON_TWO, STATE_FIRST

#: How long a fault lasts that has to meet the next batch of an engine, and one that need not.
_LONG_S: Final = 0.8
_SHORT_S: Final = 0.5


def _source(do: Do, fraction: float, **rest: Any) -> FaultStep:
    return FaultStep(do, "source", "fetched", fraction=round(fraction, 4), **rest)


def _sink(do: Do, fraction: float, **rest: Any) -> FaultStep:
    return FaultStep(do, "sink", "accepted", fraction=round(fraction, 4), **rest)


@scenario("count-links-cut", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    faults = (
        _source("cut", rng.uniform(0.15, 0.25)),
        _sink("cut", rng.uniform(0.4, 0.5)),
        _sink("late", rng.uniform(0.65, 0.75)),
    )
    return carried(context, context.records(90_000), rate=60_000, faults=faults)


@scenario("market-two-links-cut", ON_TWO)
def _(context: Context, rng: random.Random) -> Scenario:
    faults = (
        _sink("cut", rng.uniform(0.15, 0.25)),
        _sink("late", rng.uniform(0.4, 0.5)),
        _source("cut", rng.uniform(0.65, 0.75)),
    )
    return market(context, 90_000, rate=60_000, faults=faults)


@scenario("count-links-down", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    faults = (
        _source("half-open", rng.uniform(0.15, 0.25), seconds=_LONG_S),
        _sink("half-open", rng.uniform(0.4, 0.5), seconds=_LONG_S),
        _sink("refuse", rng.uniform(0.65, 0.75), seconds=_LONG_S),
    )
    return carried(context, context.records(90_000), rate=60_000, faults=faults)


@scenario("count-links-slow", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    faults = (
        _source("delay", rng.uniform(0.08, 0.1), seconds=_LONG_S, lag_s=0.4),
        _sink("drip", rng.uniform(0.25, 0.27), seconds=_SHORT_S),
        _source("throttle", rng.uniform(0.42, 0.44), seconds=_SHORT_S, rate=50_000),
        _sink("delay", rng.uniform(0.59, 0.61), seconds=_LONG_S, lag_s=0.4),
        _source("silence", rng.uniform(0.76, 0.78), seconds=_SHORT_S),
    )
    return carried(context, context.records(90_000), rate=60_000, faults=faults)
