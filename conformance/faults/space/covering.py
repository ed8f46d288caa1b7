"""Points that cover a space: every pair of values that can lie in one point lies in one.

A greedy construction, one point at a time (Cohen et al., AETG, 1997): begin with a pair that is
not covered yet, then give each other dimension the value that covers most. Decision 0014 says
why no library does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final

import numpy as np

from tickproof.conformance.faults.space.dimensions import DIMENSIONS, Point, Value

#: Two values of different dimensions, in the order of the dimensions.
Pair = tuple[Value, Value]
Triple = tuple[Value, Value, Value]

_VALUES: Final[tuple[Value, ...]] = tuple(v for kind in DIMENSIONS.values() for v in kind)
_PLACE: Final = {value: place for place, value in enumerate(_VALUES)}
_OF: Final = np.array([list(DIMENSIONS.values()).index(type(value)) for value in _VALUES])
#: Points built for each one that is taken.
_TRIES: Final = 3


def pairs_of(points: Iterable[Point]) -> set[Pair]:
    """Return the pairs of values that lie in some of the points."""
    return {pair for point in points for pair in combinations(point.values, 2)}  # type: ignore[misc]


def triples_of(points: Iterable[Point]) -> set[Triple]:
    """Return the triples of values that lie in some of the points."""
    return {three for point in points for three in combinations(point.values, 3)}  # type: ignore[misc]


class Space:
    """All points in which no two values exclude one another. ``excluded``: such pairs."""

    def __init__(self, excluded: Iterable[tuple[Value, Value]]) -> None:
        #: Whether two values may lie in one point: bool of shape (values, values).
        self._fit = _OF[:, None] != _OF[None, :]
        for one, other in excluded:
            a, b = _PLACE[one], _PLACE[other]
            self._fit[a, b] = self._fit[b, a] = False
        self._allowed = np.array(
            [self._completed([at], None) is not None for at in range(len(_OF))]
        )
        # What no point holds is out of every search from here on.
        self._fit = self._held()
        pairs = zip(*np.nonzero(np.triu(self._fit)), strict=True)
        #: Every pair that lies in some point.
        self.pairs: frozenset[Pair] = frozenset((_VALUES[a], _VALUES[b]) for a, b in pairs)

    def _held(self) -> np.ndarray:
        """Return which pairs lie in some point: bool of shape (values, values)."""
        held = np.zeros_like(self._fit)
        for a, b in zip(*np.nonzero(np.triu(self._fit)), strict=True):
            if held[a, b] or not (self._allowed[a] and self._allowed[b]):
                continue
            if (found := self._completed([a, b], None)) is not None:
                held[np.ix_(found, found)] = True
        np.fill_diagonal(held, False)
        return held

    def has(self, point: Point) -> bool:
        """Tell whether the point lies in the space."""
        return self.pairs.issuperset(pairs_of([point]))

    def covering(self, seed: int, covered: Iterable[Pair] = ()) -> Iterator[Point]:
        """Yield points until all pairs are covered, those that cover most first, about.

        covered: pairs that need no point any more. The same seed yields the same points.
        """
        rng = np.random.default_rng(seed)
        left = np.zeros(self._fit.shape, bool)
        for one, other in self.pairs.difference(covered):
            left[_PLACE[one], _PLACE[other]] = left[_PLACE[other], _PLACE[one]] = True
        while left.any():
            tries = [self._point(left, rng) for _ in range(_TRIES)]
            best = max(tries, key=lambda places: int(left[np.ix_(places, places)].sum()))
            left[np.ix_(best, best)] = False
            yield _point_of(best)

    def triples(self) -> int:
        """Return how many triples of values fit pair by pair."""
        fit = self._fit.astype(np.int64)
        return int(np.einsum("ab,bc,ca->", fit, fit, fit)) // 6

    def _point(self, left: np.ndarray, rng: np.random.Generator) -> list[int]:
        """Build a point around a pair that is left."""
        weights = left.sum(axis=1) + rng.random(len(_OF))
        first = int(np.argmax(weights))
        second = int((left[first] * (weights + 1)).argmax())
        found = self._completed([first, second], left, rng)
        assert found is not None  # a pair of the space lies in some point
        return found

    def _completed(
        self, places: list[int], left: np.ndarray | None, rng: np.random.Generator | None = None
    ) -> list[int] | None:
        """Return a point that holds these values; None: there is none."""
        free = self._fit[places].all(axis=0)
        return self._search(places, free, left, rng)

    def _search(
        self,
        places: list[int],
        free: np.ndarray,
        left: np.ndarray | None,
        rng: np.random.Generator | None,
    ) -> list[int] | None:
        """Give the next dimension a value: of those left, the one with the fewest choices."""
        if len(places) == len(DIMENSIONS):
            return places
        choices = np.bincount(_OF[free], minlength=len(DIMENSIONS))
        choices[_OF[places]] = len(_OF)
        if not choices.all():
            return None
        if rng is None or left is None:
            dimension = int(np.argmin(choices))
            order = np.nonzero(free & (dimension == _OF))[0]
        else:
            dimension = int(np.argmin(choices + rng.random(len(choices))))
            options = np.nonzero(free & (dimension == _OF))[0]
            gain = left[options][:, places].sum(axis=1) + rng.random(len(options))
            order = options[np.argsort(-gain)]
        for place in order:
            found = self._search([*places, int(place)], free & self._fit[place], left, rng)
            if found is not None:
                return found
        return None


def _point_of(places: list[int]) -> Point:
    values = [_VALUES[place] for place in sorted(places)]
    return Point(**dict(zip(DIMENSIONS, values, strict=True)))  # type: ignore[arg-type]
