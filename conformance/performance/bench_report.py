"""A bench as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.performance.bench_document import (
    AppRow,
    Bench,
    EngineRows,
    KillRow,
    LatencyRow,
    Parameters,
)
from tickproof.conformance.performance.series import Spread
from tickproof.conformance.report import style
from tickproof.conformance.text import shown, told_apart
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED

AnyRow = TypeVar("AnyRow", AppRow, LatencyRow, KillRow)
#: From a row of the document and its parameters to what is shown.
Cell = Callable[[AnyRow, Parameters], str]
Columns = dict[str, Cell[AnyRow]]
#: A rate over fewer RELEASEs of a partition than this is coarse.
_FEW_STEPS: Final = 4
#: Other programs may take this part of the machine without a note.
_BUSY: Final = 0.1
#: No table takes more columns than this.
_WIDEST: Final = 200


def show(console: Console, found: Bench) -> None:
    """Print the tables of a document: speed, what it took, deaths, and what went wrong."""
    machine, plan = found.machine, found.parameters
    line = f"{machine.cpu}, {machine.cpus} cores; {plan.messages:,} records, seed {plan.seed}"
    line += f", {' and '.join(map(str, plan.workers))} workers"
    if plan.rounds > 1:
        line += f"; medians of {plan.rounds} rounds, in brackets the smallest and the largest"
    console.print(Text(line, style="dim"))
    names, which = _named(found)
    if which:
        console.print(Text(shown(which, 1000), style="dim"))
    apps = [(name, row) for name, engine in names for row in engine.apps]
    _table(console, plan, _SPEED if len(plan.workers) == 1 else _GROWTH, apps)
    # The table of speed says why there is nothing.
    _table(console, plan, _COSTS, [one for one in apps if one[1].status == "measured"])
    if plan.latency:
        console.print(Text(f"\nLatency at {plan.pace:,} records a second, in seconds", style="dim"))
        rows = [(name, row) for name, engine in names for row in engine.latency]
        _table(console, plan, _LATENCY, rows)
    if plan.kills:
        console.print(
            Text(
                f"\nKills at {plan.pace:,} records a second: the longest silence of a "
                "partition, in seconds, after the kill and usually",
                style="dim",
            )
        )
        kills = [(name, row) for name, engine in names for row in engine.kills]
        _table(console, plan, _KILLS, kills)
    for note in notes(found):
        console.print(Text(note, style="yellow"))
    for name, engine in names:
        for what, row in engine.named():
            if row.status in ("failed", "unknown", "kit-error"):
                text = f"{name}, {what}: {row.status}: {row.why}"
                console.print(Text(f"{text}\n  run kept in {row.run}", style="bold red"))


def say_nothing_measured(spec: EngineSpec, why: str) -> None:
    """Say on standard error that an engine has no figure at all."""
    text = f"{shown(spec.name, 60)}: nothing was measured: it {why}; exit status {EXIT_NOT_JUDGED}"
    style.console(stderr=True).print(text, style="bold red", soft_wrap=True)


def _named(found: Bench) -> tuple[list[tuple[str, EngineRows]], str]:
    """Return the engines with their names, none twice, and a sentence on which is which."""
    engines = found.engines
    names, which = told_apart([one.name for one in engines], [one.source for one in engines])
    return list(zip(names, engines, strict=True)), which


def notes(found: Bench) -> list[str]:
    """Say which rounds and rates are missing or coarse, and if other programs took processors."""
    said, busy, cpus = list(_missing(found)), 0.0, found.machine.cpus
    for name, engine in _named(found)[0]:
        for row in engine.apps:
            busy = max(busy, row.other_cores.max if row.other_cores else 0.0)
            windows = [one.window for one in row.rounds]
            steps = [one.steps for one in windows if one and one.steps]
            if None in windows:
                why = "nothing was left to do after the warm-up"
            elif steps and min(steps) < _FEW_STEPS:
                why = f"RELEASEs of a partition after the warm-up: only {min(steps)}"
            else:
                continue
            more = "more --messages give a better rate"
            said.append(f"{name}, {_label(row, found.parameters)}: {why}; {more}")
    if busy > _BUSY * cpus:
        said.append(
            f"Other programs kept up to {number(busy)} of {cpus} processors busy meanwhile: "
            "rates may be too low"
        )
    return said


def _missing(found: Bench) -> Iterator[str]:
    """Yield what ended a bench early, with the rounds that it did not come to."""
    rounds = found.parameters.rounds
    missing = [
        f"{name}, {_label(row, found.parameters) if isinstance(row, AppRow) else what}: "
        f"{len(row.rounds)} of {rounds}"
        for name, engine in _named(found)[0]
        for what, row in engine.named()
        if row.status == "measured" and len(row.rounds) < rounds
    ]
    if found.interrupted:
        yield f"{shown(found.interrupted, 200)}; rounds measured: {'; '.join(missing) or 'all'}"


def _table(
    console: Console, plan: Parameters, columns: Columns[AnyRow], rows: Sequence[tuple[str, AnyRow]]
) -> None:
    """Print a row for each series; rows: name of the engine, series."""
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    for number, name in enumerate(["engine", *columns]):
        table.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
    for engine, row in rows:
        what, *figures = (cell(row, plan) for cell in columns.values())
        if row.status != "measured":
            figures = [row.status, *[""] * (len(figures) - 1)]
        table.add_row(*map(Text, (engine, what, *figures)))
    console.print()
    # A line that wraps is better than a figure that is cut off.
    wide = console.options.update_width(_WIDEST)
    table.width = Measurement.get(console, wide, table).maximum
    console.print(table, crop=False)


def number(value: float | None) -> str:
    """Return a number with three figures that count, or more before the point."""
    if value is None:
        return "-"
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"


def _bytes(value: float | None) -> str:
    """Return a size with its unit: B, K, M or G, each 1024 of the one before."""
    if value is None:
        return "-"
    power = min(3, max(0, int(math.log(value, 1024)))) if value else 0
    return f"{number(value / 1024**power)}{'BKMG'[power]}"


def _median(
    of: Callable[[AnyRow], Spread | None], show: Callable[[float | None], str] = number
) -> Cell[AnyRow]:
    def cell(row: AnyRow, _plan: Parameters) -> str:
        spread = of(row)
        return show(spread.median if spread else None)

    return cell


def _spread(of: Callable[[AnyRow], Spread | None], scale: float = 1.0) -> Cell[AnyRow]:
    def cell(row: AnyRow, plan: Parameters) -> str:
        spread = of(row)
        if spread is None:
            return "-"
        text = number(spread.median / scale)
        if plan.rounds > 1:
            text += f" [{number(spread.min / scale)} {number(spread.max / scale)}]"
        return text

    return cell


def _label(row: AppRow | LatencyRow, plan: Parameters) -> str:
    emit = row.params.get("emit", "") if row.app == "count" else ""
    app = f"{row.app} {emit}".rstrip()
    if row.keys and len(plan.keys) > 1:
        app += f", {row.keys:,} keys"
    return f"{app}, {row.workers} workers" if len(plan.workers) > 1 else app


def _state(part: str) -> Cell[AppRow]:
    return lambda row, _: _bytes(row.rounds[-1].state_bytes[part] if row.rounds else None)


_SPEED: Final[Columns[AppRow]] = {
    "app": _label,
    "million\nrecords/s": _spread(lambda row: row.rate, 1e6),
    "times\npassthrough": lambda row, _: number(row.to_passthrough),
    "RELEASE\nevery s": _median(lambda row: row.release_every_s),
    "whole\nrun, s": _median(lambda row: row.whole_s),
    "million\nof it/s": _median(
        lambda row: row.whole_rate, lambda rate: number(rate and rate / 1e6)
    ),
}
_GROWTH: Final[Columns[AppRow]] = {
    **_SPEED,
    "of half the\nworkers": lambda row, _: number(row.to_half),
}
_COSTS: Final[Columns[AppRow]] = {
    "app": _label,
    "CPU s": _median(lambda row: row.cpu_s),
    "cores": _median(lambda row: row.cores),
    "kit's\ncores": _median(lambda row: row.kit_cores),
    "others'\ncores": _median(lambda row: row.other_cores),
    "us a\nrecord": _median(lambda row: row.us_a_record),
    "peak\nmemory": _median(lambda row: row.peak_memory, _bytes),
    "state\n20 %": _state("20%"),
    "\n50 %": _state("50%"),
    "\nend": _state("end"),
}
_LATENCY: Final[Columns[LatencyRow]] = {
    "app": _label,
    "p50": _spread(lambda row: row.p50),
    "p99": _spread(lambda row: row.p99),
    "max": _spread(lambda row: row.max),
}
_KILLS: Final[Columns[KillRow]] = {
    "kill of": lambda row, _: f"{row.target}, {row.app}".rstrip(", "),
    "output": _spread(lambda row: row.output_s),
    "usual\noutput": _median(lambda row: row.usual_output_s),
    "RELEASE": _median(lambda row: row.release_s),
    "usual\nRELEASE": _median(lambda row: row.usual_release_s),
}
