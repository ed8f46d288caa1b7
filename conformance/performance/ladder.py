"""`tickproof ladder`: plays all steps in turns, and says what each of them costs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from tickproof.conformance import resources
from tickproof.conformance.engines import interruption
from tickproof.conformance.engines.spec import EngineSpec, available
from tickproof.conformance.errors import RequestError
from tickproof.conformance.history.folder import History
from tickproof.conformance.performance import ladder_report
from tickproof.conformance.performance.bench import steady_figures
from tickproof.conformance.performance.bench_document import SteadyRound
from tickproof.conformance.performance.bench_plan import KEYS, PARTITIONS
from tickproof.conformance.performance.bench_report import say_nothing_measured
from tickproof.conformance.performance.document import EngineName, this_machine
from tickproof.conformance.performance.engine_samples import EngineSamples
from tickproof.conformance.performance.ladder_costs import LADDER, Ladder, Parameters, Plan, costs
from tickproof.conformance.performance.latency_terminal import Status
from tickproof.conformance.performance.rounds import Announce, Rounds, check_room
from tickproof.conformance.performance.series import Series, exit_status_of
from tickproof.conformance.report import style
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import out_folder
from tickproof.conformance.session.run_command import engine_folders
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.text import counted
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED

#: Steps from which on a cut is on disk.
_DURABLE: Final = ("checkpoint", "exactly-once", "audit")
#: Input and output of one record on disk, at most (audit: two points of 24 bytes, framed).
_RECORD_BYTES: Final = 20 + 2 * 28
#: Runs are short, and a window needs samples.
_PERIOD_S: Final = 0.05


def check(spec: EngineSpec, plan: Plan, out: Path) -> None:
    """Raise RequestError for what cannot be measured, before anything is started."""
    out_folder.check(out)
    if "ladder" not in spec.apps:
        ready = [one.name for one in available(resources.fixtures()) if "ladder" in one.apps]
        raise RequestError(
            f"ENGINE: expected an engine with [apps.ladder] and its steps in engine.toml, as "
            f"{', '.join(ready)}; {spec.name} has none"
        )
    check_room(out, plan.messages * _RECORD_BYTES, "--messages: input and output of one run take")


def ladder(spec: EngineSpec, plan: Plan, out: Path, *, keep: bool, console: Console) -> int:
    """Measure all steps that the engine offers; returns the exit status.

    Writes ladder.json and report.html to ``out``. After an interrupt what was measured is
    reported, and KeyboardInterrupt goes on.
    """
    machine, interrupted = this_machine(), ""
    series = steps_of(spec)
    with Status(style.console(stderr=True)) as status:
        try:
            play(spec, series, plan, out, keep=keep, announce=status)
        except KeyboardInterrupt:
            interrupted = interruption.words()
    runs = sum(len(one.rounds) for one in series)
    if interrupted and not runs:
        raise KeyboardInterrupt("nothing was measured")
    found = Ladder(
        machine=machine,
        interrupted=interrupted or None,
        parameters=Parameters(**asdict(plan)),
        engine=EngineName(name=spec.name, version=spec.version),
        steps=costs(series),
    )
    with interruption.deferred():
        found.write(out)
        ladder_report.show(console, found)
        path = ladder_report.write(out, found)
        console.print(f"  report     {path}", style="dim", soft_wrap=True, highlight=False)
    if interrupted:
        raise KeyboardInterrupt(f"{counted(runs, 'run')} reported in {out}")
    if (found_status := exit_status_of(series)) == EXIT_NOT_JUDGED:
        say_nothing_measured(spec, "offers none of the steps")
    return found_status


def steps_of(spec: EngineSpec) -> list[Series[SteadyRound]]:
    """Return all steps, the lowest first, none of them measured yet."""
    series = [Series[SteadyRound](rung.step) for rung in LADDER]
    for one in series:
        if not spec.offers("ladder", {"step": one.what}):
            one.status, one.why = "not-offered", "not in [apps.ladder]"
    return series


def play(
    spec: EngineSpec,
    series: Sequence[Series[SteadyRound]],
    plan: Plan,
    out: Path,
    *,
    keep: bool,
    announce: Announce,
) -> None:
    """Play rounds of all steps; in each round they come in an order of its own.

    So what changes on the machine meanwhile changes all steps alike.
    """
    (folder,) = engine_folders([spec], out / "runs")
    rounds = Rounds(spec, folder, keep, announce)
    for number in range(plan.rounds):
        order = list(series)
        random.Random(f"{plan.seed}:{number}").shuffle(order)
        for one in order:
            scenario, name = scenario_of(one.what, plan, number), f"{one.what}-{number}"
            rounds.sampled(one, scenario, name, figures, _PERIOD_S)


def scenario_of(step: str, plan: Plan, number: int) -> Scenario:
    """Return a run of a step: keyed input of round ``number``, all of it published at once."""
    recipe = {
        "kind": "keyed",
        "keys": KEYS,
        "records": plan.messages,
        "partitions": PARTITIONS,
        "seed": plan.seed + number,
    }
    return Scenario(f"ladder-{step}", "ladder", {"step": step}, recipe, workers=plan.workers)


def figures(history: History, samples: EngineSamples) -> SteadyRound:
    """Return the figures of a run. Raises Fail where a cut should be on disk, and nothing is."""
    found = steady_figures(history, samples)
    step = history.params["step"]
    if step in _DURABLE and not found.state_bytes["end"]:
        raise Fail(f"step {step}", "a cut under state_dir", "no file")
    return found
