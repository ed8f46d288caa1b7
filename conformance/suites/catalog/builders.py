"""How a scenario is drawn: its seed, its profile, and what scenarios are made of."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from tickproof.conformance.fault_space.offers import EVERYTHING, Offer
from tickproof.conformance.scenario import Death, FaultStep, Scenario
from tickproof.conformance.suites.catalog.carriers import Carrier, named
from tickproof.generators.market import EventTimes

#: Input larger than this many times the quick size only in profile full.
FULL_SCALE: Final = 5
#: Over Kafka a pace is this many times slower, and an input without one no longer than that.
KAFKA_SHARE: Final = 3
KAFKA_MOST: Final = 200_000
#: Claims of an engine that survives all that a scenario may do to it.
SURVIVES: Final = get_args(Death)


@dataclass(frozen=True)
class Context:
    """What a scenario is drawn for: seed, profile, the engine's claims, a market of one's own.

    carrier: the app to play it on, None for the first that the scenario names. survives: what
    the engine claims to survive there. market: recipe keys of kind market-csv, or None for a
    generated market. latency: name of the SLA profile that tier 5 plays. recovery_s: the
    engine's own limit of a recovery. offers: what there is to draw points of the fault space from.
    transport: what the engine speaks; over Kafka, the timeouts of its sessions and transactions.
    """

    seed: int
    profile: str = "quick"
    freshness_s: float = 0.0
    market: dict[str, Any] | None = field(default=None)
    latency: str = "steady"
    recovery_s: float = 10.0
    carrier: Carrier | None = None
    survives: tuple[str, ...] = SURVIVES
    offers: tuple[Offer, ...] = EVERYTHING
    transport: str = "log"
    session_s: float = 3.0
    transaction_s: float = 10.0

    @property
    def carried_by(self) -> Carrier:
        """The carrier, in a builder of a scenario that names some."""
        assert self.carrier is not None
        return self.carrier

    def records(self, quick: int) -> int:
        """Return the size of an input in this profile."""
        return quick * (FULL_SCALE if self.profile == "full" else 1)


Builder = Callable[[Context, random.Random], Scenario]


@dataclass(frozen=True)
class Entry:
    """A scenario of the catalog: how it is drawn, and what it can be played on.

    carriers: best first; empty where the builder itself says which app it plays.
    """

    build: Builder
    carriers: tuple[Carrier, ...]


CATALOG: Final[dict[str, Entry]] = {}


def scenario(name: str, carriers: Sequence[Carrier] = ()) -> Callable[[Builder], Builder]:
    """Register a builder under the name of its scenario."""

    def register(builder: Builder) -> Builder:
        CATALOG[name] = Entry(builder, tuple(carriers))
        return builder

    return register


def draw(name: str, context: Context, entry: Entry | None = None) -> Scenario:
    """Return a scenario with everything random in it drawn from the seed and its name.

    entry: of a scenario that the catalog does not have. Raises ValueError for a carrier that the
    scenario does not name.
    """
    entry = entry or CATALOG[name]
    if entry.carriers:
        context = replace(context, carrier=context.carrier or entry.carriers[0])
        if context.carrier not in entry.carriers:
            raise ValueError(f"{name}: expected one of {named(entry.carriers)}")
    digest = hashlib.sha256(f"{context.seed}:{name}".encode()).digest()
    seed = int.from_bytes(digest[:6], "little")
    drawn = entry.build(context, random.Random(seed))
    if context.transport == "kafka":
        drawn = _over_kafka(drawn)
    recipe = {"seed": seed, **drawn.recipe}
    return replace(drawn, name=name, recipe=recipe, sink=replace(drawn.sink, seed=seed))


def _over_kafka(drawn: Scenario) -> Scenario:
    """Return a scenario at a pace that engines keep up with whose records are JSON messages."""
    records = drawn.recipe.get("records", 0)
    fewer = min(records, KAFKA_MOST) if drawn.rate is None else records // KAFKA_SHARE
    return replace(
        drawn,
        recipe=drawn.recipe | ({"records": fewer} if records else {}),
        rate=drawn.rate and drawn.rate / KAFKA_SHARE,
        faults=tuple(
            replace(step, burst=step.burst // KAFKA_SHARE)
            for step in drawn.faults
            if step.do != "late"  # the broker fences what is late
        ),
    )


def seconds(name: str) -> float:
    """Estimate how long a scenario lasts in profile quick: for the order of play only."""
    drawn = draw(name, Context(seed=0, freshness_s=5.0))
    paced = drawn.recipe.get("records", 0) / drawn.rate if drawn.rate else 0.0
    paused = sum(step.seconds for step in drawn.faults)
    return paced + paused + (drawn.hold[1] if drawn.hold else 0.0) + drawn.sink.stall_s


def carried(
    context: Context,
    records: int,
    *,
    recipe: dict[str, Any] | None = None,
    keyed: dict[str, Any] | None = None,
    **rest: Any,
) -> Scenario:
    """Return a run of the carrier's app on the input that is usual for it.

    ``recipe`` overrides that for every app, ``keyed`` for count alone. Market Spread runs on a
    generated market; see `market` for the session's own.
    """
    carrier = context.carried_by
    base: dict[str, Any] = {"records": records, "partitions": 4}
    if carrier.app == "market-spread":
        return market(context, records, recipe=base | (recipe or {}), **rest)
    usual: dict[str, dict[str, Any]] = {
        "passthrough": {"kind": "payloads", "size": 24, "tick": 16},
        "double": {"kind": "numbers"},
        "count": {"kind": "keyed", "keys": 1000, "tick": 64} | (keyed or {}),
    }
    base |= usual[carrier.app]
    return Scenario("", carrier.app, carrier.params, base | (recipe or {}), **rest)


def market(
    context: Context,
    records: int,
    *,
    recipe: dict[str, Any] | None = None,
    event_times: EventTimes = "rising",
    **rest: Any,
) -> Scenario:
    """Return a run of Market Spread, on the session's own market unless ``recipe`` is given.

    event_times: of a generated market.
    """
    carrier = context.carried_by
    inputs, emit = carrier.inputs, carrier.emit
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
    return Scenario("", carrier.app, carrier.params, base, **rest)


def kill(rng: random.Random, target: str, low: float, high: float, **rest: Any) -> FaultStep:
    """Return a kill at a drawn part of the input, a drawn moment after it."""
    return FaultStep(
        "kill",
        target,  # type: ignore[arg-type]
        "fetched",
        fraction=round(rng.uniform(low, high), 4),
        delay_s=round(rng.uniform(0.0, 0.06), 4),
        **rest,
    )


def kill_in_backlog(context: Context, rng: random.Random, target: str) -> FaultStep:
    """Publish a burst at once, and kill at the first fetch of it: a fast engine is soon done."""
    step = kill(rng, target, 0.3, 0.4)
    return replace(step, burst=context.records(50_000), delay_s=0.0)
