"""Plays the runs of a bench, judges each, and measures those that are right.

A fast answer that is wrong gets no figure: every run is judged by the local checker.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.bench.engines.costs import STATE_AT, costs
from tickproof.conformance.bench.engines.engine_samples import (
    PERIOD_S,
    EngineSamples,
    children_cpu_s,
)
from tickproof.conformance.bench.engines.plan import (
    Plan,
    kill_scenario,
    latency_scenario,
    steady_scenario,
)
from tickproof.conformance.bench.engines.recovery import recovery
from tickproof.conformance.bench.engines.throughput import Window, drained_ns, window
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError, KitStopped
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency.percentiles import percentiles_us
from tickproof.conformance.latency.samples import answers, latencies, steady_ns
from tickproof.conformance.runner.limits import patient
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import App, Scenario
from tickproof.conformance.session.run_command import engine_folders
from tickproof.conformance.suites.evidence import outputs
from tickproof.conformance.suites.judge import Fail, KitError, Unknown
from tickproof.conformance.suites.require import earns_figures
from tickproof.conformance.verdicts import Verdict

#: failed: the answer was wrong, or the engine gave none.
Status = Literal["measured", "not-offered", "not-claimed", "failed", "unknown", "kit-error"]
#: What a series says of its engine.
VERDICTS: Final[dict[str, Verdict]] = {
    "measured": Verdict.PASS, "not-offered": Verdict.NOT_CLAIMED,
    "not-claimed": Verdict.NOT_CLAIMED, "failed": Verdict.FAIL, "unknown": Verdict.UNKNOWN,
    "kit-error": Verdict.KIT_ERROR,
}  # fmt: skip
Tell = Callable[[str], None]
#: Percentiles that a bench shows.
LATENCY: Final = ("p50", "p99", "max")
_NOTHING_PACED: Final = "neither count nor passthrough is offered"
Measure = Callable[[History, EngineSamples], dict[str, Any]]


@dataclass
class Series:
    """All rounds of one thing that is measured on one engine.

    what: an app, or the target of the kill. status: that of the worst round; ``why`` explains
    it. rounds: the figures of each round. run: the folder kept of a round that went wrong.
    workers: of the engine. keys: of count, in a steady run; else 0. figure: the one that it is
    played for.
    """

    what: str
    app: str = ""
    params: dict[str, str] = field(default_factory=dict)
    status: Status = "measured"
    why: str = ""
    rounds: list[dict[str, Any]] = field(default_factory=list)
    run: str = ""
    workers: int = 2
    keys: int = 0
    figure: str = "rate"

    @property
    def verdict(self) -> Verdict:
        """What it says of the engine: unknown if a round was too short for the figure."""
        if self.status == "measured" and None in [row.get(self.figure) for row in self.rounds]:
            return Verdict.UNKNOWN
        return VERDICTS[self.status]

    def spread(self, name: str) -> dict[str, float] | None:
        """Return median, min and max of a figure over the rounds; None without any."""
        values = [row[name] for row in self.rounds if row.get(name) is not None]
        if self.status != "measured" or not values:
            return None
        return {"median": float(np.median(values)), "min": min(values), "max": max(values)}


@dataclass(frozen=True)
class EngineResult:
    """What was measured on one engine."""

    spec: EngineSpec
    apps: list[Series]
    latency: list[Series]
    kills: list[Series]

    @property
    def series(self) -> list[Series]:
        """All that was to be measured."""
        return [*self.apps, *self.latency, *self.kills]


def measure_all(
    specs: Sequence[EngineSpec], plan: Plan, out: Path, *, keep: bool, tell: Tell
) -> list[EngineResult]:
    """Measure every engine; runs go to folders under ``out``, and are removed unless ``keep``.

    The engines take turns within a round, so that a machine whose speed changes affects all.
    ``tell`` is called with what is being done.
    """
    bench = _Bench(plan, Rounds(keep, tell))
    results = [
        EngineResult(
            spec,
            [Series(app, workers=workers, keys=keys) for app, workers, keys in plan.steady],
            [Series("latency", workers=plan.workers[0], figure="p50")] if plan.latency else [],
            [Series(one, workers=plan.workers[0], figure="output_s") for one in plan.kills],
        )
        for spec in specs
    ]
    folders = engine_folders(specs, out / "runs")
    for number in range(plan.rounds):
        for i in range(len(plan.steady)):
            for result, folder in zip(results, folders, strict=True):
                bench.steady(result.spec, result.apps[i], number, folder)
    for number in range(plan.rounds):
        if plan.latency:
            for result, folder in zip(results, folders, strict=True):
                bench.latency(result.spec, result.latency[0], number, folder)
        for i in range(len(plan.kills)):
            for result, folder in zip(results, folders, strict=True):
                bench.kill(result.spec, result.kills[i], number, folder)
    return results


class Rounds:
    """Plays single rounds into their series; keep: their folders. tell: as in measure_all.

    period_s: from one sample of an engine to the next.
    """

    def __init__(self, keep: bool, tell: Tell, period_s: float = PERIOD_S) -> None:
        self._keep, self._tell, self._period_s = keep, tell, period_s

    def add(
        self, spec: EngineSpec, series: Series, scenario: Scenario, folder: Path, measure: Measure
    ) -> None:
        """Play, judge and measure; after a round that went wrong no more are played."""
        if series.status != "measured":
            return
        series.app, series.params = scenario.app, scenario.params
        shutil.rmtree(folder, ignore_errors=True)
        try:
            self._play(spec, series, scenario, folder, measure)
        except Fail as fail:
            series.status, series.why = "failed", str(fail)
        except Unknown as unknown:
            series.status, series.why = "unknown", str(unknown)
        except (KitError, KitStopped, HistoryError, OSError) as error:
            series.status, series.why = "kit-error", str(error)
        finally:
            if series.status != "measured":
                series.run = str(folder)
                series.rounds.clear()  # an engine that is sometimes wrong gets no figures
            if not self._keep:
                _drop(folder, whole=series.status == "measured")

    def _play(
        self, spec: EngineSpec, series: Series, scenario: Scenario, folder: Path, measure: Measure
    ) -> None:
        seed = scenario.recipe["seed"]
        self._tell(f"{spec.name}: {folder.name}")
        samples, before_s = EngineSamples(self._period_s), children_cpu_s()
        spec = patient(spec, scenario.recipe["records"])
        play(scenario, spec, folder, seed=seed, usage=samples.sampler)
        samples.cpu_s = children_cpu_s() - before_s
        history = History(folder)
        self._tell(f"{spec.name}: {folder.name}, judging")
        earns_figures(history)
        series.rounds.append({"seed": seed} | measure(history, samples))


class _Bench:
    """Says which rounds are played."""

    def __init__(self, plan: Plan, rounds: Rounds) -> None:
        self._plan, self._rounds = plan, rounds

    def steady(self, spec: EngineSpec, series: Series, number: int, parent: Path) -> None:
        """Measure one round of an app."""
        app: App = series.what  # type: ignore[assignment]
        scenario = steady_scenario(spec, app, self._plan, number, series.workers, series.keys)
        if scenario is None:
            series.status, series.why = "not-offered", f"app {app} is not offered"
        else:
            folder = parent / f"{app}-{series.workers}-{series.keys}-{number}"
            self._rounds.add(spec, series, scenario, folder, steady_figures)

    def latency(self, spec: EngineSpec, series: Series, number: int, parent: Path) -> None:
        """Measure one paced round without a kill."""
        scenario = latency_scenario(spec, self._plan, number)
        if scenario is None:
            series.status, series.why = "not-offered", _NOTHING_PACED
        else:
            self._rounds.add(spec, series, scenario, parent / f"latency-{number}", latency_figures)

    def kill(self, spec: EngineSpec, series: Series, number: int, parent: Path) -> None:
        """Measure one round with a kill, where the engine claims to survive it."""
        scenario = kill_scenario(spec, series.what, self._plan, number)  # type: ignore[arg-type]
        if scenario is None:
            series.status, series.why = "not-offered", _NOTHING_PACED
        elif series.what not in (survives := spec.claims(scenario.app, scenario.params).survives):
            claimed = ", ".join(survives) or "no death"
            series.status, series.why = "not-claimed", f"claims to survive: {claimed}"
        else:
            folder = parent / f"kill-{series.what}-{number}"
            self._rounds.add(spec, series, scenario, folder, kill_figures)


def _drop(folder: Path, whole: bool) -> None:
    """Remove a run folder, or only its input, which can be made again."""
    shutil.rmtree(folder if whole else folder / "input", ignore_errors=True)


def steady_figures(history: History, samples: EngineSamples) -> dict[str, Any]:
    """Return the figures of a run without faults, as plain JSON values."""
    steady, rows = window(history), samples.rows()
    took = costs(history, rows, samples.cpu_s, steady)
    first_ns = int(history.fetches["t_ns"].min(initial=drained_ns(history)))
    whole_s = (drained_ns(history) - first_ns) / 1e9
    kept = history.run["kept"]
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
        "state_bytes": state | {"end": kept["bytes"]},
        "state_files": kept["files"],
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
