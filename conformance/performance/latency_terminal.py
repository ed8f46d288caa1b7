"""A latency session on a terminal: one line while it runs, the verdict and its reasons after."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tickproof.conformance.latency.figures import QUANTILES
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.performance.limits import RECOVERY
from tickproof.conformance.report.live import LiveView
from tickproof.conformance.report.style import badge, glyph
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import Verdict

_LABEL: Final = 11
_TEXT: Final = 600
#: Percentiles shown of what is not judged: lateness, hiccups.
_SHORT: Final = ("p50", "p99", "max")
_WHOLE: Final = (*QUANTILES, "max")
#: Samples that each percentile needs.
_NEEDED: Final = {name: samples_needed(share) for name, share in QUANTILES.items()}


class Status(LiveView):
    """One line on standard error that says what is going on and how long that will take.

    Not on a terminal, each thing that begins gets a line.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console, self._status, per_second=2)
        self._what, self._until = "", 0.0

    def __call__(self, what: str, seconds: float = 0.0) -> None:
        """Say what begins now; ``seconds``: how long it will take, 0: nobody knows."""
        self._what, self._until = shown(what, 100), time.monotonic() + seconds
        left = f", {seconds:.0f} s" if seconds else ""
        self.line(Text(f"{self._what}{left}"))

    def _status(self) -> Text:
        left = self._until - time.monotonic()
        return Text(f"{self._what}, {left:.0f} s left" if left > 0 else self._what, style="bold")


def show(console: Console, document: dict[str, Any], folder: Path) -> None:
    """Print a session (see report.document): the verdict first, figures, how to repeat it."""
    decision, engine = document["decision"], document["engine"]
    console.print()
    verdict = Verdict(decision["verdict"])
    line = badge(verdict, console)
    line.append(f"  {shown(engine['name'], 60)} {shown(engine['version'], 20)}", style="bold")
    line.append(f" on profile {shown(document['profile']['name'], 60)}", style="bold")
    console.print(line, soft_wrap=True)
    for reason in decision["reasons"]:
        _field(console, reason["code"], said(reason, document["host"]))
    if document["runs"]:
        _limits(console, document)
        _about_runs(console, document["runs"])
    elif document["floor"] is not None:
        _floor_alone(console, document["floor"])
    _about_host(console, document)
    _line(console, "reproduce", document["reproduce"])
    _line(console, "folder", str(folder))


def milliseconds(us: float | str | None) -> str:
    """Return microseconds as milliseconds, three figures that count: "0.812", "1,250".

    Infinity, in JSON the text "inf", is "never".
    """
    if us is None:
        return "-"
    ms = float(us) / 1_000
    if math.isinf(ms):
        return "never"
    if ms >= 100 or ms == 0:
        return f"{ms:,.0f}"
    return f"{ms:.{max(0, 2 - math.floor(math.log10(ms)))}f}"


