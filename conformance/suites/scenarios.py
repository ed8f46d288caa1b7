"""Drawing scenarios: seed, profile, and the parts that scenarios are made of."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from tickproof.conformance.fault_steps import Do, FaultStep, KillEngineStep, Moment, fault_step
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.late import Late
from tickproof.conformance.faults.space.offers import EVERYTHING, Offer
from tickproof.conformance.scenario import Death, Scenario
from tickproof.conformance.suites.carriers import Carrier, named
from tickproof.generators.choices import EventTimes

#: Input larger than this many times the quick size only in profile full.
FULL_SCALE: Final = 5
#: Over Kafka a pace is this many times slower, and an input without one no longer than that.
KAFKA_SHARE: Final = 3
KAFKA_MOST: Final = 200_000
#: Silences of the whole input, by profile: longer than the idle timeouts of most clients and
#: pools, and than the times after which caches and connections are usually given up.
SILENCES_S: Final = {"quick": 10.5, "full": 35.0}
#: The ticks of input whose time counts, in microseconds.
TICK_US: Final = 1_000
#: What input of count may be where a scenario with faults does not say: each kind is another test
#: of how state is written and restored. Workers have as much to do as ever.
CONTENTS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"wrap": True},
    {"key_shape": "same-low-32"},
    {"key_shape": "same-low-16"},
    {"key_shape": "limits"},
)
#: ... and of an engine to which a key is not dear, too.
MANY: Final[dict[str, Any]] = {"keys": 20_000}
#: From this limit of a recovery on, all that an engine has many of may cost it seconds.
DEAR_S: Final = 20.0
#: Claims of an engine that survives all that a scenario may do to it.
SURVIVES: Final = get_args(Death)


@dataclass(frozen=True)
class Context:
    """Context of a draw: seed, profile, the engine's claims, a market of one's own.

    secret: of the session; only generated input depends on it.
    carrier: the app to play it on, None for the first that the scenario names. survives: what
    the engine claims to survive there. market: recipe keys of kind market-csv, or None for a
    generated market. latency: name of the SLA profile that tier 5 plays. recovery_s: the
    engine's own limit of a recovery. offers: what there is to draw points of the fault space from.
    transport: what the engine speaks; over Kafka, the timeouts of its sessions and transactions.
    finer_prices: whether it takes prices of any unit.
    free: seed of what neither scenario nor session decides.
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
    finer_prices: bool = False
    secret: str = ""
    free: int = 0

    @property
    def dear(self) -> bool:
        """True if many deaths, workers, partitions or keys may cost the engine seconds."""
        return self.transport == "kafka" or self.recovery_s > DEAR_S

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

    carriers: best first; empty if the builder itself says which app it plays.
    """

    name: str
    build: Builder
    carriers: tuple[Carrier, ...] = ()

    def draw(self, context: Context) -> Scenario:
        """Return the scenario with everything random in it drawn from the seed and its name.

        Raises ValueError for a carrier that the scenario does not name.
        """
        if self.carriers:
            context = replace(context, carrier=context.carrier or self.carriers[0])
            if context.carrier not in self.carriers:
                raise ValueError(f"{self.name}: expected one of {named(self.carriers)}")
        digest = hashlib.sha256(f"{context.seed}:{self.name}".encode()).digest()
        seed = int.from_bytes(digest[:6], "little")
        drawn = self.build(replace(context, free=seed), random.Random(seed))
        if context.transport == "kafka":
            drawn = _over_kafka(drawn)
        recipe = {"seed": seed, **drawn.recipe}
        drawn = replace(drawn, name=self.name, recipe=recipe, sink=replace(drawn.sink, seed=seed))
        return drawn.with_secret(context.secret)


def scenario(*carriers: Carrier, name: str = "") -> Callable[[Builder], Entry]:
    """Return a decorator that makes a builder an entry, named as the function if not as told."""

    def entry(builder: Builder) -> Entry:
        return Entry(name or builder.__name__.replace("_", "-"), builder, carriers)

    return entry


def _over_kafka(drawn: Scenario) -> Scenario:
    """Return a scenario at a pace that engines keep up with whose records are JSON messages.

    One with a schedule stays as it is: its rate is that of a service level.
    """
    if drawn.pace is not None:
        return drawn
    records = drawn.recipe.get("records", 0)
    fewer = min(records, KAFKA_MOST) if drawn.rate is None else records // KAFKA_SHARE
    return replace(
        drawn,
        recipe=drawn.recipe | ({"records": fewer} if records else {}),
        rate=drawn.rate and drawn.rate / KAFKA_SHARE,
        faults=tuple(
            replace(step, burst=step.burst // KAFKA_SHARE)
            for step in drawn.faults
            if not isinstance(fault_of(step), Late)  # the broker fences what is late
        ),
    )


def carried(
    context: Context,
    records: int,
    *,
    recipe: dict[str, Any] | None = None,
    keyed: dict[str, Any] | None = None,
    **rest: Any,
) -> Scenario:
    """Return a run of the carrier's app on the input that is usual for it.

    ``recipe`` overrides that for every app, ``keyed`` for count alone; beside faults, one of
    CONTENTS is drawn if it is not given. Market Spread runs on a generated market; see `market`
    for the session's own.
    """
    carrier = context.carried_by
    if keyed is None:
        kinds = CONTENTS if context.dear else (*CONTENTS, MANY)
        keyed = random.Random(context.free).choice(kinds) if rest.get("faults") else {}
    base: dict[str, Any] = {"records": records, "partitions": 4}
    if carrier.app == "market-spread":
        return market(context, records, recipe=base | (recipe or {}), **rest)
    usual: dict[str, dict[str, Any]] = {
        "passthrough": {"kind": "payloads", "size": 24, "tick": 16},
        "double": {"kind": "numbers", "edges": True},
        "count": {"kind": "keyed", "keys": 1000, "tick": 64, "edges": True}
        | {"edge_keys": "key_shape" not in keyed}
        | keyed,
    }
    base |= usual[carrier.app]
    return Scenario("", carrier.app, carrier.params, base | (recipe or {}), **rest)


def market(
    context: Context,
    records: int,
    *,
    recipe: dict[str, Any] | None = None,
    event_times: EventTimes = "rising",
    price_decimals: int | None = None,
    partitions: int = 4,
    **rest: Any,
) -> Scenario:
    """Return a run of Market Spread, on the session's own market unless ``recipe`` is given.

    event_times, price_decimals: of a generated market.
    """
    carrier = context.carried_by
    inputs, emit = carrier.inputs, carrier.emit
    base: dict[str, Any] = {"inputs": inputs, "partitions": partitions, "tick": 64}
    if context.market is not None and recipe is None:
        base |= context.market
        # A recorded market is as long as it is: played at three times the usual pace.
        if rest.get("rate"):
            rest["rate"] *= 3
    else:
        base |= {"kind": "market", "records": context.records(records), "reject_one_in": 50}
        base |= {"event_times": event_times, "edges": True, "falling_ids": True}
        base |= {"price_decimals": price_decimals} if price_decimals else {}
        # With many symbols, some orders after a death meet a quote of long before it.
        base |= {"symbols": 3_000} if rest.get("faults") else {}
        # Probes are rejected by every quote of their symbols: to hide one is never right.
        base |= {"probe_one_in": 500} if emit == "rejects" and recipe is None else {}
        # Orders without any quote: else some interleaving might explain plain silence.
        base |= {"probe_one_in": 500} if inputs == "two" else {}
        base |= recipe or {}
    return Scenario("", carrier.app, carrier.params, base, **rest)


def sized(rng: random.Random, least: int, end: int) -> int:
    """Return a size from ``least`` on, below ``end``: one of both ends, or any in between.

    Those in between are as often twice another one as that.
    """
    between = int(least * (end / least) ** rng.random())
    return rng.choice((least, end - 1, min(between, end - 1)))


def kill(rng: random.Random, target: str, low: float, high: float, **rest: Any) -> FaultStep:
    """Return a kill at a drawn part of the input, a drawn moment after it."""
    return fault_step(
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


def deaths(context: Context, *faults: FaultStep, **rest: Any) -> Scenario:
    """Return a run of the carrier's app at the pace at which faults meet records in flight."""
    return carried(context, context.records(90_000), rate=60_000, faults=faults, **rest)


def aimed(
    rng: random.Random, first: Moment, second: Moment
) -> tuple[KillEngineStep, KillEngineStep]:
    """Return two kills of the engine at moments at which output is under way."""
    return (
        KillEngineStep(first, fraction=round(rng.uniform(0.15, 0.35), 3), cut=True),
        KillEngineStep(second, fraction=round(rng.uniform(0.55, 0.8), 3)),
    )


def at_source(do: Do, fraction: float, **rest: Any) -> FaultStep:
    """Return a fault of the connections to the source."""
    return fault_step(do, "source", "fetched", fraction=round(fraction, 4), **rest)


def at_sink(do: Do, fraction: float, **rest: Any) -> FaultStep:
    """Return a fault of the connections to the sink.

    It comes after output was acknowledged, so that there is a connection of the sink to meet.
    """
    return fault_step(do, "sink", "accepted", fraction=round(fraction, 4), **rest)


def paced(seconds: float, rate: int, tick_us: int = TICK_US) -> dict[str, Any]:
    """Return the keys of a recipe that make ``seconds`` of input at a rate, records a second."""
    tick = rate * tick_us // 1_000_000
    return {"records": round(seconds * 1_000_000 / tick_us) * tick, "tick": tick, "partitions": 4}
