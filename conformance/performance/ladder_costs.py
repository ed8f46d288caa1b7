"""Steps of the ladder, and what each costs: nanoseconds a record, ratios with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tickproof.conformance.latency.statistics import Ratio, ratio
from tickproof.conformance.performance.rounds import Series
from tickproof.conformance.scenario import Step


@dataclass(frozen=True)
class Rung:
    """One step. adds: what it does more than the step ``before``; None: it is the lowest."""

    step: Step
    before: Step | None
    adds: str


LADDER: Final = (
    Rung("passthrough", None, "each record goes out as it came"),
    Rung("decode", "passthrough", "taken apart into key and value, and put together again"),
    Rung("compute", "decode", "one computation"),
    Rung("three-coalesced", "compute", "two computations more, in one step"),
    Rung("three-apart", "three-coalesced", "the three in steps of their own"),
    Rung("state", "compute", "a counter that all records of a partition share"),
    Rung("state-by-key", "state", "count and total of each key instead"),
    Rung("checkpoint", "state-by-key", "cuts go to disk before input is released"),
    Rung("exactly-once", "checkpoint", "output is numbered, or staged and committed"),
    Rung("audit", "exactly-once", "each record goes out once more beside its point"),
)


@dataclass(frozen=True)
class Plan:
    """messages: records of each run. rounds: runs of each step; four are the fewest for ratios."""

    messages: int = 8_000_000
    workers: int = 2
    rounds: int = 5
    seed: int = 1


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


def costs(series: Sequence[Series]) -> list[RungCosts]:
    """Return what each step costs; series: of all steps, the lowest first, as play returns them."""
    rounds = {one.what: one.rounds for one in series}
    return [
        RungCosts(
            rung,
            one.status,
            one.why,
            one.run,
            cost(rounds, rung, "processor"),
            cost(rounds, rung, "clock"),
        )
        for rung, one in zip(LADDER, series, strict=True)
    ]
