"""`tickproof bench engines`: engines side by side, on the same inputs and machine.

A fast answer that is wrong gets no figure: every run is judged by the local checker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tickproof.conformance import apps
from tickproof.conformance.engines import interruption
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency.percentiles import percentiles_us
from tickproof.conformance.latency.samples import answers, latencies, steady_ns
from tickproof.conformance.performance import bench_report, comparison_output
from tickproof.conformance.performance.bench_document import (
    Bench,
    EngineRows,
    KillRound,
    LatencyRound,
    Parameters,
    SteadyRound,
    SteadyWindow,
    app_rows,
    kill_rows,
    latency_rows,
)
from tickproof.conformance.performance.bench_plan import (
    LATENCY,
    Plan,
    kill_scenario,
    latency_scenario,
    recipe_of,
    steady_scenario,
)
from tickproof.conformance.performance.costs import STATE_AT, costs
from tickproof.conformance.performance.document import Machine, MeasuredEngine, this_machine
from tickproof.conformance.performance.engine_samples import EngineSamples
from tickproof.conformance.performance.latency_terminal import Status
from tickproof.conformance.performance.recovery import recovery
from tickproof.conformance.performance.rounds import Announce, Rounds, check_room
from tickproof.conformance.performance.series import Series, exit_status_of
from tickproof.conformance.performance.throughput import Window, drained_ns, window
from tickproof.conformance.report import style, templates
from tickproof.conformance.report.document import engine_facts
from tickproof.conformance.scenario import App
from tickproof.conformance.session import out_folder
from tickproof.conformance.session.run_command import engine_folders
from tickproof.conformance.suites.evidence import outputs
from tickproof.conformance.text import counted
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED, worst_status
from tickproof.generators.recipes import complete, market_params

_NOTHING_PACED: Final = "neither count nor passthrough is offered"


@dataclass(frozen=True)
class EngineResult:
    """The measurements of a bench on one engine. source: see `EngineRows`."""

    spec: EngineSpec
    apps: list[Series[SteadyRound]]
    latency: list[Series[LatencyRound]]
    kills: list[Series[KillRound]]
    source: str = ""

    @property
    def exit_status(self) -> int:
        """The status of its worst series, 5 where nothing was measured."""
        return exit_status_of(self.series)

    @property
    def series(self) -> Iterator[Series[Any]]:
        """All that is measured on it."""
        return itertools.chain[Series[Any]](self.apps, self.latency, self.kills)


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

    The same JSON goes to ``out``/bench.json, and of several engines a page. After an interrupt
    what was measured is reported, and KeyboardInterrupt goes on.
    """
    machine, said = this_machine(), style.console(stderr=True)
    with Status(said) as status:
        results, interrupted = measure_all(specs, plan, out, keep=keep, announce=status)
    runs = sum(len(series.rounds) for result in results for series in result.series)
    if interrupted and not runs:
        raise KeyboardInterrupt("nothing was measured")
    found = document(results, plan, machine, interrupted)
    with interruption.deferred():
        found.write(out)
        if as_json:
            print(found.text())
        else:
            bench_report.show(console, found)
        if len(specs) > 1:
            templates.as_extra(lambda: said.print(f"report  {comparison_output.write(out)}"), said)
    if interrupted:
        raise KeyboardInterrupt(f"{counted(runs, 'run')} reported in {out}")
    for result in results:
        if result.exit_status == EXIT_NOT_JUDGED:
            bench_report.say_nothing_measured(result.spec, "offers or claims none of it")
    return exit_status(results)


def exit_status(results: Sequence[EngineResult]) -> int:
    """Return the status of the worst engine; an engine of which nothing was measured has 5."""
    return worst_status(result.exit_status for result in results)


def measure_all(
    specs: Sequence[EngineSpec], plan: Plan, out: Path, *, keep: bool, announce: Announce
) -> tuple[list[EngineResult], str]:
    """Measure every engine; runs go to folders under ``out``, and are removed unless ``keep``.

    Returns the results, and in words the interrupt that ended it early, or "". The engines take
    turns within a round, so that a machine whose speed changes affects all.
    """
    folders = engine_folders(specs, out / "runs")
    engines = [
        _Engine(plan, Rounds(spec, folder, keep, announce))
        for spec, folder in zip(specs, folders, strict=True)
    ]
    results = [one.result for one in engines]
    try:
        _take_turns(engines, plan)
    except KeyboardInterrupt:
        return results, interruption.words()
    return results, ""


