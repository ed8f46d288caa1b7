"""A point of the fault space as a scenario: input, pace and schedule."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.faults.schedule_file import KINDS, tick_for
from tickproof.conformance.faults.space import strikes
from tickproof.conformance.faults.space.dimensions import (
    Carrier,
    Keys,
    Partitions,
    Point,
    Rate,
    Shape,
    Size,
    When,
)
from tickproof.conformance.faults.space.exclusions import COUNTS, MARKETS
from tickproof.conformance.faults.space.offers import APPS
from tickproof.conformance.scenario import Scenario

#: Scenarios that come from a point are named so.
PREFIX: Final = "space-"
#: Input during a fault that lasts, as a multiple of its duration.
LASTING_TIMES: Final = 1.5
#: Records a second: any engine worth searching keeps up with this.
FASTEST: Final = 60_000.0


@dataclass(frozen=True)
class Scale:
    """Durations in a profile, in seconds, and records of a run.

    input_s: the input, beside its faults and silences. lasting_s: a fault that lasts. silence_s:
    shortest and longest silence.
    """

    input_s: float
    lasting_s: float
    silence_s: tuple[float, float]


SCALES: Final[Mapping[str, Scale]] = {
    "quick": Scale(0.5, 0.3, (0.3, 0.8)),
    "full": Scale(0.8, 0.4, (0.5, 4.0)),
}
_RECORDS: Final = {
    Rate.BACKLOG: 20_000, Rate.STEADY: 12_000, Rate.SILENCE: 12_000, Rate.TRICKLE: 500,
}  # fmt: skip
#: Records a second of a trickle.
_TRICKLE: Final = 500.0
#: Each of many cuts needs some records in each of up to sixteen partitions.
_FOR_MANY_CUTS: Final = {When.TENTH_CUT: 2_000, When.HUNDREDTH_CUT: 12_000}
_SOME: Final = frozenset((Shape.EMPTY, Shape.ENDED_EARLY))
_MOST_BYTES: Final = 16_000_000


def scenario(
    point: Point, survives: tuple[str, ...], name: str, seed: int, profile: str
) -> Scenario:
    """Return the scenario of a point; ``seed`` decides what the point leaves open."""
    rng, scale = random.Random(seed), SCALES[profile]
    app, params = APPS[point.carrier]
    records = _records(point)
    recipe = (
        {
            "kind": KINDS[app],
            "seed": seed,
            "records": records,
            "partitions": int(point.partitions.value),
            "tick": max(1, tick_for(records) // 4),
        }
        | _placement(point)
        | _content(point, records)
    )
    silence_s = round(rng.uniform(*scale.silence_s), 2)
    faults = strikes.steps(point, survives, scale.lasting_s, silence_s, rng)
    return Scenario(
        name,
        app,
        params,
        recipe,
        workers(point),
        _rate(point, records, scale, faults),
        faults=faults,
        hold=(0.15, silence_s) if point.rate is Rate.SILENCE else None,
        point=point.to_json(),
    )


def pace(records: int, seconds: float, faults: tuple[FaultStep, ...]) -> float:
    """Return the records a second of an input that lasts ``seconds`` beside its faults.

    A fault that lasts must not last until the end of the input.
    """
    lasting = sum(step.lasts_s for step in faults)
    whole = seconds + LASTING_TIMES * lasting
    return min(FASTEST, float(max(1, round(records / whole))))


def _rate(point: Point, records: int, scale: Scale, faults: tuple[FaultStep, ...]) -> float | None:
    match point.rate:
        case Rate.BACKLOG:
            return None
        case Rate.TRICKLE:
            return _TRICKLE
    return pace(records, scale.input_s, faults)


def _records(point: Point) -> int:
    records = max(_RECORDS[point.rate], _FOR_MANY_CUTS.get(point.when, 0))
    if point.size is not Size.NONE:
        records = min(records, _MOST_BYTES // int(point.size.value))
    return records


def workers(point: Point) -> int:
    """Return how many workers a run has: each finds records in some partition to its end."""
    lasting = {Partitions.ONE: 1, Partitions.TWO: 1 if point.shape in _SOME else 2}
    return lasting.get(point.partitions, 2)


def _placement(point: Point) -> dict[str, Any]:
    """Return the keys of the recipe that say how records fall into partitions."""
    last = int(point.partitions.value) - 1
    # The first, and where there are more than two, the last: neighbours keep theirs.
    some = [0] if last < 2 else [0, last]
    match point.shape:
        case Shape.EMPTY:
            return {"empty": some}
        case Shape.ENDED_EARLY:
            return {"ended_early": some}
        case Shape.SKEWED:
            return {"skew": 0.9}
    return {}


def _content(point: Point, records: int) -> dict[str, Any]:
    """Return the keys of the recipe that only this app's input has."""
    if point.carrier is Carrier.PASSTHROUGH:
        return {"size": int(point.size.value)}
    if point.carrier in COUNTS:
        return {"keys": int(point.keys.value), "key_shape": point.key_shape.value}
    if point.carrier not in MARKETS:
        return {}
    two = point.carrier in (Carrier.TWO_VERDICTS, Carrier.TWO_REJECTS)
    inputs = {"inputs": "two" if two else "merged"}
    symbols = 1 if point.keys is Keys.ONE else min(int(point.keys.value), records // 8)
    # Only orders without a quote distinguish silence from a correct interleaving.
    probes = {"probe_one_in": 20} if two else {}
    times = {"event_times": point.event_times.value}
    return {"symbols": symbols, "reject_one_in": 5} | inputs | probes | times
