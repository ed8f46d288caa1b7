"""Steps of the ladder, and what each costs: nanoseconds a record, ratios with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from tickproof.conformance.latency.statistics import Ratio, ratio
from tickproof.conformance.performance.bench_document import SteadyRound
from tickproof.conformance.performance.bench_plan import KEYS, PARTITIONS
from tickproof.conformance.performance.document import EngineName, Measurement, Part
from tickproof.conformance.performance.series import Series, Status
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


class Cost(Part):
    """Nanoseconds a record: the median over rounds, one value a round, the ratio to the step below.

    to_step_before: None for the lowest step, or where there are too few rounds for an interval.
    """

    median_ns: float
    rounds_ns: tuple[float, ...]
    to_step_before: Ratio | None


class StepCosts(Part):
    """A step's costs. processor: of the engine's processes. clock: 1 / rate.

    why: what went wrong, or why there are no figures; then both are None.
    """

    step: Step
    before: Step | None
    adds: str
    status: Status
    why: str = ""
    run: str = ""
    processor: Cost | None = None
    clock: Cost | None = None
    rounds: tuple[SteadyRound, ...] = ()


@dataclass(frozen=True)
class Parameters(Plan):
    """The plan of a ladder, and what is the same in all."""

    partitions: int = PARTITIONS
    keys: int = KEYS


class Ladder(Measurement):
    """All steps of one engine, the lowest first."""

    FILE_NAME = "ladder.json"

    parameters: Parameters
    engine: EngineName
    steps: tuple[StepCosts, ...]


def processor_ns(row: SteadyRound) -> float | None:
    """Return the processor time of a record; None: too short to tell."""
    return row.us_a_record and row.us_a_record * 1e3


def clock_ns(row: SteadyRound) -> float | None:
    """Return the time from one record to the next; None: too short to tell."""
    return row.rate and 1e9 / row.rate


def cost(
    rounds: Mapping[str, Sequence[SteadyRound]],
    rung: Rung,
    ns: Callable[[SteadyRound], float | None],
) -> Cost | None:
    """Return a step's cost; rounds: by step; ns: nanoseconds a record. None without any figure."""
    own, below = (
        tuple(found for row in rounds.get(step or "", ()) if (found := ns(row)))
        for step in (rung.step, rung.before)
    )
    if not own:
        return None
    against = ratio(below, own) if below else None
    return Cost(median_ns=float(np.median(own)), rounds_ns=own, to_step_before=against)


def costs(series: Sequence[Series[SteadyRound]]) -> tuple[StepCosts, ...]:
    """Return what each step costs; series: of all steps, the lowest first, as play returns them."""
    rounds = {one.what: one.rounds for one in series}
    return tuple(
        StepCosts(
            **asdict(rung),
            status=one.status,
            why=one.why,
            run=one.run,
            processor=cost(rounds, rung, processor_ns),
            clock=cost(rounds, rung, clock_ns),
            rounds=tuple(one.rounds),
        )
        for rung, one in zip(LADDER, series, strict=True)
    )
