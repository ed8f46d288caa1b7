"""What steps cost: nanoseconds a record over the rounds, and ratios with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tickproof.conformance.compare.ratio import Ratio, ratio
from tickproof.conformance.ladder.plan import Rung


@dataclass(frozen=True)
class Cost:
    """Nanoseconds a record, one value a round, and the ratio to the step before.

    against: None for the lowest step, or where there are too few rounds for an interval.
    """

    rounds: tuple[float, ...]
    against: Ratio | None

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return float(np.median(self.rounds))


@dataclass(frozen=True)
class RungCosts:
    """A step's costs. processor: of the engine's processes. clock: 1 / rate.

    why: what went wrong, or why there are no figures; then both are None.
    """

    rung: Rung
    status: str
    why: str = ""
    run: str = ""
    processor: Cost | None = None
    clock: Cost | None = None


#: Name of a cost -> nanoseconds a record, from the figures of a round (None: too short to tell).
_NS: Final = {
    "processor": lambda row: row["us_a_record"] and row["us_a_record"] * 1e3,
    "clock": lambda row: row["rate"] and 1e9 / row["rate"],
}


def values(rounds: Sequence[Mapping[str, Any]], name: str) -> tuple[float, ...]:
    """Return the nanoseconds a record of each round that has them."""
    found = (_NS[name](row) for row in rounds)
    return tuple(ns for ns in found if ns)


def cost(rounds: Mapping[str, Sequence[Mapping[str, Any]]], rung: Rung, name: str) -> Cost | None:
    """Return a step's cost; rounds: step -> figures. None without any figure."""
    own = values(rounds.get(rung.step, ()), name)
    below = values(rounds.get(rung.before, ()), name) if rung.before else ()
    return Cost(own, ratio(below, own) if below else None) if own else None


def said(found: Cost, rung: Rung) -> str:
    """Return how a step compares with the one before, in a few words."""
    if rung.before is None:
        return ""
    if found.against is None:
        return "too few rounds"
    if not found.against.differs:
        return "no cost shown"
    return f"{found.against.estimate:.2f} [{found.against.low:.2f} {found.against.high:.2f}]"
