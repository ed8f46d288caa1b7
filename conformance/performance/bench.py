"""`tickproof bench engines`: engines side by side, on the same inputs and machine.

A fast answer that is wrong gets no figure: every run is judged by the local checker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tickproof.conformance import apps
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.history.folder import History, write_json
from tickproof.conformance.latency.percentiles import percentiles_us
from tickproof.conformance.latency.samples import answers, latencies, steady_ns
from tickproof.conformance.performance import bench_report
from tickproof.conformance.performance.bench_plan import (
    LATENCY,
    Plan,
    kill_scenario,
    latency_scenario,
    recipe_of,
    steady_scenario,
)
from tickproof.conformance.performance.costs import STATE_AT, costs
from tickproof.conformance.performance.document import this_machine
from tickproof.conformance.performance.engine_samples import EngineSamples
from tickproof.conformance.performance.recovery import recovery
from tickproof.conformance.performance.rounds import (
    Announce,
    Rounds,
    Series,
    check_room,
    exit_status_of,
)
from tickproof.conformance.performance.throughput import Window, drained_ns, window
from tickproof.conformance.report import style
from tickproof.conformance.scenario import App
from tickproof.conformance.session import out_folder
from tickproof.conformance.session.run_command import engine_folders
from tickproof.conformance.suites.evidence import outputs
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED, worst_status
from tickproof.generators.recipes import complete, market_params

FILE_NAME: Final = "bench.json"
FORMAT: Final = 1
#: The figures of a series that are shown with their spread.
_SPREAD: Final = {
    "apps": ("rate", "release_every_s", "whole_rate", "whole_s", "cpu_s", "cores", "us_a_record",
             "kit_cores", "other_cores", "peak_memory"),
    "latency": LATENCY,
    "kills": ("output_s", "release_s", "usual_output_s", "usual_release_s"),
}  # fmt: skip
_NOTHING_PACED: Final = "neither count nor passthrough is offered"


@dataclass(frozen=True)
class EngineResult:
    """What a bench measured on one engine."""

    spec: EngineSpec
    apps: list[Series]
    latency: list[Series]
    kills: list[Series]

    @property
    def series(self) -> list[Series]:
        """All that was to be measured."""
        return [*self.apps, *self.latency, *self.kills]


def check(specs: Sequence[EngineSpec], plan: Plan, out: Path) -> None:
    """Raise RequestError for a bench that cannot be made, before anything is started."""
    out_folder.check(out)
    try:
        market_params(complete(recipe_of("market-spread", plan, plan.messages, plan.seed)))
    except ValueError as error:
        raise RequestError(f"--messages, --symbols: {error}") from error
    offered = (steady_scenario(spec, app, plan, 0, 1) for spec in specs for app in plan.apps)
    if not any(offered):
        apps = ", ".join(plan.apps)
        raise RequestError(f"--app: expected an app that one of the engines offers; got {apps}")
    check_room(out, plan.disk_bytes, "--messages: input and output of one run take")


def bench(
    specs: Sequence[EngineSpec],
    plan: Plan,
    out: Path,
    *,
    keep: bool,
    as_json: bool,
    console: Console,
) -> int:
    """Measure the engines side by side; prints tables, or JSON. Returns the exit status.

    The same JSON goes to ``out``/bench.json.
    """
    facts = this_machine().model_dump()
    with style.console(stderr=True).status("measuring") as status:
        results = measure_all(
            specs, plan, out, keep=keep, announce=lambda what, _: status.update(what)
        )
    found = document(results, plan, facts)
    write_json(out / FILE_NAME, found)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        bench_report.show(console, found)
    for result in results:
        if exit_status_of(result.series) == EXIT_NOT_JUDGED:
            bench_report.say_nothing_measured(result.spec, "offers or claims none of it")
    return exit_status(results)


def exit_status(results: Sequence[EngineResult]) -> int:
    """Return the status of the worst engine; an engine of which nothing was measured has 5."""
    return worst_status(exit_status_of(result.series) for result in results)


def measure_all(
    specs: Sequence[EngineSpec], plan: Plan, out: Path, *, keep: bool, announce: Announce
) -> list[EngineResult]:
    """Measure every engine; runs go to folders under ``out``, and are removed unless ``keep``.

    The engines take turns within a round, so that a machine whose speed changes affects all.
    """
    folders = engine_folders(specs, out / "runs")
    engines = [
        _Engine(plan, Rounds(spec, folder, keep, announce))
        for spec, folder in zip(specs, folders, strict=True)
    ]
    for number in range(plan.rounds):
        for i in range(len(plan.steady)):
            for one in engines:
                one.steady(one.result.apps[i], number)
    for number in range(plan.rounds):
        if plan.latency:
            for one in engines:
                one.latency(one.result.latency[0], number)
        for i in range(len(plan.kills)):
            for one in engines:
                one.kill(one.result.kills[i], number)
    return [one.result for one in engines]


class _Engine:
    """The rounds of one engine."""

    def __init__(self, plan: Plan, rounds: Rounds) -> None:
        self._plan, self._rounds = plan, rounds
        self.result = EngineResult(
            rounds.spec,
            [Series(app, workers=workers, keys=keys) for app, workers, keys in plan.steady],
            [Series("latency", workers=plan.workers[0], figure="p50")] if plan.latency else [],
            [Series(one, workers=plan.workers[0], figure="output_s") for one in plan.kills],
        )

    def steady(self, series: Series, number: int) -> None:
        """Measure one round of an app."""
        app: App = series.what  # type: ignore[assignment]
        scenario = steady_scenario(
            self._rounds.spec, app, self._plan, number, series.workers, series.keys
        )
        if scenario is None:
            series.status, series.why = "not-offered", f"app {app} is not offered"
        else:
            name = f"{app}-{series.workers}-{series.keys}-{number}"
            self._rounds.sampled(series, scenario, name, steady_figures)

    def latency(self, series: Series, number: int) -> None:
        """Measure one paced round without a kill."""
        scenario = latency_scenario(self._rounds.spec, self._plan, number)
        if scenario is None:
            series.status, series.why = "not-offered", _NOTHING_PACED
        else:
            self._rounds.sampled(series, scenario, f"latency-{number}", latency_figures)

    def kill(self, series: Series, number: int) -> None:
        """Measure one round with a kill, if the engine claims to survive it."""
        spec = self._rounds.spec
        scenario = kill_scenario(spec, series.what, self._plan, number)  # type: ignore[arg-type]
        if scenario is None:
            series.status, series.why = "not-offered", _NOTHING_PACED
        elif series.what not in (survives := spec.claims(scenario.app, scenario.params).survives):
            claimed = ", ".join(survives) or "no death"
            series.status, series.why = "not-claimed", f"claims to survive: {claimed}"
        else:
            self._rounds.sampled(series, scenario, f"kill-{series.what}-{number}", kill_figures)


def document(
    results: Sequence[EngineResult], plan: Plan, machine: dict[str, Any]
) -> dict[str, Any]:
    """Return everything that was measured as JSON values; see docs/bench.md for each."""
    return {
        "format": FORMAT,
        "machine": machine,
        "parameters": plan.to_json(),
        "engines": [_engine(result) for result in results],
    }


def _engine(result: EngineResult) -> dict[str, Any]:
    spec = result.spec
    apps = [_series(series, "apps") for series in result.apps]
    rates = {(row["app"], row["workers"], row["keys"]): row["rate"] for row in apps}
    for row in apps:
        passthrough = rates.get(("passthrough", row["workers"], 0))
        half = rates.get((row["app"], row["workers"] / 2, row["keys"]))
        row["to_passthrough"] = _ratio(row["rate"], passthrough)
        row["to_half"] = _ratio(row["rate"], half)
    paced = [_series(series, "latency") for series in result.latency]
    kills = [{"target": series.what} | _series(series, "kills") for series in result.kills]
    return {
        "name": spec.name,
        "version": spec.version,
        "language": spec.language,
        "apps": apps,
        "latency": paced,
        "kills": kills,
    }


def _ratio(rate: dict[str, float] | None, to: dict[str, float] | None) -> float | None:
    return rate["median"] / to["median"] if rate and to else None


def _series(series: Series, kind: str) -> dict[str, Any]:
    spreads = {name: series.spread(name) for name in _SPREAD[kind]}
    return {
        "app": series.app or (series.what if kind == "apps" else ""),
        "params": series.params,
        "workers": series.workers,
        "keys": series.keys,
        "status": series.status,
        "why": series.why,
        "run": series.run,
        **spreads,
        "rounds": series.rounds,
    }


def steady_figures(history: History, samples: EngineSamples) -> dict[str, Any]:
    """Return the figures of a run without faults, as plain JSON values."""
    steady, rows = window(history), samples.rows()
    took = costs(history, rows, samples.cpu_s, steady)
    first_ns = int(history.fetches["t_ns"].min(initial=drained_ns(history)))
    whole_s = (drained_ns(history) - first_ns) / 1e9
    kept = history.record.kept
    assert kept is not None
    state = dict(zip([f"{part:.0%}" for part in STATE_AT], took.state, strict=True))
    return {
        "records": history.input_records,
        "outputs": len(outputs(history)),
        "rate": steady.rate if steady else None,
        "release_every_s": steady.release_every_s if steady else None,
        "window": _window(steady, first_ns),
        "whole_s": whole_s,
        "whole_rate": history.input_records / whole_s if whole_s > 0 else None,
        **{name: value for name, value in asdict(took).items() if name != "state"},
        "memory_kind": samples.memory_kind,
        "samples": len(rows),
        "state_bytes": state | {"end": kept.bytes},
        "state_files": kept.files,
    }


def _window(steady: Window | None, first_ns: int) -> dict[str, Any] | None:
    if steady is None:
        return None
    return {
        "opens_after_s": (steady.opens_ns - first_ns) / 1e9,
        "seconds": steady.seconds,
        "records": steady.records,
        "progress": steady.progress,
        "steps": steady.steps,
    }


def latency_figures(history: History, _samples: EngineSamples) -> dict[str, Any]:
    """Return percentiles of latency in seconds, of what was due after the warm-up."""
    found = answers(history)
    warm = found.where(found.intended_ns >= steady_ns(history))
    us = percentiles_us(latencies(warm))
    return {"answers": int(warm.answered.sum())} | {n: us[n] / 1e6 for n in LATENCY}


def kill_figures(history: History, _samples: EngineSamples) -> dict[str, Any]:
    """Return the figures of a run with a kill, as plain JSON values."""
    fault = history.faults[0]
    return asdict(recovery(history)) | {
        "killed_at": fault.fetched,
        "in_flight": apps.of(history).in_flight(fault),
        "backlog": fault.backlog,
    }
