"""Coverage of the fault space by sessions, added up from their reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from tickproof.conformance.report.json_report import FaultSpace, Report

#: Two values of different dimensions, "strike=kill engine" say, as reports name them.
Pair = tuple[str, ...]


@dataclass(frozen=True)
class Added:
    """Pairs that sessions covered together, and those that none of them did."""

    sessions: int
    covered: frozenset[Pair]
    missing: frozenset[Pair]

    @property
    def share(self) -> float:
        """The part of the pairs that is covered, 0 to 1."""
        pairs = len(self.covered) + len(self.missing)
        return len(self.covered) / pairs if pairs else 0.0


def added_up(reports: Iterable[Report]) -> Added:
    """Add up the sessions that played points of the fault space."""
    spaces = [report.fault_space for report in reports if report.fault_space is not None]
    covered = frozenset(pair for space in spaces for pair in _covered(space))
    missing = {tuple(pair) for space in spaces for pair in space.missing}
    return Added(len(spaces), covered, frozenset(missing - covered))


def _covered(space: FaultSpace) -> Iterable[Pair]:
    for point in space.points:
        values = [f"{dimension}={value}" for dimension, value in point.items()]
        yield from combinations(values, 2)
