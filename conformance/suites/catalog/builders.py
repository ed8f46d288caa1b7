"""How a scenario is drawn: its seed, its profile, and what scenarios are made of."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tickproof.conformance.scenario import FaultStep, Scenario
from tickproof.generators.market import EventTimes

#: Input larger than this many times the quick size only in profile full.
FULL_SCALE: Final = 5
EVERY: Final = {"emit": "every"}
SOME: Final = {"emit": "some"}


@dataclass(frozen=True)
class Context:
    """What a scenario is drawn for: seed, profile, the engine's claims, a market of one's own.

    market: recipe keys of kind market-csv, or None for a generated market. latency: name of
    the SLA profile that tier 5 plays. recovery_s: the engine's own limit of a recovery.
    """

    seed: int
    profile: str = "quick"
    freshness_s: float = 0.0
    market: dict[str, Any] | None = field(default=None)
    latency: str = "steady"
    recovery_s: float = 10.0

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


def passthrough(records: int, size: int = 24, partitions: int = 4, **rest: Any) -> Scenario:
    """Return a run of passthrough; ``size``: bytes of a payload."""
    recipe = {"kind": "payloads", "records": records, "size": size, "partitions": partitions}
    return Scenario("", "passthrough", {}, recipe | {"tick": 16}, **rest)


def count(
    records: int, params: dict[str, str] = EVERY, *, recipe: dict[str, Any] | None = None,
    **rest: Any,
) -> Scenario:  # fmt: skip
    """Return a run of count; ``recipe`` overrides the usual keys."""
    base = {"kind": "keyed", "records": records, "keys": 1000, "partitions": 4, "tick": 64}
    return Scenario("", "count", params, base | (recipe or {}), **rest)


def market(
    context: Context, records: int, inputs: str, emit: str, *,
    recipe: dict[str, Any] | None = None, event_times: EventTimes = "rising", **rest: Any,
) -> Scenario:  # fmt: skip
    """Return a run of Market Spread, on the session's own market unless ``recipe`` is given.

    event_times: of a generated market.
    """
    base: dict[str, Any] = {"inputs": inputs, "partitions": 4, "tick": 64}
    if context.market is not None and recipe is None:
        base |= context.market
        # A recorded market is as long as it is: played at three times the usual pace.
        if rest.get("rate"):
            rest["rate"] *= 3
    else:
        base |= {"kind": "market", "records": context.records(records), "reject_one_in": 50}
        base |= {"event_times": event_times}
        # With many symbols, some orders after a death meet a quote of long before it.
        base |= {"symbols": 3_000} if rest.get("faults") else {}
        # Probes are rejected by every quote of their symbols: to hide one is never right.
        base |= {"probe_one_in": 500} if emit == "rejects" and recipe is None else {}
        # Orders without any quote: else some interleaving might explain plain silence.
        base |= {"probe_one_in": 500} if inputs == "two" else {}
        base |= recipe or {}
    return Scenario("", "market-spread", {"inputs": inputs, "emit": emit}, base, **rest)


def kill(rng: random.Random, target: str, low: float, high: float, **rest: Any) -> FaultStep:
    """Return a kill at a drawn part of the input, a drawn moment after it."""
    return FaultStep(
        "kill", target, "fetched",  # type: ignore[arg-type]
        fraction=round(rng.uniform(low, high), 4), delay_s=round(rng.uniform(0.0, 0.06), 4), **rest,
    )  # fmt: skip


def kill_in_backlog(context: Context, rng: random.Random, target: str) -> FaultStep:
    """Publish a burst at once, and kill at the first fetch of it: a fast engine is soon done."""
    step = kill(rng, target, 0.3, 0.4)
    return replace(step, burst=context.records(40_000), delay_s=0.0)
