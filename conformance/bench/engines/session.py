"""`tickproof bench engines`: measure, print, write bench.json, say how it ended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from tickproof.conformance import verdicts
from tickproof.conformance.bench.engines import report
from tickproof.conformance.bench.engines.measurement import EngineResult, Series, measure_all
from tickproof.conformance.bench.engines.plan import Plan, recipe_of, steady_scenario
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.report import machine, style
from tickproof.conformance.session import out_folder
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED, worst_status
from tickproof.generators.recipes import complete, market_params

FILE_NAME: Final = "bench.json"


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
    check_room(out, plan.disk_bytes)


def check_room(out: Path, needed: int) -> None:
    """Raise RequestError where a run of so many bytes does not fit on the disk."""
    free = shutil.disk_usage(out).free
    if needed > free:
        raise RequestError(
            f"--messages: input and output of one run take {needed >> 20:,} MiB, "
            f"but {out} has {free >> 20:,} MiB left"
        )


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
    facts = machine.facts()
    with style.console(stderr=True).status("measuring") as status:
        results = measure_all(specs, plan, out, keep=keep, tell=status.update)
    found = report.document(results, plan, facts)
    write_json(out / FILE_NAME, found)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        report.show(console, found)
    for result in results:
        if exit_status_of(result.series) == EXIT_NOT_JUDGED:
            say_nothing_measured(result.spec, "offers or claims none of it")
    return exit_status(results)


def say_nothing_measured(spec: EngineSpec, why: str) -> None:
    """Say on standard error that an engine has no figure at all."""
    text = f"{shown(spec.name, 60)}: nothing was measured: it {why}; exit status {EXIT_NOT_JUDGED}"
    style.console(stderr=True).print(text, style="bold red", soft_wrap=True)


def exit_status(results: Sequence[EngineResult]) -> int:
    """Return the status of the worst engine; an engine of which nothing was measured has 5."""
    return worst_status(exit_status_of(result.series) for result in results)


def exit_status_of(series: Iterable[Series]) -> int:
    """Return 0 when all that is offered was measured, and something was; else of the worst."""
    return verdicts.exit_status(one.verdict for one in series)
