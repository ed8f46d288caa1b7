"""The scenarios of T3 in which all workers or the coordinator die, or the state's disk fails."""

from __future__ import annotations

import random
from dataclasses import replace

from tickproof.conformance.scenario import Damaged, FaultStep, Scenario
from tickproof.conformance.suites.catalog.builders import Context, carried, kill, scenario
from tickproof.conformance.suites.catalog.carriers import STATE_FIRST


@scenario("count-all-workers-death", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return carried(
        context, context.records(90_000), rate=60_000, faults=(kill(rng, "workers", 0.35, 0.7),)
    )


@scenario("count-coordinator-death", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    fault = kill(rng, "coordinator", 0.35, 0.7, cut=True)
    return carried(context, context.records(90_000), rate=60_000, faults=(fault,))


@scenario("count-full-disk", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # Killed while nothing can be written: what was released without a cut is needed then.
    full = FaultStep(
        "fill", "state", "fetched", fraction=round(rng.uniform(0.3, 0.5), 4), seconds=2.0, cut=True
    )
    death = replace(kill(rng, "engine", full.fraction, full.fraction), delay_s=1.0)
    return carried(context, context.records(90_000), rate=60_000, faults=(full, death))


@scenario("count-full-disk-at-the-end", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # Drain is asked for before, and the rest of the input comes while nothing can be written:
    # the cut that the answer waits for is due then. At the last record, a fast engine has made
    # it before the disk is full.
    full = FaultStep(
        "fill", "state", "fetched", fraction=round(rng.uniform(0.6, 0.8), 4), seconds=2.0, cut=True
    )
    death = FaultStep("kill", "engine", "drained")
    return carried(
        context, context.records(60_000), rate=60_000, faults=(full, death), drain_at=0.5
    )


def _damaged(context: Context, rng: random.Random, *kinds: Damaged) -> Scenario:
    """Return a run whose newest file meets one of some kinds of damage that one defect misses."""
    step = _corrupt(rng, 0.4, 0.6, rng.choice(kinds))
    # Every key comes often: whichever was damaged is asked for again.
    return carried(
        context, context.records(60_000), rate=60_000, faults=(step,), keyed={"hot_share": 0.0}
    )


def _corrupt(rng: random.Random, low: float, high: float, damage: Damaged) -> FaultStep:
    step = kill(rng, "engine", low, high, cut=True)
    return replace(step, do="corrupt", target="state", damage=damage)


@scenario("count-damaged-checkpoint", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _damaged(context, rng, "half", "tail")


# Three times: one bit in three or four shows nothing, for it lies in output that was sent, or
# in what holds the file together, and then an engine may refuse it.
@scenario("count-rotten-checkpoint", STATE_FIRST)
@scenario("count-rotten-checkpoint-2", STATE_FIRST)
@scenario("count-rotten-checkpoint-3", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # So many keys that most of a file is state, and so early that nearly all of them come again.
    # In one partition they make a file of several 64 KiB.
    step = _corrupt(rng, 0.3, 0.4, "bit")
    return carried(
        context,
        context.records(90_000),
        rate=60_000,
        faults=(step,),
        keyed={"hot_share": 0.0, "keys": 16_000},
        recipe={"partitions": rng.choice((1, 1, 4))},
    )


@scenario("count-lost-checkpoint", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _damaged(context, rng, "empty", "missing", "garbage")