def _take_turns(engines: Sequence[_Engine], plan: Plan) -> None:
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


class _Engine:
    """The rounds of one engine."""

    def __init__(self, plan: Plan, rounds: Rounds) -> None:
        self._plan, self._rounds = plan, rounds
        spec = rounds.spec
        facts = engine_facts(spec.name, spec.version, spec.language, spec.path, spec.asked)
        self.result = EngineResult(
            spec,
            [Series(app, workers=workers, keys=keys) for app, workers, keys in plan.steady],
            [Series("latency", workers=plan.workers[0], figure="p50")] if plan.latency else [],
            [Series(one, workers=plan.workers[0], figure="output_s") for one in plan.kills],
            facts.asked or facts.toml,
        )

    def steady(self, series: Series[SteadyRound], number: int) -> None:
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

    def latency(self, series: Series[LatencyRound], number: int) -> None:
        """Measure one paced round without a kill."""
        scenario = latency_scenario(self._rounds.spec, self._plan, number)
        if scenario is None:
            series.status, series.why = "not-offered", _NOTHING_PACED
        else:
            self._rounds.sampled(series, scenario, f"latency-{number}", latency_figures)

    def kill(self, series: Series[KillRound], number: int) -> None:
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
    results: Sequence[EngineResult], plan: Plan, machine: Machine, interrupted: str = ""
) -> Bench:
    """Return everything that was measured."""
    return Bench(
        machine=machine,
        interrupted=interrupted or None,
        parameters=Parameters.of(plan),
        engines=tuple(
            EngineRows(
                **dict(MeasuredEngine.of(one.spec)),
                source=one.source,
                apps=app_rows(one.apps),
                latency=latency_rows(one.latency),
                kills=kill_rows(one.kills),
            )
            for one in results
        ),
    )


def steady_figures(history: History, samples: EngineSamples) -> SteadyRound:
    """Return the figures of a run without faults."""
    steady, rows = window(history), samples.rows()
    took = costs(history, rows, samples.cpu_s, steady)
    first_ns = int(history.fetches["t_ns"].min(initial=drained_ns(history)))
    whole_s = (drained_ns(history) - first_ns) / 1e9
    kept = history.record.kept
    assert kept is not None
    state = dict(zip([f"{part:.0%}" for part in STATE_AT], took.state, strict=True))
    return SteadyRound(
        seed=history.record.seed,
        records=history.input_records,
        outputs=len(outputs(history)),
        rate=steady.rate if steady else None,
        release_every_s=steady.release_every_s if steady else None,
        window=_window(steady, first_ns) if steady else None,
        whole_s=whole_s,
        whole_rate=history.input_records / whole_s if whole_s > 0 else None,
        **{name: value for name, value in asdict(took).items() if name != "state"},
        memory_kind=samples.memory_kind,
        samples=len(rows),
        state_bytes=state | {"end": kept.bytes},
        state_files=kept.files,
    )


def _window(steady: Window, first_ns: int) -> SteadyWindow:
    return SteadyWindow(
        opens_after_s=(steady.opens_ns - first_ns) / 1e9,
        seconds=steady.seconds,
        records=steady.records,
        progress=steady.progress,
        steps=steady.steps,
    )


def latency_figures(history: History, _samples: EngineSamples) -> LatencyRound:
    """Return percentiles of latency in seconds, of what was due after the warm-up."""
    found = answers(history)
    warm = found.where(found.intended_ns >= steady_ns(history))
    us = percentiles_us(latencies(warm))
    return LatencyRound(
        seed=history.record.seed,
        answers=int(warm.answered.sum()),
        **{name: us[name] / 1e6 for name in LATENCY},
    )


def kill_figures(history: History, _samples: EngineSamples) -> KillRound:
    """Return the figures of a run with a kill."""
    fault = history.faults[0]
    return KillRound(
        seed=history.record.seed,
        **asdict(recovery(history)),
        killed_at=fault.fetched,
        in_flight=apps.of(history).in_flight(fault),
        backlog=fault.backlog,
    )
