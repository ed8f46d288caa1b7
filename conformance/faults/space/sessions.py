"""The points that a session plays, and the pairs that they cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from tickproof.conformance.faults.space.covering import Pair, pairs_of, triples_of
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.offers import Offer, space_of
from tickproof.conformance.faults.space.strikes import CUTS
from tickproof.conformance.history.fired_fault import FiredFault

#: Points that a session of profile quick plays.
QUICK: Final = 3
#: All sessions draw from the same points, so that one seed after the other covers all of them.
_SEED: Final = 1


@lru_cache(maxsize=8)
def points_of(offered: tuple[Offer, ...], profile: str) -> tuple[Point, ...]:
    """Return points that cover all pairs of what an engine offers, the same for every session."""
    return tuple(space_of(offered, profile).covering(_SEED))


def drawn(offered: tuple[Offer, ...], profile: str, seed: int) -> tuple[Point, ...]:
    """Return the points of a session: all of them in profile full, else some chosen by the seed.

    Consecutive seeds go through all of them.
    """
    points = points_of(offered, profile)
    if profile == "full" or len(points) <= QUICK:
        return points
    return tuple(points[(seed * QUICK + number) % len(points)] for number in range(QUICK))


def met(point: Point, faults: Sequence[FiredFault]) -> Point:
    """Return where a run lies whose faults were all carried out: the first may come a cut late."""
    if point.when not in CUTS:
        return point
    first = faults[0]
    reached = max((when for when in CUTS if CUTS[when] <= first.cuts), key=CUTS.__getitem__)
    return replace(point, when=reached)


@dataclass(frozen=True)
class Coverage:
    """Pairs and triples of values that points hold, of all that could be.

    triples: (covered, at most so many there are).
    """

    points: tuple[Point, ...]
    covered: frozenset[Pair]
    missing: frozenset[Pair]
    triples: tuple[int, int]

    @property
    def all_pairs(self) -> frozenset[Pair]:
        """The pairs that could be covered."""
        return self.covered | self.missing

    @property
    def share(self) -> float:
        """The part of the pairs that is covered, 0 to 1."""
        pairs = len(self.covered) + len(self.missing)
        return len(self.covered) / pairs if pairs else 0.0


def coverage(offered: tuple[Offer, ...], profile: str, points: Iterable[Point]) -> Coverage:
    """Return what the points of a session cover of the space that an engine claims."""
    space, points = space_of(offered, profile), tuple(points)
    covered = space.pairs & pairs_of(points)
    triples = len(triples_of(points)), space.triples()
    return Coverage(points, covered, space.pairs - covered, triples)
