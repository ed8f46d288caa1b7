"""The scenarios without faults: T0 to T2."""

from __future__ import annotations

import random
from typing import Final

from tickproof.conformance.scenario import Scenario, SinkBehaviour
from tickproof.conformance.suites.catalog.builders import (
    SOME,
    Context,
    count,
    market,
    passthrough,
    scenario,
)

# -- T0: protocol and passthrough ------------------------------------------------


@scenario("passthrough")
def _(context: Context, _rng: random.Random) -> Scenario:
    return passthrough(context.records(20_000), probes=True, fresh=True)


@scenario("passthrough-drain-first")
def _(context: Context, rng: random.Random) -> Scenario:
    return passthrough(
        context.records(20_000), rate=25_000, drain_at=round(rng.uniform(0.2, 0.5), 3), probes=True
    )


@scenario("passthrough-pieces")
def _(context: Context, _rng: random.Random) -> Scenario:
    return passthrough(context.records(20_000), sink=SinkBehaviour(pieces=True, budget_s=2.0))


@scenario("empty-input")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return passthrough(0)


@scenario("empty-partitions")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return passthrough(3, partitions=6)


@scenario("tiny-payloads")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return passthrough(20_000, size=8)


@scenario("large-payloads")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return passthrough(64, size=1 << 20)


@scenario("stdin-eof")
def _(_context: Context, _rng: random.Random) -> Scenario:
    # With one worker, so that one start of an engine serves both questions.
    return passthrough(10_000, partitions=3, workers=1, ending="stdin-eof")


# -- T1: double and count without faults ------------------------------------------


@scenario("double")
def _(context: Context, _rng: random.Random) -> Scenario:
    recipe = {"kind": "numbers", "records": context.records(50_000), "partitions": 4}
    return Scenario("", "double", {}, recipe)


@scenario("count")
def _(context: Context, _rng: random.Random) -> Scenario:
    # Paced, so that an engine of micro-batches has to carry its state over some of them.
    return count(context.records(100_000), rate=100_000)


@scenario("count-edges")
def _(context: Context, _rng: random.Random) -> Scenario:
    return count(context.records(30_000), recipe={"keys": 200, "edge_keys": True, "wrap": True})


@scenario("count-hot-key")
def _(context: Context, _rng: random.Random) -> Scenario:
    # More than 2**16 values of one key.
    return count(context.records(80_000), recipe={"keys": 2, "hot_share": 0.99, "hot_keys": 0.5})


@scenario("count-some")
def _(context: Context, _rng: random.Random) -> Scenario:
    return count(context.records(100_000), SOME, rate=150_000)


@scenario("count-slow-acks")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return count(20_000, sink=SinkBehaviour(last_ack_delay_s=0.3, budget_s=1.5))


@scenario("slow-sink")
def _(_context: Context, _rng: random.Random) -> Scenario:
    # 160 MB of input: an engine that reads on while the sink stands still shows it.
    return passthrough(
        160_000, size=1_000, sink=SinkBehaviour(stall_after=2_000, stall_s=2.5, budget_s=5.0)
    )


@scenario("fast-source")
def _(context: Context, _rng: random.Random) -> Scenario:
    return count(context.records(400_000))


@scenario("long-run")
def _(context: Context, _rng: random.Random) -> Scenario:
    return count(context.records(1_500_000), rate=300_000, recipe={"keys": 20_000, "tick": 256})


# -- T2: Market Spread without faults ----------------------------------------------


@scenario("market-merged-verdicts")
def _(context: Context, _rng: random.Random) -> Scenario:
    # Event times decide nothing: an engine that sorts or compares them is wrong.
    return market(context, 100_000, "merged", "verdicts", event_times="limits", rate=100_000)


@scenario("market-merged-rejects")
def _(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000, "merged", "rejects")


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
}


@scenario("market-boundaries")
def _(_context: Context, rng: random.Random) -> Scenario:
    quotes = [
        ["quote", symbol, *prices]
        for group in BOUNDARIES.values() for symbol, prices in group.items() if prices
    ]  # fmt: skip
    orders = [["order", symbol] for group in BOUNDARIES.values() for symbol in group]
    rng.shuffle(orders)
    recipe = {"kind": "script", "rows": quotes + orders * 3, "inputs": "merged",
              "partitions": 4, "tick": 16}  # fmt: skip
    return Scenario("", "market-spread", {"inputs": "merged", "emit": "verdicts"}, recipe)


@scenario("market-standard-mix")
def _(context: Context, _rng: random.Random) -> Scenario:
    recipe = {"reject_one_in": 70_000, "tick": 1024}
    return market(context, 1_400_000, "merged", "rejects", recipe=recipe)


@scenario("market-two-verdicts")
def _(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000, "two", "verdicts", event_times="backwards", rate=100_000)


@scenario("market-two-rejects")
def _(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000, "two", "rejects", rate=100_000)


@scenario("market-two-fresh")
def _(context: Context, _rng: random.Random) -> Scenario:
    # Silence for longer than freshness_s: what was quoted before it must be seen after it.
    recipe = {"records": context.records(40_000)}
    hold = (0.5, context.freshness_s + 0.5)
    return market(context, 40_000, "two", "verdicts", recipe=recipe, rate=100_000, hold=hold)
