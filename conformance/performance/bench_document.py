"""bench.json: what was measured on each engine, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tickproof.conformance.fault_steps import Target
from tickproof.conformance.performance.bench_plan import PAYLOAD_BYTES, Plan
from tickproof.conformance.performance.document import MeasuredEngine, Measurement, Part
from tickproof.conformance.performance.series import AnyRound, Round, Series, Spread, Status
from tickproof.conformance.performance.throughput import Progress


class SteadyWindow(Part):
    """The part of a run in which the rate was taken; opens_after_s: after the first FETCH."""

    opens_after_s: float
    seconds: float
    records: int
    progress: Progress
    steps: int


class SteadyRound(Round):
    """A run without faults; see docs/bench.md for each figure."""

    records: int
    outputs: int
    rate: float | None
    release_every_s: float | None
    window: SteadyWindow | None
    whole_s: float
    whole_rate: float | None
    cpu_s: float
    cores: float | None
    us_a_record: float | None
    kit_cores: float | None
    other_cores: float | None
    peak_memory: int | None
    memory_kind: str
    samples: int
    state_bytes: dict[str, int | None]
    state_files: int


class LatencyRound(Round):
    """A paced run without a kill: percentiles in seconds."""

    answers: int
    p50: float
    p99: float
    max: float


class KillRound(Round):
    """A paced run with a kill: silences in seconds, records at the kill."""

    output_s: float | None
    release_s: float | None
    usual_output_s: float | None
    usual_release_s: float | None
    killed_at: int
    in_flight: int
    backlog: int


class Row(Part):
    """What all series have. run: the folder kept of a round that went wrong."""

    app: str
    params: dict[str, str]
    workers: int
    keys: int
    status: Status
    why: str
    run: str


class AppRow(Row):
    """An app. to_passthrough, to_half: of its rate, with as many workers or half of them."""

    rate: Spread | None
    release_every_s: Spread | None
    whole_rate: Spread | None
    whole_s: Spread | None
    cpu_s: Spread | None
    cores: Spread | None
    us_a_record: Spread | None
    kit_cores: Spread | None
    other_cores: Spread | None
    peak_memory: Spread | None
    rounds: tuple[SteadyRound, ...]
    to_passthrough: float | None = None
    to_half: float | None = None


class LatencyRow(Row):
    """Latency at the pace of the plan."""

    p50: Spread | None
    p99: Spread | None
    max: Spread | None
    rounds: tuple[LatencyRound, ...]


class _Target(Part):
    target: Target


class KillRow(Row, _Target):
    """Kills of a target; the key of the target comes first."""

    output_s: Spread | None
    release_s: Spread | None
    usual_output_s: Spread | None
    usual_release_s: Spread | None
    rounds: tuple[KillRound, ...]


class EngineRows(MeasuredEngine):
    """All that was measured on one engine; source: as the command named it, or its file."""

    source: str = ""
    apps: tuple[AppRow, ...]
    latency: tuple[LatencyRow, ...]
    kills: tuple[KillRow, ...]

    def named(self) -> Iterator[tuple[str, AppRow | LatencyRow | KillRow]]:
        """Yield each series with what it is."""
        yield from ((row.app, row) for row in self.apps)
        yield from (("latency", row) for row in self.latency)
        yield from ((f"kill of {row.target}", row) for row in self.kills)


@dataclass(frozen=True)
class Parameters(Plan):
    """The plan of a bench, and what is the same in all."""

    partitions: int = 0
    payload_bytes: int = PAYLOAD_BYTES

    @classmethod
    def of(cls, plan: Plan) -> Parameters:
        """Return the parameters of a plan."""
        return cls(**asdict(plan), partitions=plan.input_partitions)


class Bench(Measurement):
    """Engines side by side."""

    FILE_NAME = "bench.json"

    parameters: Parameters
    engines: tuple[EngineRows, ...]


def app_rows(series: list[Series[SteadyRound]]) -> tuple[AppRow, ...]:
    """Return the rows of apps, with their ratios to each other."""
    rows = [AppRow(app=one.app or one.what, **_facts(one, AppRow)) for one in series]
    rates: dict[tuple[str, float, int], Spread | None] = {
        (row.app, row.workers, row.keys): row.rate for row in rows
    }
    return tuple(
        row.model_copy(
            update={
                "to_passthrough": _ratio(row.rate, rates.get(("passthrough", row.workers, 0))),
                "to_half": _ratio(row.rate, rates.get((row.app, row.workers / 2, row.keys))),
            }
        )
        for row in rows
    )


def latency_rows(series: list[Series[LatencyRound]]) -> tuple[LatencyRow, ...]:
    """Return the rows of latency."""
    return tuple(LatencyRow(app=one.app, **_facts(one, LatencyRow)) for one in series)


def kill_rows(series: list[Series[KillRound]]) -> tuple[KillRow, ...]:
    """Return the rows of kills."""
    return tuple(
        KillRow(target=one.what, app=one.app, **_facts(one, KillRow))  # type: ignore[arg-type]
        for one in series
    )


def _facts(series: Series[AnyRound], row: type[Row]) -> dict[str, Any]:
    """Return the fields of a row that follow from its series: a spread for each figure it has."""
    figures = [name for name, one in row.model_fields.items() if one.annotation == Spread | None]
    return {
        "params": series.params,
        "workers": series.workers,
        "keys": series.keys,
        "status": series.status,
        "why": series.why,
        "run": series.run,
        "rounds": tuple(series.rounds),
        **{name: series.spread(name) for name in figures},
    }


def _ratio(rate: Spread | None, to: Spread | None) -> float | None:
    return rate.median / to.median if rate and to else None
