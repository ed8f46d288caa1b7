"""The scenarios without faults: T0 to T2."""

from __future__ import annotations

import random
from typing import Any, Final

from tickproof.conformance.scenario import Scenario, SinkBehaviour
from tickproof.conformance.suites.catalog.builders import Context, carried, market, scenario
from tickproof.conformance.suites.catalog.carriers import (
    COUNT,
    DOUBLE,
    MERGED,
    MERGED_REJECTS,
    ON_MERGED,
    PASSTHROUGH,
    SOME,
    STATE_FIRST,
    STATELESS_FIRST,
    TWO,
    TWO_REJECTS,
)

# -- T0: protocol and passthrough ------------------------------------------------


@scenario("passthrough", STATELESS_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, context.records(20_000), probes=True, fresh=True)


@scenario("passthrough-drain-first", STATELESS_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return carried(
        context,
        context.records(20_000),
        rate=25_000,
        drain_at=round(rng.uniform(0.2, 0.5), 3),
        probes=True,
    )


@scenario("passthrough-pieces", STATELESS_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, context.records(20_000), sink=SinkBehaviour(pieces=True, budget_s=2.0))


@scenario("empty-input", STATELESS_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, 0)


@scenario("empty-partitions", STATELESS_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    # The first partition of either worker ends early, one of them without a record; another
    # empty one ends with the rest. Drain is asked for long before that.
    recipe = {"partitions": 12, "empty": [0, rng.randrange(2, 11)], "ended_early": [0, 1]}
    return carried(context, 6_000, recipe=recipe, rate=15_000, drain_at=0.3)


@scenario("tiny-payloads", (PASSTHROUGH,))
def _(context: Context, _rng: random.Random) -> Scenario:
    # An odd number in each partition, so that some FETCH and some APPEND has an odd length.
    return carried(context, 4 * 5_001, recipe={"size": 1})


@scenario("large-payloads", (PASSTHROUGH,))
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, 64, recipe={"size": 1 << 20})


@scenario("stdin-eof", STATELESS_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    # With one worker, so that one start of an engine serves both questions.
    return carried(context, 10_000, recipe={"partitions": 3}, workers=1, ending="stdin-eof")


#: Silences of the whole input, by profile: longer than the idle time-outs of most clients and
#: pools, and than the times after which caches and connections are usually given up.
SILENCES_S: Final = {"quick": 1.2, "full": 35.0}

# -- T1: double and count without faults ------------------------------------------


@scenario("double", (DOUBLE,))
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, context.records(50_000))


@scenario("count", STATE_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    # Paced, so that an engine of micro-batches has to carry its state over some of them.
    return carried(context, context.records(100_000), rate=100_000, keyed={"key_shape": "limits"})


@scenario("count-silence", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    hold = (round(rng.uniform(0.4, 0.6), 3), SILENCES_S[context.profile])
    return carried(context, context.records(20_000), rate=60_000, hold=hold)


@scenario("count-many-keys", COUNT)
def _(context: Context, _rng: random.Random) -> Scenario:
    # Nearly each record has a key of its own, all in one partition.
    keyed = {"keys": 1_000_000, "hot_share": 0.0, "tick": 1_024}
    return carried(context, context.records(100_000), recipe={"partitions": 1}, keyed=keyed)


@scenario("count-edges", COUNT)
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(
        context, context.records(30_000), keyed={"keys": 200, "edge_keys": True, "wrap": True}
    )


@scenario("count-hot-key", COUNT)
def _(context: Context, _rng: random.Random) -> Scenario:
    # More than 2**16 values of one key.
    return carried(
        context, context.records(80_000), keyed={"keys": 2, "hot_share": 0.99, "hot_keys": 0.5}
    )


@scenario("count-some", (SOME,))
def _(context: Context, _rng: random.Random) -> Scenario:
    # So many partitions that a number of three bits does not tell them apart.
    return carried(
        context,
        context.records(100_000),
        rate=150_000,
        recipe={"partitions": 12},
        keyed={"key_shape": "same-low-32", "units": True},
    )


@scenario("count-slow-acks", STATE_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, 20_000, sink=SinkBehaviour(last_ack_delay_s=0.3, budget_s=1.5))


@scenario("slow-sink", STATELESS_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    sink = SinkBehaviour(stall_after=2_000, stall_s=2.5, budget_s=5.0)
    if context.carried_by == PASSTHROUGH:
        # 160 MB of input: an engine that reads on while the sink stands still shows it.
        return carried(context, 160_000, recipe={"size": 1_000}, sink=sink)
    recipe: dict[str, Any] = {"tick": 256}
    if context.carried_by.app == "market-spread":
        recipe["reject_one_in"] = 2  # so that there is output to hold back
    return carried(context, 1_400_000, keyed={"keys": 100_000}, recipe=recipe, sink=sink)


@scenario("fast-source", STATE_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    # In one partition, so that what there is to fetch, and what comes of it, exceeds a frame.
    return carried(
        context,
        700_000,
        recipe={"partitions": 1, "tick": 1_024},
        keyed={"key_shape": "same-low-16"},
    )


@scenario("long-run", STATE_FIRST)
def _(context: Context, _rng: random.Random) -> Scenario:
    return carried(
        context, context.records(1_500_000), rate=300_000, keyed={"keys": 20_000, "tick": 256}
    )


# -- T2: Market Spread without faults ----------------------------------------------


@scenario("market-merged-verdicts", (MERGED,))
def _(context: Context, _rng: random.Random) -> Scenario:
    # Event times decide nothing: an engine that sorts or compares them is wrong.
    return market(context, 100_000, event_times="limits", rate=100_000)


@scenario("market-merged-rejects", (MERGED_REJECTS,))
def _(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000)


#: Symbol -> the quote that its orders meet (None: no quote), by what it is a boundary of.
BOUNDARIES: Final[dict[str, dict[str, tuple[int, int] | None]]] = {
    "absolute": {
        "ABS499": (1_000_000, 1_000_499),
        "ABS500": (1_000_000, 1_000_500),
        "ABS501": (1_000_000, 1_000_501),
    },
    "ratio": {
        # 40 * spread >= bid + offer with a spread below 500: 5 % of the midpoint.
        "RATUNDER": (7_801, 8_200),
        "RATEQUAL": (7_800, 8_200),
        "RATOVER": (7_799, 8_200),
        "RATPENNY": (39, 41),
        "RATSUB": (40, 41),
        "RATHALF": (20, 21),  # rejected only by a midpoint that was rounded
    },
    "no-quote": {"NOQUOTE": None, "NOQUOTE2": None},
    "odd": {
        "ZERO": (0, 0),
        "CROSSED": (1_000_500, 1_000_000),
        "CROSSLOW": (41, 39),
        "ONESIDED": (0, 100),
        "HUGEOK": (2**53 - 499, 2**53),
        "HUGEREJ": (2**53 - 500, 2**53),
        "WIDE": (0, 2**53),
    },
    # Those of one kind share a partition, where a state can take one for the other.
    "alike": {
        "TWIN": (1_000_000, 1_000_100),
        "Twin": (1_000_000, 1_000_900),
        "twin": (1_000_000, 1_000_200),
        "TWIN.": (1_000_000, 1_000_800),
        "EIGHTCHA": (1_000_000, 1_000_300),
        "EIGHTCHB": (1_000_000, 1_000_700),
    },
}


@scenario("market-boundaries", ON_MERGED)
def _(context: Context, rng: random.Random) -> Scenario:
    quotes = [
        ["quote", symbol, *prices]
        for group in BOUNDARIES.values()
        for symbol, prices in group.items()
        if prices
    ]
    orders = [["order", symbol] for group in BOUNDARIES.values() for symbol in group]
    rng.shuffle(orders)
    recipe = {
        "kind": "script",
        "rows": quotes + orders * 3,
        "inputs": "merged",
        "partitions": 4,
        "tick": 16,
    }
    carrier = context.carried_by
    return Scenario("", carrier.app, carrier.params, recipe)


@scenario("market-standard-mix", (MERGED_REJECTS, MERGED))
def _(context: Context, _rng: random.Random) -> Scenario:
    recipe = {"reject_one_in": 70_000, "tick": 1024}
    return market(context, 1_400_000, recipe=recipe)


@scenario("market-two-verdicts", (TWO,))
def _(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000, event_times="backwards", rate=100_000)


@scenario("market-two-rejects", (TWO_REJECTS,))
def _(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000, rate=100_000)


@scenario("market-two-fresh", (TWO,))
def _(context: Context, _rng: random.Random) -> Scenario:
    return _silent(context, 100_000, {"records": context.records(40_000)})


@scenario("market-two-sparse", (TWO,))
def _(context: Context, _rng: random.Random) -> Scenario:
    # A handful of quotes in each partition: what waits for more of them waits too long.
    recipe = {"records": 120, "symbols": 24, "reject_one_in": 4, "tick": 1}
    return _silent(context, 100, recipe)


def _silent(context: Context, rate: int, recipe: dict[str, Any]) -> Scenario:
    """Return a silence of more than freshness_s: what was quoted before it must be seen after."""
    silence = SILENCES_S[context.profile] if context.profile == "full" else 0.0
    hold = (0.5, max(context.freshness_s + 0.5, silence))
    return market(context, recipe["records"], recipe=recipe, rate=rate, hold=hold)
