"""The scenarios: what is done to an engine, by name. Random parts come from the seed.

Kill points are drawn, not evenly spaced: a restart resets an engine's cycle, so that
even spacing would meet the same phase every time.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.protocol.sink import SinkBehaviour
from conformance.scenario import Scenario
from conformance.schedule import FaultStep

#: Input larger than this many times the quick size only in profile full.
FULL_SCALE: Final = 5
EVERY: Final = {"emit": "every"}
SOME: Final = {"emit": "some"}


@dataclass(frozen=True)
class Context:
    """What a scenario is drawn for: seed, profile, the engine's claims, a market of one's own.

    market: recipe keys of kind market-csv, or None for a generated market.
    """

    seed: int
    profile: str = "quick"
    freshness_s: float = 0.0
    market: dict[str, Any] | None = field(default=None)

    def records(self, quick: int) -> int:
        """Return the size of an input in this profile."""
        return quick * (FULL_SCALE if self.profile == "full" else 1)


Builder = Callable[[Context, random.Random], Scenario]
CATALOG: Final[dict[str, Builder]] = {}


def scenario(name: str) -> Callable[[Builder], Builder]:
    """Register a builder under the name of its scenario."""

    def register(builder: Builder) -> Builder:
        CATALOG[name] = builder
        return builder

    return register


def draw(name: str, context: Context) -> Scenario:
    """Return a scenario with everything random in it drawn from the seed and its name."""
    digest = hashlib.sha256(f"{context.seed}:{name}".encode()).digest()
    seed = int.from_bytes(digest[:6], "little")
    drawn = CATALOG[name](context, random.Random(seed))
    recipe = {"seed": seed, **drawn.recipe}
    return replace(drawn, name=name, recipe=recipe, sink=replace(drawn.sink, seed=seed))


def seconds(name: str) -> float:
    """Estimate how long a scenario lasts in profile quick: for the order of play only."""
    drawn = draw(name, Context(seed=0, freshness_s=5.0))
    paced = drawn.recipe.get("records", 0) / drawn.rate if drawn.rate else 0.0
    paused = sum(step.seconds for step in drawn.faults)
    return paced + paused + (drawn.hold[1] if drawn.hold else 0.0) + drawn.sink.stall_s


def _passthrough(records: int, size: int = 24, partitions: int = 4, **rest: Any) -> Scenario:
    recipe = {"kind": "payloads", "records": records, "size": size, "partitions": partitions}
    return Scenario("", "passthrough", {}, recipe | {"tick": 16}, **rest)


def _count(
    records: int, params: dict[str, str] = EVERY, *, recipe: dict[str, Any] | None = None,
    **rest: Any,
) -> Scenario:  # fmt: skip
    base = {"kind": "keyed", "records": records, "keys": 1000, "partitions": 4, "tick": 64}
    return Scenario("", "count", params, base | (recipe or {}), **rest)


def _market(
    context: Context, records: int, inputs: str, emit: str, *,
    recipe: dict[str, Any] | None = None, **rest: Any,
) -> Scenario:  # fmt: skip
    base: dict[str, Any] = {"inputs": inputs, "partitions": 4, "tick": 64}
    if context.market is not None and recipe is None:
        base |= context.market
        # A recorded market is as long as it is: played at three times the usual pace.
        if rest.get("rate"):
            rest["rate"] *= 3
    else:
        base |= {"kind": "market", "records": context.records(records), "reject_one_in": 50}
        # With many symbols, some orders after a death meet a quote of long before it.
        base |= {"symbols": 3_000} if rest.get("faults") else {}
        # Probes are rejected by every quote of their symbols: to hide one is never right.
        base |= {"probe_one_in": 500} if emit == "rejects" and recipe is None else {}
        # Orders without any quote: else some interleaving might explain plain silence.
        base |= {"probe_one_in": 500} if inputs == "two" else {}
        base |= recipe or {}
    return Scenario("", "market-spread", {"inputs": inputs, "emit": emit}, base, **rest)


def _kill(rng: random.Random, target: str, low: float, high: float, **rest: Any) -> FaultStep:
    """Return a kill at a drawn part of the input, a drawn moment after it."""
    return FaultStep(
        "kill", target, "fetched",  # type: ignore[arg-type]
        fraction=round(rng.uniform(low, high), 4), delay_s=round(rng.uniform(0.0, 0.06), 4), **rest,
    )  # fmt: skip


def _kill_in_backlog(context: Context, rng: random.Random, target: str) -> FaultStep:
    """Publish a burst at once, and kill at the first fetch of it: a fast engine is soon done."""
    step = _kill(rng, target, 0.3, 0.4)
    return replace(step, burst=context.records(40_000), delay_s=0.0)


# -- T0: protocol and passthrough ------------------------------------------------


@scenario("passthrough")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(context.records(20_000), probes=True)


@scenario("passthrough-drain-first")
def _(context: Context, rng: random.Random) -> Scenario:
    return _passthrough(
        context.records(20_000), rate=25_000, drain_at=round(rng.uniform(0.2, 0.5), 3), probes=True
    )


@scenario("passthrough-pieces")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(context.records(20_000), sink=SinkBehaviour(pieces=True, budget_s=2.0))


@scenario("empty-input")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(0)


@scenario("empty-partitions")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(3, partitions=6)


@scenario("one-worker")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(context.records(10_000), partitions=3, workers=1)


@scenario("tiny-payloads")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(20_000, size=8)


@scenario("large-payloads")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(64, size=1 << 20)


@scenario("stdin-eof")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return _passthrough(1_000, ending="stdin-eof")


# -- T1: double and count without faults ------------------------------------------


@scenario("double")
def _(context: Context, _rng: random.Random) -> Scenario:
    recipe = {"kind": "numbers", "records": context.records(50_000), "partitions": 4}
    return Scenario("", "double", {}, recipe)


@scenario("count")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _count(context.records(100_000))


@scenario("count-edges")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _count(context.records(30_000), recipe={"keys": 200, "edge_keys": True, "wrap": True})


@scenario("count-hot-key")
def _(context: Context, _rng: random.Random) -> Scenario:
    # More than 2**16 values of one key.
    return _count(context.records(80_000), recipe={"keys": 2, "hot_share": 0.99, "hot_keys": 0.5})


@scenario("count-some")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _count(context.records(100_000), SOME, rate=150_000)


@scenario("count-slow-acks")
def _(_context: Context, _rng: random.Random) -> Scenario:
    return _count(20_000, sink=SinkBehaviour(last_ack_delay_s=0.3, budget_s=1.5))


@scenario("slow-sink")
def _(_context: Context, _rng: random.Random) -> Scenario:
    # 160 MB of input: an engine that reads on while the sink stands still shows it.
    return _passthrough(
        160_000, size=1_000, sink=SinkBehaviour(stall_after=2_000, stall_s=2.5, budget_s=5.0)
    )


@scenario("fast-source")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _count(context.records(400_000))


@scenario("long-run")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _count(context.records(1_500_000), rate=300_000, recipe={"keys": 20_000, "tick": 256})


# -- T2: Market Spread without faults ----------------------------------------------


@scenario("market-merged-verdicts")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _market(context, 100_000, "merged", "verdicts")


@scenario("market-merged-rejects")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _market(context, 100_000, "merged", "rejects")


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
    return _market(context, 1_400_000, "merged", "rejects", recipe=recipe)


@scenario("market-two-verdicts")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _market(context, 100_000, "two", "verdicts", rate=100_000)


@scenario("market-two-rejects")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _market(context, 100_000, "two", "rejects", rate=100_000)


@scenario("market-two-fresh")
def _(context: Context, _rng: random.Random) -> Scenario:
    # Silence for longer than freshness_s: what was quoted before it must be seen after it.
    recipe = {"records": context.records(40_000)}
    hold = (0.5, context.freshness_s + 0.5)
    return _market(context, 40_000, "two", "verdicts", recipe=recipe, rate=100_000, hold=hold)


# -- T3: deaths ---------------------------------------------------------------------


def _deaths(context: Context, faults: tuple[FaultStep, ...], **rest: Any) -> Scenario:
    return _count(context.records(90_000), rate=60_000, faults=faults, **rest)


@scenario("count-worker-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (_kill(rng, "worker", 0.35, 0.7),))


@scenario("count-worker-death-backlog")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (_kill_in_backlog(context, rng, "worker"),))


@scenario("count-engine-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (_kill(rng, "engine", 0.35, 0.7, cut=True),))


@scenario("count-engine-death-backlog")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (_kill_in_backlog(context, rng, "engine"),))


@scenario("count-two-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(
        context, (_kill(rng, "engine", 0.2, 0.35, cut=True), _kill(rng, "engine", 0.55, 0.8))
    )


@scenario("count-two-worker-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, (_kill(rng, "worker", 0.2, 0.35), _kill(rng, "worker", 0.55, 0.8)))


@scenario("count-death-in-recovery")
def _(context: Context, rng: random.Random) -> Scenario:
    again = FaultStep("kill", "engine", "recovery")
    return _deaths(context, (_kill(rng, "engine", 0.3, 0.6), again))


@scenario("count-pause")
def _(context: Context, rng: random.Random) -> Scenario:
    step = FaultStep(
        "pause", "worker", "fetched", fraction=round(rng.uniform(0.3, 0.6), 4), seconds=2.0
    )
    return _deaths(context, (step,))


@scenario("count-tail")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _deaths(context, (FaultStep("kill", "engine", "fetched", fraction=1.0),))


@scenario("count-after-drain")
def _(context: Context, _rng: random.Random) -> Scenario:
    return _count(context.records(30_000), faults=(FaultStep("kill", "engine", "drained"),))


@scenario("count-some-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    faults = (_kill(rng, "engine", 0.2, 0.4), _kill(rng, "engine", 0.55, 0.8))
    # Many keys, so that some have their last value right before a death.
    recipe = {"keys": 30_000}
    return _count(context.records(90_000), SOME, rate=60_000, faults=faults, recipe=recipe)


@scenario("count-checkpoint")
def _(context: Context, rng: random.Random) -> Scenario:
    step = FaultStep("kill", "engine", "checkpoint", fraction=round(rng.uniform(0.3, 0.7), 3))
    return _count(context.records(40_000), rate=60_000, faults=(step,))


@scenario("count-slow-acks-death")
def _(_context: Context, rng: random.Random) -> Scenario:
    # A little after the last fetch: output is on its way, and its answers are slow.
    return _count(
        20_000, rate=60_000, faults=(_kill(rng, "engine", 1.0, 1.0),),
        sink=SinkBehaviour(last_ack_delay_s=0.25, budget_s=1.5),
    )  # fmt: skip


@scenario("passthrough-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    return _passthrough(
        context.records(90_000), rate=60_000, faults=(_kill(rng, "engine", 0.3, 0.7),)
    )


@scenario("market-worker-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return _market(
        context, 90_000, "merged", "verdicts", rate=60_000,
        faults=(_kill(rng, "worker", 0.4, 0.6),),
    )  # fmt: skip


@scenario("market-engine-death")
def _(context: Context, rng: random.Random) -> Scenario:
    return _market(
        context, 90_000, "merged", "verdicts", rate=60_000,
        faults=(_kill(rng, "engine", 0.4, 0.6),),
    )  # fmt: skip


@scenario("market-two-deaths")
def _(context: Context, rng: random.Random) -> Scenario:
    return _market(
        context, 90_000, "two", "verdicts", rate=60_000,
        faults=(_kill(rng, "engine", 0.2, 0.4), _kill(rng, "engine", 0.6, 0.8)),
    )  # fmt: skip


def _aimed(at: str, rng: random.Random) -> tuple[FaultStep, ...]:
    return (
        FaultStep("kill", "engine", at, fraction=round(rng.uniform(0.15, 0.35), 3)),  # type: ignore[arg-type]
        FaultStep("kill", "engine", at, fraction=round(rng.uniform(0.55, 0.8), 3)),  # type: ignore[arg-type]
    )


@scenario("count-after-accept")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, _aimed("accepted", rng))


@scenario("count-committing")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, _aimed("committing", rng))


def _losing(rng: random.Random) -> tuple[FaultStep, ...]:
    # Held for longer than a cut takes, so that one taken too early is in place.
    return tuple(replace(step, delay_s=0.25) for step in _aimed("losing", rng))


@scenario("count-losing")
def _(context: Context, rng: random.Random) -> Scenario:
    return _deaths(context, _losing(rng))


@scenario("market-two-losing")
def _(context: Context, rng: random.Random) -> Scenario:
    return _market(context, 90_000, "two", "verdicts", rate=60_000, faults=_losing(rng))


@scenario("market-two-after-accept")
def _(context: Context, rng: random.Random) -> Scenario:
    # Once before the reply to STAGE, when no cut can name it yet, and once after it.
    first, second = _aimed("accepted", rng)
    faults = (replace(first, at="staged"), second)
    return _market(context, 90_000, "two", "verdicts", rate=60_000, faults=faults)


@scenario("market-two-committing")
def _(context: Context, rng: random.Random) -> Scenario:
    return _market(
        context, 90_000, "two", "verdicts", rate=60_000, faults=_aimed("committing", rng)
    )
