"""The apps that an engine offers, and the part of the fault space that it claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, get_args

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.space.covering import Space
from tickproof.conformance.faults.space.dimensions import Carrier, Strike, Value, When
from tickproof.conformance.faults.space.exclusions import (
    EXCLUSIONS,
    HURRIED,
    NOT_OVER_KAFKA,
    OF_HOSTS,
    RARE_OVER_KAFKA,
)
from tickproof.conformance.faults.space.strikes import CUTS, PRELUDES, step_of
from tickproof.conformance.scenario import Death, JudgedApp

#: Carrier -> app and params.
APPS: Final[dict[Carrier, tuple[JudgedApp, dict[str, str]]]] = {
    Carrier.PASSTHROUGH: ("passthrough", {}),
    Carrier.DOUBLE: ("double", {}),
    Carrier.COUNT_EVERY: ("count", {"emit": "every"}),
    Carrier.COUNT_SOME: ("count", {"emit": "some"}),
    Carrier.MERGED_VERDICTS: ("market-spread", {"inputs": "merged", "emit": "verdicts"}),
    Carrier.MERGED_REJECTS: ("market-spread", {"inputs": "merged", "emit": "rejects"}),
    Carrier.TWO_VERDICTS: ("market-spread", {"inputs": "two", "emit": "verdicts"}),
    Carrier.TWO_REJECTS: ("market-spread", {"inputs": "two", "emit": "rejects"}),
}


@dataclass(frozen=True)
class Offer:
    """An app that an engine claims to run with exact state, and what it survives in it.

    scales: whether workers may come and go while it runs. hosts: whether it runs on several, and
    faults of the network are drawn. over_kafka: whether it speaks Kafka. commits: whether its cuts
    are seen, which over Kafka are offsets of a group.
    """

    carrier: Carrier
    survives: tuple[str, ...]
    scales: bool = False
    hosts: bool = False
    over_kafka: bool = False
    commits: bool = True

    @property
    def app(self) -> JudgedApp:
        """The app."""
        return APPS[self.carrier][0]

    @property
    def params(self) -> dict[str, str]:
        """The app's params."""
        return APPS[self.carrier][1]


#: An engine that claims all there is.
EVERYTHING: Final = tuple(
    Offer(carrier, tuple(sorted(get_args(Death))), scales=True) for carrier in Carrier
)


def offers(spec: EngineSpec, *, on_hosts: bool = False) -> tuple[Offer, ...]:
    """Return what an engine offers: nothing where no state is claimed to be exact.

    ``on_hosts``: it is run on several, where it can be.
    """
    found = []
    hosts = on_hosts and bool(spec.placement)
    for carrier, (app, params) in APPS.items():
        if spec.offers(app, params):
            claims = spec.claims(app, params)
            if claims.state == "exactly-once":
                survives = tuple(sorted(claims.survives))
                live, kafka = claims.rescale == "live", spec.kafka
                grouped = kafka is None or bool(kafka.session_s)
                offer = Offer(carrier, survives, live, hosts, kafka is not None, grouped)
                found.append(offer)
    return tuple(found)


@lru_cache(maxsize=8)
def space_of(offered: tuple[Offer, ...], profile: str) -> Space:
    """Return the points that make sense, are claimed, and fit into the time of a profile."""
    sensible = EXCLUSIONS if profile == "full" else (*EXCLUSIONS, *HURRIED)
    over_kafka = any(offer.over_kafka for offer in offered)
    if over_kafka:
        sensible += NOT_OVER_KAFKA if profile == "full" else (*NOT_OVER_KAFKA, *RARE_OVER_KAFKA)
    return Space([*(pair for one in sensible for pair in one.pairs()), *_unclaimed(offered)])


def _unclaimed(offered: Iterable[Offer]) -> Iterator[tuple[Value, Value]]:
    """Yield what an engine does not claim: an app at all, or to survive a strike in it."""
    by_carrier = {offer.carrier: offer for offer in offered}
    for carrier in Carrier:
        if carrier not in by_carrier:
            yield from ((carrier, strike) for strike in Strike)
            continue
        claimed = frozenset(by_carrier[carrier].survives)
        if not by_carrier[carrier].scales:
            yield carrier, Strike.SCALE_ENGINE
            yield carrier, When.SCALING
        if not by_carrier[carrier].hosts:
            yield from ((carrier, strike) for strike in OF_HOSTS)
        yield from (
            (carrier, strike) for strike in Strike if not claimed.issuperset(_needs(strike))
        )
        if not by_carrier[carrier].commits:
            yield from ((carrier, when) for when, cuts in CUTS.items() if cuts)
        if not claimed.intersection(PRELUDES):
            yield carrier, When.RECOVERY
            yield carrier, When.SECOND_RECOVERY


def _needs(strike: Strike) -> frozenset[str]:
    fault = fault_of(step_of(strike))
    # A point may strike several times, and has one worker if it has one partition.
    need = "all-workers" if fault.takes_worker else fault.needs
    return frozenset((need,) if need else ())
