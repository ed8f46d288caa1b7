"""Rate and latency of the engines of a survey, each under the same load, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.performance import bench
from tickproof.conformance.performance.bench_plan import Plan
from tickproof.conformance.performance.rounds import Announce
from tickproof.conformance.performance.series import Series
from tickproof.conformance.performance.survey.result import Load, Measured

#: Small enough for an engine that takes some hundred records a second.
MESSAGES: Final = 60_000
PACE: Final = 500
SECONDS: Final = 10.0


def measure(
    specs: Sequence[EngineSpec], out: Path, rounds: int, seed: int, announce: Announce
) -> tuple[Load, list[Measured]]:
    """Return the load, and what each engine came to; its runs go to ``out`` meanwhile.

    Raises KeyboardInterrupt with what ended it.
    """
    plan = Plan(
        apps=("passthrough",),
        messages=MESSAGES,
        rounds=rounds,
        kills=(),
        pace=PACE,
        seconds=SECONDS,
        seed=seed,
    )
    found, interrupted = bench.measure_all(specs, plan, out, keep=False, announce=announce)
    if interrupted:
        raise KeyboardInterrupt(interrupted)
    load = Load(
        messages=plan.messages,
        pace=plan.pace,
        seconds=plan.seconds,
        workers=plan.workers[0],
        rounds=rounds,
    )
    return load, [_measured(one) for one in found]


def _measured(found: bench.EngineResult) -> Measured:
    return Measured(
        rate=_median(found.apps[0], "rate"),
        p50_s=_median(found.latency[0], "p50"),
        p99_s=_median(found.latency[0], "p99"),
        why="; ".join(dict.fromkeys(one.why for one in found.series if one.why)),
    )


def _median(series: Series[Any], name: str) -> float | None:
    found = series.spread(name)
    return found.median if found else None
