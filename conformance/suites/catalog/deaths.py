"""The scenarios of T3 in which processes die or stand still.

Kill points are drawn, not evenly spaced: a restart resets an engine's cycle, so that
even spacing would meet the same phase every time.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from tickproof.conformance.scenario import (
    FaultStep,
    Moment,
    Scenario,
    SinkBehaviour,
    Target,
    within,
)
from tickproof.conformance.suites.catalog.builders import (
    Context,
    carried,
    kill,
    kill_in_backlog,
    market,
    scenario,
)
from tickproof.conformance.suites.catalog.carriers import (
    COUNTABLE,
    MERGED,
    MERGED_REJECTS,
    ON_MERGED,
    ON_TWO,
    PASSTHROUGH,
    SOME,
    STATE_FIRST,
    TWO_REJECTS,
)


def _deaths(context: Context, faults: tuple[FaultStep, ...], **rest: Any) -> Scenario:
    return carried(context, context.records(90_000), rate=60_000, faults=faults, **rest)


@scenario("count-worker-death", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill(rng, "worker", 0.35, 0.7),))


@scenario("count-worker-death-backlog", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill_in_backlog(context, rng, "worker"),))


@scenario("count-engine-death", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill(rng, "engine", 0.35, 0.7, cut=True),))


@scenario("count-engine-death-backlog", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill_in_backlog(context, rng, "engine"),))


@scenario("count-two-worker-deaths", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill(rng, "worker", 0.2, 0.35), kill(rng, "worker", 0.55, 0.8)))


#: So many deaths of one worker, in one life of its coordinator, and so many where each of them
#: may cost seconds: by engine.toml, or by the time-out of a session.
_DEATHS: Final = 9
_DEAR_DEATHS: Final = 3
_DEAR_S: Final = 20.0


@scenario("count-deaths-of-one-worker", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # What waits longer after each death, or counts deaths and never forgets one, shows late.
    dear = context.transport == "kafka" or context.recovery_s > _DEAR_S
    number = _DEAR_DEATHS if dear else _DEATHS
    apart = 0.72 / number
    faults = tuple(
        kill(rng, "worker", low, low + 0.02) for low in (0.05 + apart * n for n in range(number))
    )
    # So slow that few records come between a moment and its fault.
    return carried(context, context.records(90_000), rate=20_000, faults=faults, workers=1)


@scenario("count-death-in-recovery", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # Twice: what guards itself against a start that crashes again and again counts to three.
    again = FaultStep("kill", "engine", "recovery")
    return _deaths(context, (kill(rng, "engine", 0.3, 0.6, cut=True), again, again))


@scenario("count-early-death", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # When the first output was taken: it is acknowledged late, so that a cut that waits for
    # that comes after the kill.
    fraction = round(rng.uniform(0.001, 0.004), 4)
    step = FaultStep("kill", "engine", "staged", fraction=fraction)
    sink = SinkBehaviour(ack_delay_s=0.4, budget_s=0.9)
    return carried(context, context.records(30_000), rate=60_000, faults=(step,), sink=sink)


@scenario("count-uneven-death", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # Late in a long life, after many cuts: in a silence the last of them comes up with the
    # input, far beyond record 32,768 of the crowded partition.
    step = FaultStep("kill", "engine", "fetched", fraction=round(rng.uniform(0.74, 0.79), 4))
    recipe = {"partitions": 6, "empty": [0], "ended_early": [1, 4], "skew": 0.9}
    return carried(
        context,
        context.records(110_000),
        rate=60_000,
        faults=(step,),
        recipe=recipe,
        keyed={"keys": 3_000},
        hold=(0.7, 0.4),
    )


@scenario("count-mixed-deaths", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # What a resumed life leaves for its workers is not what it leaves for the next life.
    first = _claimed(context, "engine", "worker", kill(rng, "engine", 0.2, 0.35, cut=True))
    second = _claimed(context, "worker", "engine", kill(rng, "worker", 0.55, 0.8))
    if len(within(context.survives, (first, second), 2)) < 2:
        second = _all_paused(second)
    return _deaths(context, (first, second))


def _claimed(context: Context, best: Target, other: Target, step: FaultStep) -> FaultStep:
    """Return a kill of whom the engine claims to survive, a pause where that is nobody."""
    for target in (best, other):
        if target in context.survives:
            return replace(step, target=target)
    return _all_paused(step)


def _all_paused(step: FaultStep) -> FaultStep:
    return replace(step, do="pause", target="engine", seconds=1.0)


@scenario("count-pause", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # An engine that replaces workers may replace one that stands still; any other has to wait.
    target: Target = "worker" if "worker" in context.survives else "engine"
    step = FaultStep(
        "pause", target, "fetched", fraction=round(rng.uniform(0.3, 0.6), 4), seconds=2.0
    )
    return _deaths(context, (step,))


@scenario("count-all-paused", COUNTABLE)
def _(context: Context, rng: random.Random) -> Scenario:
    # What comes out meanwhile comes from somebody else than the workers.
    step = FaultStep(
        "pause", "workers", "fetched", fraction=round(rng.uniform(0.2, 0.4), 4), seconds=0.6
    )
    return carried(context, context.records(60_000), rate=60_000, faults=(step,))


@scenario("count-tail", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # A little after the last fetch: output is on its way, and its answers are slow.
    return _deaths(
        context,
        (kill(rng, "engine", 1.0, 1.0),),
        sink=SinkBehaviour(last_ack_delay_s=0.25, budget_s=1.5),
    )


@scenario("count-after-drain", STATE_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(
        context, context.records(30_000), faults=(FaultStep("kill", "engine", "drained"),)
    )


@scenario("market-after-drain", (MERGED_REJECTS, MERGED))
def _(context: Context, _rng: random.Random) -> Scenario:
    # What came last gives no output, and is covered by a cut all the same.
    return market(
        context,
        30_000,
        recipe={"reject_one_in": 70_000},
        faults=(FaultStep("kill", "engine", "drained"),),
    )


@scenario("count-some-deaths", (SOME,))
def _(context: Context, rng: random.Random) -> Scenario:
    faults = (kill(rng, "engine", 0.2, 0.4), kill(rng, "engine", 0.55, 0.8))
    # Many keys, so that some have their last value right before a death.
    return _deaths(context, faults, keyed={"keys": 30_000})


@scenario("count-some-trickle", (SOME,))
def _(context: Context, rng: random.Random) -> Scenario:
    # So slow that points wait in an engine which sends many at once, and of keys that hardly
    # ever come again.
    return carried(
        context,
        6_000,
        rate=4_000,
        faults=(kill(rng, "engine", 0.4, 0.7),),
        keyed={"keys": 1_000_000, "hot_share": 0.0, "tick": 4},
    )


@scenario("count-checkpoint", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # One that deaths meet may be refused. If not, it covers what the dead had done, and the second
    # fault comes right after it.
    workers = FaultStep(
        "kill", "workers", "checkpointing", fraction=round(rng.uniform(0.2, 0.35), 3)
    )
    step = FaultStep("kill", "engine", "checkpoint", fraction=round(rng.uniform(0.5, 0.75), 3))
    # A cut takes as long as the acknowledgements before it: an answer that does not wait for it
    # comes well ahead of it.
    return carried(
        context,
        context.records(40_000),
        rate=60_000,
        faults=(workers, step) if workers.needs in context.survives else (step,),
        sink=SinkBehaviour(ack_delay_s=0.05, budget_s=5.0),
    )


@scenario("passthrough-deaths", (PASSTHROUGH,))
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (kill(rng, "engine", 0.3, 0.7),))


@scenario("market-worker-death", ON_MERGED)
def _(context: Context, rng: random.Random) -> Scenario:
    return market(context, 90_000, rate=60_000, faults=(kill(rng, "worker", 0.4, 0.6),))


@scenario("market-engine-death", ON_MERGED)
def _(context: Context, rng: random.Random) -> Scenario:
    return market(context, 90_000, rate=60_000, faults=(kill(rng, "engine", 0.4, 0.6),))


def _aimed(rng: random.Random, first: Moment, second: Moment) -> tuple[FaultStep, ...]:
    """Return two kills of the engine at moments at which output is under way."""
    return (
        FaultStep("kill", "engine", first, fraction=round(rng.uniform(0.15, 0.35), 3), cut=True),
        FaultStep("kill", "engine", second, fraction=round(rng.uniform(0.55, 0.8), 3)),
    )


@scenario("count-after-accept", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, _aimed(rng, "accepted", "committing"))


#: Held for longer than a cut takes, so that one taken too early is in place.
_LOSING_S: Final = 0.25


@scenario("count-losing", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    _, step = _aimed(rng, "losing", "losing")
    # Answers are slow: a cut that waits for some of those before it is in place by then, too.
    sink = SinkBehaviour(ack_delay_s=0.03, budget_s=3.0)
    return _deaths(context, (replace(step, delay_s=_LOSING_S),), sink=sink)


@scenario("market-two-after-accept", ON_TWO)
def _(context: Context, rng: random.Random) -> Scenario:
    # Once before the reply to STAGE, when no cut can name it yet, and once after it.
    faults = _aimed(rng, "staged", "accepted")
    return market(context, 90_000, rate=60_000, faults=faults)


@scenario("market-two-rejects-deaths", (TWO_REJECTS,))
def _(context: Context, rng: random.Random) -> Scenario:
    # A replay that meets other quotes makes more or fewer rejects, and numbers them otherwise.
    faults = _aimed(rng, "staged", "accepted")
    recipe = {"symbols": 8, "reject_one_in": 2}
    return market(context, 90_000, rate=60_000, faults=faults, recipe=recipe)


# One kill each: what comes of the one is not told from what comes of the other.
@scenario("market-two-committing", ON_TWO)
def _(context: Context, rng: random.Random) -> Scenario:
    step, _ = _aimed(rng, "committing", "committing")
    return market(context, 60_000, rate=60_000, faults=(step,))


@scenario("market-two-losing", ON_TWO)
def _(context: Context, rng: random.Random) -> Scenario:
    _, step = _aimed(rng, "losing", "losing")
    return market(context, 60_000, rate=60_000, faults=(replace(step, delay_s=_LOSING_S),))
