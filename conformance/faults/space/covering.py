"""Points that cover a space: every pair of values that can lie in one point lies in one.

A greedy construction, one point at a time (Cohen et al., AETG, 1997): begin with a pair that is
not covered yet, then give each other dimension the value that covers most. Decision 0014 says
why no library does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from operator import add
from typing import Final

import numpy as np

from tickproof.conformance.faults.space.dimensions import DIMENSIONS, Point, Value

#: Two values of different dimensions, in the order of the dimensions.
Pair = tuple[Value, Value]
Triple = tuple[Value, Value, Value]

_VALUES: Final[tuple[Value, ...]] = tuple(v for kind in DIMENSIONS.values() for v in kind)
_PLACE: Final = {value: place for place, value in enumerate(_VALUES)}
_OF: Final = np.array([list(DIMENSIONS.values()).index(type(value)) for value in _VALUES])
#: The values of each dimension, as bits of an integer.
_BITS: Final = tuple(sum(1 << _PLACE[value] for value in kind) for kind in DIMENSIONS.values())
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
        #: The same, the values that fit to each as bits: a search has small steps.
        self._bits = _rows(self._fit)
        self._allowed = np.array(
            [self._completed([at], None) is not None for at in range(len(_OF))]
        )
        # What no point holds is out of every search from here on.
        self._fit = self._held()
        self._bits = _rows(self._fit)
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
        left = [0] * len(_VALUES)
        for one, other in self.pairs.difference(covered):
            left[_PLACE[one]] |= 1 << _PLACE[other]
            left[_PLACE[other]] |= 1 << _PLACE[one]
        while any(left):
            tries = [self._point(left, rng) for _ in range(_TRIES)]
            best = max(tries, key=lambda places: _gain(left, places))
            for place in best:
                left[place] &= ~_mask(best)
            yield _point_of(best)

    def triples(self) -> int:
        """Return how many triples of values fit pair by pair."""
        fit = self._fit.astype(np.int64)
        return int(np.einsum("ab,bc,ca->", fit, fit, fit)) // 6

    def _point(self, left: list[int], rng: np.random.Generator) -> list[int]:
        """Build a point around a pair that is left."""
        weights = rng.random(len(_VALUES)) + [row.bit_count() for row in left]
        first = int(np.argmax(weights))
        second = max(_places(left[first]), key=weights.__getitem__)
        found = self._completed([first, second], left, rng)
        assert found is not None  # a pair of the space lies in some point
        return found

    def _completed(
        self, places: list[int], left: list[int] | None, rng: np.random.Generator | None = None
    ) -> list[int] | None:
        """Return a point that holds these values; None: there is none."""
        free = -1
        for place in places:
            free &= self._bits[place]
        return self._search(places, free, left, rng)

    def _search(
        self, places: list[int], free: int, left: list[int] | None, rng: np.random.Generator | None
    ) -> list[int] | None:
        """Give the next dimension a value: of those left, the one with the fewest choices.

        free: the values that fit to all of ``places``, as bits.
        """
        if len(places) == len(_BITS):
            return places
        choices = [(free & bits).bit_count() for bits in _BITS]
        for place in places:
            choices[_OF[place]] = len(_VALUES)
        if not all(choices):
            return None
        if rng is None or left is None:
            order = _places(free & _BITS[choices.index(min(choices))])
        else:
            dimension = int(np.argmin(choices + rng.random(len(choices))))
            options = _places(free & _BITS[dimension])
            chosen, luck = _mask(places), rng.random(len(options)).tolist()
            gains = [(left[one] & chosen).bit_count() for one in options]
            ranked = sorted(zip(map(add, gains, luck), options, strict=True), reverse=True)
            order = [one for _, one in ranked]
        for place in order:
            found = self._search([*places, place], free & self._bits[place], left, rng)
            if found is not None:
                return found
        return None


def _rows(fit: np.ndarray) -> list[int]:
    """Return each row of a table of bools as bits, the first column lowest."""
    packed = np.packbits(fit, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _gain(left: list[int], places: list[int]) -> int:
    """Return twice the number of pairs of a point that are left."""
    mask = _mask(places)
    return sum((left[place] & mask).bit_count() for place in places)


def _mask(places: Iterable[int]) -> int:
    return sum(1 << place for place in places)


def _places(bits: int) -> list[int]:
    """Return which bits are set, the lowest first."""
    found = []
    while bits:
        found.append((bits & -bits).bit_length() - 1)
        bits &= bits - 1
    return found


def _point_of(places: list[int]) -> Point:
    values = [_VALUES[place] for place in sorted(places)]
    return Point(**dict(zip(DIMENSIONS, values, strict=True)))  # type: ignore[arg-type]
