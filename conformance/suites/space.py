"""The scenarios of T3 that are points of the fault space."""

from __future__ import annotations

import random
from typing import Final

from tickproof.conformance.faults.space import sessions
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.offers import Offer
from tickproof.conformance.faults.space.scenarios import PREFIX
from tickproof.conformance.faults.space.scenarios import scenario as scenario_of
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.scenarios import Context, Entry


def names_for(offered: tuple[Offer, ...], profile: str) -> list[str]:
    """Return the names of the points that a session plays of what an engine offers."""
    points = len(sessions.points_of(offered, profile)) if profile == "full" else 0
    return names(max(points, sessions.QUICK))


def names(points: int) -> list[str]:
    """Return the names of the scenarios of so many points."""
    return [f"{PREFIX}{number}" for number in range(1, points + 1)]


def entry(name: str, given: Point | None = None) -> Entry:
    """Return the entry of the point of this name, which need not be in the catalog.

    given: the point; None for the one that the session draws.
    """

    def build(context: Context, rng: random.Random) -> Scenario:
        point = given or _drawn(name, context)
        survives = next(o.survives for o in context.offers if o.carrier is point.carrier)
        return scenario_of(point, survives, name, rng.getrandbits(48), context.profile)

    return Entry(name, build)


def _drawn(name: str, context: Context) -> Point:
    points = sessions.drawn(context.offers, context.profile, context.seed)
    # An engine that offers little has fewer points than a session plays.
    return points[(int(name.removeprefix(PREFIX)) - 1) % len(points)]


#: The other points of a session are not in the catalog: how many there are depends on it.
space_1: Final = entry(names(1)[0])
