"""The scenarios of T3 that only Kafka has: open transactions, sessions that end, time-outs."""

from __future__ import annotations

import random
from typing import Final

from tickproof.conformance.scenario import FaultStep, Moment, Scenario, Target, within
from tickproof.conformance.suites.catalog.builders import Context, carried, scenario
from tickproof.conformance.suites.catalog.carriers import STATE_FIRST

#: What lies beyond a time-out of the engine does so by as much.
BEYOND_S: Final = 2.0
#: A down-time that is well within the time-out of a transaction, as a share of it.
WITHIN: Final = 0.25


#: Slow enough that there is input left when a worker comes back.
_SLOWLY: Final = 5_000


def _kills(context: Context, *steps: FaultStep, rate: float = 60_000) -> Scenario:
    return carried(context, context.records(90_000), rate=rate, faults=steps)


def _kill(
    rng: random.Random,
    target: Target,
    at: Moment,
    low: float,
    high: float,
    *,
    cut: bool = False,
    down_s: float = 0.0,
) -> FaultStep:
    fraction = round(rng.uniform(low, high), 3)
    return FaultStep("kill", target, at, fraction=fraction, cut=cut, down_s=down_s)


@scenario("kafka-open-transactions", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # Both within one time-out: the first transaction may still be open at the second death.
    return _kills(
        context,
        _kill(rng, "engine", "staged", 0.2, 0.35, cut=True),
        _kill(rng, "engine", "staged", 0.55, 0.7),
    )


@scenario("kafka-short-downtime", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    down_s = round(min(context.transaction_s * WITHIN, 3.0), 3)
    return _kills(context, _kill(rng, "engine", "losing", 0.3, 0.6, cut=True, down_s=down_s))


@scenario("kafka-long-downtime", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    down_s = max(context.transaction_s, context.session_s) + BEYOND_S
    return _kills(context, _kill(rng, "engine", "losing", 0.3, 0.6, cut=True, down_s=down_s))


def _lost_session(context: Context, rng: random.Random, at: Moment, beyond_s: float) -> Scenario:
    step = FaultStep(
        "pause", "worker", at, fraction=round(rng.uniform(0.2, 0.3), 3), seconds=beyond_s + BEYOND_S
    )
    return _kills(context, step, rate=_SLOWLY)


# As a commit is taken: nobody has to wait for the offsets of a transaction that is open.
@scenario("kafka-partition-returns", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _lost_session(context, rng, "committing", 1.5 * context.session_s)


# At a produce that is not answered yet, so that the one who is paused has a transaction open.
@scenario("kafka-lost-session", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _lost_session(context, rng, "staged", 1.5 * context.session_s)


@scenario("kafka-fenced", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # The broker has aborted its transaction when it wakes, and fenced it.
    return _lost_session(
        context, rng, "staged", max(1.5 * context.session_s, context.transaction_s)
    )


def _two_workers_die(context: Context, rng: random.Random, at: Moment) -> Scenario:
    deaths = _kill(rng, "worker", at, 0.2, 0.4), _kill(rng, "worker", at, 0.6, 0.8)
    return _kills(context, *within(context.survives, deaths, 2) or deaths[:1])


@scenario("kafka-worker-in-transaction", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _two_workers_die(context, rng, "staged")


@scenario("kafka-rebalance", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _two_workers_die(context, rng, "committing")