def _limits(console: Console, document: dict[str, Any]) -> None:
    """Print percentile by percentile: limit, what the runs showed, floor, verdict."""
    judged = {row["percentile"]: row for row in document["decision"]["limits"]}
    runs = document["runs"]
    rows = [row["percentiles"] for row in runs if row["percentiles"]]
    floors = [row["floor"] for row in runs if row["floor"]]
    if not rows:
        _field(console, "figures", "none: of a rate that was not sustained no percentile is shown")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("ms", no_wrap=True)
    for name in ("limit", "min", "median", "max", "interval", "floor"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    samples = min(row["samples"] for row in runs if row["percentiles"])
    for name in (*_WHOLE, RECOVERY):
        found = [row[name] for row in rows if name in row]
        if name == RECOVERY and name in judged:
            found = _recoveries(runs)
        # Of too few samples a percentile is their maximum under another name.
        if not found or (name not in judged and samples < _NEEDED.get(name, 0)):
            continue
        limit = judged.get(name, {})
        said = Text()
        if limit:
            said = badge(Verdict(limit["verdict"]), console)
            said.append(f" {limit['reason']}" if limit["reason"] else "", style="default")
        table.add_row(
            name,
            milliseconds(limit.get("limit_us")),
            milliseconds(min(found)),
            milliseconds(float(np.median(found))),
            milliseconds(max(found)),
            _interval(limit.get("interval_us")),
            milliseconds(_median(floors, name)),
            said,
        )
    what = f"  latency in milliseconds, steady phase, over {counted(len(rows), 'run')}"
    void = document["decision"]["void"]
    if void:
        codes = ", ".join(sorted(set(void.values())))
        what += f"; {counted(len(void), 'run')} void: {codes}"
    console.print()
    console.print(Text(what, style="dim"))
    console.print(Padding(table, (0, 0, 0, 2)))


def said(reason: dict[str, Any], host: dict[str, Any]) -> str:
    """Return the words of a reason; probes of the host are listed further down."""
    statuses = {"HOST_NOT_OK": "NOT_OK", "UNOBSERVABLE_HOST": "UNOBSERVABLE"}
    if reason["code"] not in statuses:
        return str(reason["text"])
    status = statuses[reason["code"]]
    names = [row["probe"] for row in host["problems"] if row["status"] == status]
    what = "not as asked" if status == "NOT_OK" else "cannot be seen here"
    return f"{what}: {', '.join(names)}"


def _recoveries(runs: Sequence[dict[str, Any]]) -> list[float]:
    """Return how long each run that recovered, or never did, took: microseconds."""
    return [float(row["recovery_s"]) * 1e6 for row in runs if row["recovery_s"] is not None]


def _floor_alone(console: Console, floor: dict[str, float]) -> None:
    """Print the floor where no run of the engine was played."""
    found = ", ".join(f"{name} {milliseconds(floor[name])}" for name in _WHOLE if name in floor)
    text = f"{found} ms: what the kit takes here with an engine that does nothing"
    _field(console, "floor", text if found else "here the kit itself cannot keep the rate")


def _interval(ends: Sequence[float] | None) -> str:
    return f"[{milliseconds(ends[0])} {milliseconds(ends[1])}]" if ends else ""


def _median(rows: Sequence[dict[str, float]], name: str) -> float | None:
    found = [row[name] for row in rows if name in row]
    return float(np.median(found)) if found else None


def _about_runs(console: Console, runs: Sequence[dict[str, Any]]) -> None:
    """Print what the figures rest on: generator, hiccups, noise, rate, recovery."""
    console.print()
    for label, key in (("generator", "late"), ("hiccups", "hiccup")):
        worst = {
            name: max((row[key][name] for row in runs if name in row[key]), default=None)
            for name in _SHORT
        }
        if worst["max"] is not None:
            what = "late by" if key == "late" else "the host woke late by"
            figures = ", ".join(f"{name} {milliseconds(us)} ms" for name, us in worst.items())
            _field(console, label, f"{what} {figures} (of the worst run)")
    noisy = [row["noisy"] for row in runs]
    _field(console, "noise", f"{_share(noisy)} of the seconds were noisy")
    achieved = [row["achieved"] for row in runs]
    growth = max(row["backlog_growth"] for row in runs)
    grew = f"; the backlog grew by up to {growth:,.0f} records a second" if growth else ""
    _field(console, "rate", f"{_share(achieved)} of the rate achieved{grew}")
    if recovered := _recoveries(runs):
        text = ", ".join("never" if math.isinf(us) else f"{us / 1e6:.1f} s" for us in recovered)
        _field(console, "recovery", f"p99 back under its limit after {text}")


def _share(parts: Sequence[float]) -> str:
    low, high = min(parts), max(parts)
    said = [f"{part:.1%}" if part < 1 else "100%" for part in (low, high)]
    return said[0] if said[0] == said[1] else f"{said[0]} to {said[1]}"


def _about_host(console: Console, document: dict[str, Any]) -> None:
    cores, host = document["cores"], document["host"]
    if cores:
        given = f"kit {_cores(cores['kit'])}, engine {_cores(cores['engine'])}"
        shared = ", shared by both" if cores["shared"] else ""
        refused = "".join(f"; refused: {text}" for text in cores.get("refused", []))
        _field(console, "cores", f"{given}{shared}{refused}")
    problems = host["problems"]
    level = f"level {host['level']} asked for" if host["level"] != "none" else "no level asked for"
    said = f": {len(problems)} probes not met" if problems else ""
    _field(console, "host", f"{document['machine']['cpu']}, {level}{said}")
    for row in problems:
        mark = glyph("✗", "x", console) if row["status"] == "NOT_OK" else "?"
        _field(console, "", f"{mark} {row['probe']}: {row['value']}; wanted {row['wanted']}")


def _cores(numbers: Sequence[int]) -> str:
    """Return core numbers with stretches drawn together: "2-3,6"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts) or "none"


def show_search(console: Console, document: dict[str, Any], folder: Path) -> None:
    """Print a search: the answer, every step, how to repeat it."""
    found, engine = document["found"], document["engine"]
    console.print()
    title = Text(shown(f"{engine['name']} {engine['version']}", 80), style="bold")
    title.append(f" on profile {shown(document['profile']['name'], 60)}: ", style="bold")
    console.print(title.append(document["answer"], style="bold"), soft_wrap=True)
    limits = sorted(document["profile"]["limits"], key=_WHOLE.index)
    table = Table(box=None, pad_edge=False)
    for name in ("records/s", "step", *limits):
        table.add_column(name, justify="left" if name == "step" else "right", no_wrap=True)
    table.add_column("ms; why", overflow="fold")
    for step in sorted(found["steps"], key=lambda step: step["rate"]):
        last = step["runs"][-1]
        figures = [milliseconds(last["percentiles"].get(name)) for name in limits]
        times = f" of {len(step['runs'])}" if len(step["runs"]) > 1 else ""
        why = shown(step["why"], _TEXT)
        table.add_row(f"{step['rate']:,}", f"{step['result']}{times}", *figures, Text(why))
    console.print(Padding(table, (0, 0, 0, 2)))
    _about_host(console, document)
    _line(console, "reproduce", document["reproduce"])
    _line(console, "folder", str(folder))


def _field(console: Console, label: str, value: str) -> None:
    """Print one labelled value, wrapped under itself."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=_LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(shown(label, 40), style="dim"), Text(shown(value, _TEXT)))
    console.print(Padding(grid, (0, 0, 0, 2)))


def _line(console: Console, label: str, value: str) -> None:
    """Print one labelled value that somebody will copy: never wrapped, never cut."""
    text = Text("  ").append(label.ljust(_LABEL + 1), style="dim")
    console.print(text.append(value), soft_wrap=True)
