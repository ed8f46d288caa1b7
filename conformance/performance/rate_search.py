"""`tickproof latency ENGINE --search`: the highest rate at which every limit holds.

Bisection on a logarithmic scale: equal steps are equal ratios. The top of the range is
played only when nothing below it was too much: an engine that is fed far more than it can
take needs long to come to its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from tickproof.conformance.latency.figures import Percentiles

#: A bracket this narrow (highest over lowest) is an answer.
NARROW: Final = 1.10
#: A step that ended void is played so many times more.
AGAIN: Final = 2
#: A step whose worst figure lies within this factor of its limit is played three times.
NEAR: Final = 1.25
TIMES_NEAR: Final = 3

#: ok: every limit held. over: one did not, or the rate was not sustained. void: the run tells
#: nothing. broken: the answers were wrong or the engine failed: no rate makes that good.
StepResult = Literal["ok", "over", "void", "broken"]
#: found: ``rate`` is the answer. The others are answers of their own, without a number.
Kind = Literal["found", "not-even-at-low", "still-at-high", "void", "broken"]


@dataclass(frozen=True)
class Attempt:
    """Result of one run at a rate. near: by so little that it has to be repeated."""

    result: StepResult
    why: str
    run: str
    near: bool = False
    percentiles: Percentiles = field(default_factory=dict)
    floor: Percentiles = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A rate (records a second) that was tried, its runs, and what they say together."""

    rate: int
    result: StepResult
    why: str
    runs: tuple[Attempt, ...]


@dataclass(frozen=True)
class SearchResult:
    """The answer: the rate lies in [rate, below), records a second, where kind is "found".

    rate: the highest that held, 0: none did. below: the lowest that did not, 0: none.
    """

    kind: Kind
    rate: int
    below: int
    steps: tuple[Step, ...]


def bisect(low: int, high: int, unit: int, attempt: Callable[[int], Attempt]) -> SearchResult:
    """Search rates from ``low`` to ``high``, whole multiples of ``unit``.

    ``attempt`` plays one run at a rate. Raises ValueError for an empty range.
    """
    if not 0 < low < high or low % unit or high % unit:
        raise ValueError(f"expected 0 < low < high, multiples of {unit}; got {low} and {high}")
    steps: list[Step] = []

    def tried(rate: int) -> StepResult:
        steps.append(step(rate, attempt))
        return steps[-1].result

    first = tried(low)
    if first != "ok":
        kind: Kind = "not-even-at-low" if first == "over" else first
        return SearchResult(kind, 0, low if first == "over" else 0, tuple(steps))
    holds, over = low, 0  # over: the lowest rate that did not hold, 0: none yet
    while (rate := _between(holds, over, high, unit)) is not None:
        result = tried(rate)
        if result in ("void", "broken"):
            return SearchResult(result, holds, over, tuple(steps))
        if result == "ok":
            holds = rate
        else:
            over = rate
    return SearchResult("found" if over else "still-at-high", holds, over, tuple(steps))


def _between(holds: int, over: int, high: int, unit: int) -> int | None:
    """Return the next rate to try, None where the bracket is narrow enough."""
    top = over or high
    if top <= holds * NARROW or top - holds <= unit:
        return None if over or holds == high else high
    middle = round(math.sqrt(holds * top) / unit) * unit
    return min(max(middle, holds + unit), top - unit)


def step(rate: int, attempt: Callable[[int], Attempt]) -> Step:
    """Play a rate: once, again where that was void, three times where it was near."""
    runs = [attempt(rate)]
    voids = 0
    while True:
        last = runs[-1]
        if last.result == "broken":
            break
        voids += last.result == "void"
        valid = [run for run in runs if run.result != "void"]
        wanted = TIMES_NEAR if any(run.near for run in valid) else 1
        if len(valid) >= wanted or voids > AGAIN:
            break
        runs.append(attempt(rate))
    return _together(rate, runs)


def _together(rate: int, runs: list[Attempt]) -> Step:
    valid = [run for run in runs if run.result != "void"]
    if runs[-1].result == "broken":
        said = runs[-1]
    elif not valid or (len(valid) < TIMES_NEAR and any(run.near for run in valid)):
        said = next(run for run in runs if run.result == "void")
    else:
        over = [run for run in valid if run.result == "over"]
        ok = [run for run in valid if run.result == "ok"]
        said = over[0] if len(over) > len(ok) else ok[0]
    return Step(rate, said.result, said.why, tuple(runs))
