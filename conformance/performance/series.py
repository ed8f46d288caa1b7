"""Rounds of one measurement on one engine, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np

from tickproof.conformance import verdicts
from tickproof.conformance.performance.document import Part
from tickproof.conformance.verdicts import Verdict

#: failed: the answer was wrong, or the engine gave none.
Status = Literal["measured", "not-offered", "not-claimed", "failed", "unknown", "kit-error"]
#: What a series says of its engine.
VERDICTS: Final[dict[Status, Verdict]] = {
    "measured": Verdict.PASS, "not-offered": Verdict.NOT_CLAIMED,
    "not-claimed": Verdict.NOT_CLAIMED, "failed": Verdict.FAIL, "unknown": Verdict.UNKNOWN,
    "kit-error": Verdict.KIT_ERROR,
}  # fmt: skip


class Round(Part):
    """The figures of one run; seed: of its input."""

    seed: int


AnyRound = TypeVar("AnyRound", bound=Round)


class Spread(Part):
    """A figure over all rounds of a series."""

    median: float
    min: int | float
    max: int | float


@dataclass
class Series(Generic[AnyRound]):
    """All rounds of one thing that is measured on one engine.

    what: an app, a step of the ladder, or the target of the kill. status: that of the worst
    round; ``why`` explains it. rounds: the figures of each round. run: the folder kept of a round
    that went wrong. workers: of the engine. keys: of count, in a steady run; else 0. figure: the
    one that it is played for.
    """

    what: str
    app: str = ""
    params: dict[str, str] = field(default_factory=dict)
    status: Status = "measured"
    why: str = ""
    rounds: list[AnyRound] = field(default_factory=list)
    run: str = ""
    workers: int = 2
    keys: int = 0
    figure: str = "rate"

    @property
    def verdict(self) -> Verdict:
        """The verdict on the engine: unknown if a round was too short for the figure."""
        return verdict_of(self.status, [getattr(row, self.figure) for row in self.rounds])

    def spread(self, name: str) -> Spread | None:
        """Return median, min and max of a figure over the rounds; None without any."""
        values = [one for row in self.rounds if (one := getattr(row, name)) is not None]
        if self.status != "measured" or not values:
            return None
        return Spread(median=float(np.median(values)), min=min(values), max=max(values))


def verdict_of(status: Status, figures: Iterable[float | None]) -> Verdict:
    """Return what a series says of its engine: unknown if a round has no figure."""
    if status == "measured" and None in figures:
        return Verdict.UNKNOWN
    return VERDICTS[status]


def exit_status_of(series: Iterable[Series[Any]]) -> int:
    """Return 0 when all that is offered was measured, and something was; else of the worst."""
    return verdicts.status_of(one.verdict for one in series)
