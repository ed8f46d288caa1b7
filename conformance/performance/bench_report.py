"""A bench as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.performance.bench_plan import LATENCY
from tickproof.conformance.report import style
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED

#: From a row of the document and the document to what is shown.
Cell = Callable[[dict[str, Any], dict[str, Any]], str]
#: A rate over fewer RELEASEs of a partition than this is coarse.
_FEW_STEPS: Final = 4
#: Other programs may take this part of the machine without a note.
_BUSY: Final = 0.1
#: No table takes more columns than this.
_WIDEST: Final = 200


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the tables of a document: speed, what it took, deaths, and what went wrong."""
    facts, plan = found["machine"], found["parameters"]
    line = (
        f"{facts['cpu']}, {facts['cpus']} cores; {plan['messages']:,} records, seed {plan['seed']}"
    )
    line += f", {' and '.join(map(str, plan['workers']))} workers"
    if plan["rounds"] > 1:
        line += f"; medians of {plan['rounds']} rounds, in brackets the smallest and the largest"
    console.print(Text(line, style="dim"))
    _table(console, found, _SPEED if len(plan["workers"]) == 1 else _GROWTH, "apps")
    _table(console, found, _COSTS, "apps")
    if plan["latency"]:
        console.print(
            Text(f"\nLatency at {plan['pace']:,} records a second, in seconds", style="dim")
        )
        _table(console, found, _LATENCY, "latency")
    if plan["kills"]:
        console.print(
            Text(
                f"\nKills at {plan['pace']:,} records a second: the longest silence of a "
                "partition, in seconds, after the kill and usually",
                style="dim",
            )
        )
        _table(console, found, _KILLS, "kills")
    _notes(console, found)
    for engine in found["engines"]:
        measured = [
            *((row["app"], row) for row in engine["apps"]),
            *(("latency", row) for row in engine["latency"]),
            *((f"kill of {row['target']}", row) for row in engine["kills"]),
        ]
        for what, row in measured:
            if row["status"] in ("failed", "unknown", "kit-error"):
                text = f"{engine['name']}, {what}: {row['status']}: {row['why']}"
                console.print(Text(f"{text}\n  run kept in {row['run']}", style="bold red"))


def say_nothing_measured(spec: EngineSpec, why: str) -> None:
    """Say on standard error that an engine has no figure at all."""
    text = f"{shown(spec.name, 60)}: nothing was measured: it {why}; exit status {EXIT_NOT_JUDGED}"
    style.console(stderr=True).print(text, style="bold red", soft_wrap=True)


def _notes(console: Console, found: dict[str, Any]) -> None:
    """Note where a rate is coarse or missing, or where other programs kept the machine busy."""
    notes, busy, cpus = [], 0.0, found["machine"]["cpus"]
    for engine in found["engines"]:
        for row in engine["apps"]:
            busy = max(busy, (row["other_cores"] or {}).get("max", 0.0))
            windows = [one["window"] for one in row["rounds"]]
            steps = [one["steps"] for one in windows if one and one["steps"]]
            if None in windows:
                why = "nothing was left to do after the warm-up"
            elif steps and min(steps) < _FEW_STEPS:
                why = f"RELEASEs of a partition after the warm-up: only {min(steps)}"
            else:
                continue
            more = "more --messages give a better rate"
            notes.append(f"{engine['name']}, {_label(row, found)}: {why}; {more}")
    if busy > _BUSY * cpus:
        notes.append(
            f"Other programs kept up to {number(busy)} of {cpus} processors busy meanwhile: "
            "rates may be too low."
        )
    for note in notes:
        console.print(Text(note, style="yellow"))


def _table(console: Console, found: dict[str, Any], columns: dict[str, Cell], key: str) -> None:
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
    for engine in found["engines"]:
        for row in engine[key]:
            first, second, *rest = (cell(engine | row, found) for cell in columns.values())
            if row["status"] != "measured" and columns is _COSTS:
                continue  # the table before it says why there is nothing
            if row["status"] != "measured":
                rest = [row["status"], *[""] * (len(rest) - 1)]
            table.add_row(*map(Text, (first, second, *rest)))
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


def _median(name: str, show: Callable[[float | None], str] = number) -> Cell:
    return lambda row, _: show(row[name] and row[name]["median"])


def _spread(name: str, scale: float = 1.0) -> Cell:
    def cell(row: dict[str, Any], found: dict[str, Any]) -> str:
        spread = row[name]
        if spread is None:
            return "-"
        text = number(spread["median"] / scale)
        if found["parameters"]["rounds"] > 1:
            text += f" [{number(spread['min'] / scale)} {number(spread['max'] / scale)}]"
        return text

    return cell


def _label(row: dict[str, Any], found: dict[str, Any]) -> str:
    emit = row["params"].get("emit", "") if row["app"] == "count" else ""
    app = f"{row['app']} {emit}".rstrip()
    plan = found["parameters"]
    if row["keys"] and len(plan["keys"]) > 1:
        app += f", {row['keys']:,} keys"
    return f"{app}, {row['workers']} workers" if len(plan["workers"]) > 1 else app


def _state(part: str) -> Cell:
    return lambda row, _: _bytes(row["rounds"][-1]["state_bytes"][part] if row["rounds"] else None)


_NAME: Final[dict[str, Cell]] = {"engine": lambda row, _: row["name"]}
_SPEED: Final[dict[str, Cell]] = _NAME | {
    "app": _label,
    "million\nrecords/s": _spread("rate", 1e6),
    "of pass-\nthrough": lambda row, _: number(row["to_passthrough"]),
    "RELEASE\nevery, s": _median("release_every_s"),
    "whole\nrun, s": _median("whole_s"),
    "million/s\nof it": _median("whole_rate", lambda rate: number(rate and rate / 1e6)),
}
_GROWTH: Final[dict[str, Cell]] = _SPEED | {
    "of half the\nworkers": lambda row, _: number(row["to_half"])
}
_COSTS: Final[dict[str, Cell]] = _NAME | {
    "app": _label,
    "CPU s": _median("cpu_s"),
    "cores": _median("cores"),
    "kit's\ncores": _median("kit_cores"),
    "others'\ncores": _median("other_cores"),
    "us a\nrecord": _median("us_a_record"),
    "peak\nmemory": _median("peak_memory", _bytes),
    "state\n20 %": _state("20%"),
    "\n50 %": _state("50%"),
    "\nend": _state("end"),
}
_LATENCY: Final[dict[str, Cell]] = _NAME | {
    "app": _label,
    **{name: _spread(name) for name in LATENCY},
}
_KILLS: Final[dict[str, Cell]] = _NAME | {
    "kill of": lambda row, _: f"{row['target']}, {row['app']}".rstrip(", "),
    "output": _spread("output_s"),
    "usual\noutput": _median("usual_output_s"),
    "RELEASE": _median("release_s"),
    "usual\nRELEASE": _median("usual_release_s"),
}
