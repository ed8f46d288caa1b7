"""The scenarios of T3 in which processes die or stand still.

Kill points are drawn, not evenly spaced: a restart resets an engine's cycle, so that
even spacing would meet the same phase every time.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from tickproof.conformance.scenario import FaultStep, Moment, Scenario, SinkBehaviour
from tickproof.conformance.suites.catalog.builders import (
    SOME,
    Context,
    count,
    kill,
    kill_in_backlog,
    market,
    passthrough,
    scenario,
)


def _deaths(context: Context, faults: tuple[FaultStep, ...], **rest: Any) -> Scenario:
    return count(context.records(90_000), rate=60_000, faults=faults, **rest)


@scenario("count-worker-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill(rng, "worker", 0.35, 0.7),))


@scenario("count-worker-death-backlog")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill_in_backlog(context, rng, "worker"),))


@scenario("count-engine-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill(rng, "engine", 0.35, 0.7, cut=True),))


@scenario("count-engine-death-backlog")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill_in_backlog(context, rng, "engine"),))


@scenario("count-two-worker-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill(rng, "worker", 0.2, 0.35), kill(rng, "worker", 0.55, 0.8)))


@scenario("count-death-in-recovery")
def _(context: Context, rng: random.Random) -> Scenario:
    again = FaultStep("kill", "engine", "recovery")
    return _deaths(context, (kill(rng, "engine", 0.3, 0.6), again))


@scenario("count-mixed-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    # What a resumed life leaves for its workers is not what it leaves for the next life.
    return _deaths(
        context, (kill(rng, "engine", 0.2, 0.35, cut=True), kill(rng, "worker", 0.55, 0.8))
    )


@scenario("count-pause")
def _(context: Context, rng: random.Random) -> Scenario:
    step = FaultStep(
        "pause", "worker", "fetched", fraction=round(rng.uniform(0.3, 0.6), 4), seconds=2.0
    )
    return _deaths(context, (step,))


@scenario("count-tail")
def _(context: Context, rng: random.Random) -> Scenario:
    # A little after the last fetch: output is on its way, and its answers are slow.
    return _deaths(
        context, (kill(rng, "engine", 1.0, 1.0),),
        sink=SinkBehaviour(last_ack_delay_s=0.25, budget_s=1.5),
    )  # fmt: skip


@scenario("count-after-drain")
def _(context: Context, _rng: random.Random) -> Scenario:
    return count(context.records(30_000), faults=(FaultStep("kill", "engine", "drained"),))


@scenario("count-some-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    faults = (kill(rng, "engine", 0.2, 0.4), kill(rng, "engine", 0.55, 0.8))
    # Many keys, so that some have their last value right before a death.
    recipe = {"keys": 30_000}
    return count(context.records(90_000), SOME, rate=60_000, faults=faults, recipe=recipe)


@scenario("count-checkpoint")
def _(context: Context, rng: random.Random) -> Scenario:
    step = FaultStep("kill", "engine", "checkpoint", fraction=round(rng.uniform(0.3, 0.7), 3))
    return count(context.records(40_000), rate=60_000, faults=(step,))


@scenario("passthrough-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    return passthrough(
        context.records(90_000), rate=60_000, faults=(kill(rng, "engine", 0.3, 0.7),)
    )


@scenario("market-worker-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return market(
        context, 90_000, "merged", "verdicts", rate=60_000,
        faults=(kill(rng, "worker", 0.4, 0.6),),
    )  # fmt: skip


@scenario("market-engine-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return market(
        context, 90_000, "merged", "verdicts", rate=60_000,
        faults=(kill(rng, "engine", 0.4, 0.6),),
    )  # fmt: skip


def _aimed(rng: random.Random, first: Moment, second: Moment) -> tuple[FaultStep, ...]:
    """Return two kills of the engine at moments at which output is under way."""
    return (
        FaultStep("kill", "engine", first, fraction=round(rng.uniform(0.15, 0.35), 3), cut=True),
        FaultStep("kill", "engine", second, fraction=round(rng.uniform(0.55, 0.8), 3)),
    )


@scenario("count-after-accept")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, _aimed(rng, "accepted", "committing"))


#: Held for longer than a cut takes, so that one taken too early is in place.
_LOSING_S: Final = 0.25


@scenario("count-losing")
def _(context: Context, rng: random.Random) -> Scenario:
    _, step = _aimed(rng, "losing", "losing")
    return _deaths(context, (replace(step, delay_s=_LOSING_S),))


@scenario("market-two-after-accept")
def _(context: Context, rng: random.Random) -> Scenario:
    # Once before the reply to STAGE, when no cut can name it yet, and once after it.
    faults = _aimed(rng, "staged", "accepted")
    return market(context, 90_000, "two", "verdicts", rate=60_000, faults=faults)


@scenario("market-two-committing")
def _(context: Context, rng: random.Random) -> Scenario:
    first, second = _aimed(rng, "committing", "losing")
    faults = (first, replace(second, delay_s=_LOSING_S))
    return market(context, 90_000, "two", "verdicts", rate=60_000, faults=faults)
