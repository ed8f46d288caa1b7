"""A latency session on a terminal: one line while it runs, the verdict and its reasons after."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from rich import filesize
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tickproof.conformance.hosts.model import NO_LEVEL
from tickproof.conformance.hosts.model import Status as Probed
from tickproof.conformance.latency.figures import QUANTILES, QUEUES, RunFigures
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.performance.decision import Decision, Reason
from tickproof.conformance.performance.latency_document import (
    HostFound,
    LatencySession,
    SearchSession,
    Setup,
)
from tickproof.conformance.performance.limits import RECOVERY
from tickproof.conformance.report import terminal
from tickproof.conformance.report.live import LiveView
from tickproof.conformance.report.style import badge, glyph
from tickproof.conformance.text import counted, shown

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


def show(console: Console, session: LatencySession, folder: Path) -> None:
    """Print a session: the verdict first, figures, how to repeat it."""
    decision, engine = session.decision, session.engine
    console.print()
    line = badge(decision.verdict, console)
    line.append(f"  {shown(engine.name, 60)} {shown(engine.version, 20)}", style="bold")
    line.append(f" on profile {shown(session.profile.name, 60)}", style="bold")
    console.print(line, soft_wrap=True)
    for reason in decision.reasons:
        terminal.field(console, reason.code, said(reason, session.host))
    if session.runs:
        _limits(console, decision, session.runs)
        _about_runs(console, session.runs)
    elif session.floor is not None:
        _floor_alone(console, session.floor)
    _about_host(console, session)
    terminal.line(console, "reproduce", session.reproduce)
    terminal.line(console, "folder", str(folder))


def milliseconds(us: float | None) -> str:
    """Return microseconds as milliseconds, three figures that count: "0.812", "1,250"."""
    if us is None:
        return "-"
    ms = us / 1_000
    if math.isinf(ms):
        return "never"
    if ms >= 100 or ms == 0:
        return f"{ms:,.0f}"
    return f"{ms:.{max(0, 2 - math.floor(math.log10(ms)))}f}"


def _limits(console: Console, decision: Decision, runs: Sequence[RunFigures]) -> None:
    """Print percentile by percentile: limit, what the runs showed, floor, verdict."""
    judged = {one.percentile: one for one in decision.limits}
    rows = [run.percentiles for run in runs if run.percentiles]
    floors = [run.floor for run in runs if run.floor]
    if not rows:
        why = "none: of a rate that was not sustained no percentile is shown"
        terminal.field(console, "figures", why)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("ms", no_wrap=True)
    for name in ("limit", "min", "median", "max", "interval", "floor"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    samples = min(run.samples for run in runs if run.percentiles)
    for name in (*_WHOLE, RECOVERY):
        found = [row[name] for row in rows if name in row]
        if name == RECOVERY and name in judged:
            found = _recoveries(runs)
        # Of too few samples a percentile is their maximum under another name.
        if not found or (name not in judged and samples < _NEEDED.get(name, 0)):
            continue
        limit, said = judged.get(name), Text()
        if limit:
            said = badge(limit.verdict, console)
            said.append(f" {limit.reason}" if limit.reason else "", style="default")
        table.add_row(
            name,
            milliseconds(limit.limit_us if limit else None),
            milliseconds(min(found)),
            milliseconds(float(np.median(found))),
            milliseconds(max(found)),
            _interval(limit.interval_us if limit else None),
            milliseconds(_median(floors, name)),
            said,
        )
    what = f"  latency in milliseconds, steady phase, over {counted(len(rows), 'run')}"
    if decision.void:
        codes = ", ".join(sorted(set(decision.void.values())))
        what += f"; {counted(len(decision.void), 'run')} void: {codes}"
    console.print()
    console.print(Text(what, style="dim"))
    console.print(Padding(table, (0, 0, 0, 2)))


def said(reason: Reason, host: HostFound) -> str:
    """Return the words of a reason; probes of the host are listed further down."""
    statuses = {"HOST_NOT_OK": Probed.NOT_OK, "UNOBSERVABLE_HOST": Probed.UNOBSERVABLE}
    if reason.code not in statuses:
        return reason.text
    status = statuses[reason.code]
    names = [one.probe for one in host.problems if one.status is status]
    what = "not as asked" if status is Probed.NOT_OK else "cannot be seen here"
    return f"{what}: {', '.join(names)}"


def _recoveries(runs: Sequence[RunFigures]) -> list[float]:
    """Return how long each run that recovered, or never did, took: microseconds."""
    return [run.recovery_s * 1e6 for run in runs if run.recovery_s is not None]


def _floor_alone(console: Console, floor: dict[str, float]) -> None:
    """Print the floor where no run of the engine was played."""
    found = ", ".join(f"{name} {milliseconds(floor[name])}" for name in _WHOLE if name in floor)
    text = f"{found} ms: what the kit takes here with an engine that does nothing"
    terminal.field(console, "floor", text if found else "here the kit itself cannot keep the rate")


def _interval(ends: Sequence[float] | None) -> str:
    return f"[{milliseconds(ends[0])} {milliseconds(ends[1])}]" if ends else ""


def _median(rows: Sequence[dict[str, float]], name: str) -> float | None:
    found = [row[name] for row in rows if name in row]
    return float(np.median(found)) if found else None


def _about_runs(console: Console, runs: Sequence[RunFigures]) -> None:
    """Print what the figures rest on: generator, hiccups, noise, rate, recovery."""
    console.print()
    _worst(console, "generator", "late by", [run.late for run in runs])
    _worst(console, "hiccups", "the host woke late by", [run.hiccup for run in runs])
    noisy = [run.noisy for run in runs]
    terminal.field(console, "noise", f"{_share(noisy)} of the seconds were noisy")
    achieved = [run.achieved for run in runs]
    growth = max(run.backlog_growth for run in runs)
    grew = f"; the backlog grew by up to {growth:,.0f} records a second" if growth else ""
    terminal.field(console, "rate", f"{_share(achieved)} of the rate achieved{grew}")
    for name, what in QUEUES.items():
        if rows := [run.queues[name] for run in runs if name in run.queues]:
            worst = {each: max(row[each] for row in rows) for each in rows[0]}
            said = ", ".join(
                f"{each} {filesize.decimal(round(value))}" for each, value in worst.items()
            )
            terminal.field(console, "sockets", f"{what}: {said} (of the worst run)")
    if recovered := _recoveries(runs):
        text = ", ".join("never" if math.isinf(us) else f"{us / 1e6:.1f} s" for us in recovered)
        terminal.field(console, "recovery", f"p99 back under its limit after {text}")


def _worst(console: Console, label: str, what: str, rows: Sequence[dict[str, float]]) -> None:
    worst = {name: max((row[name] for row in rows if name in row), default=None) for name in _SHORT}
    if worst["max"] is not None:
        figures = ", ".join(f"{name} {milliseconds(us)} ms" for name, us in worst.items())
        terminal.field(console, label, f"{what} {figures} (of the worst run)")


def _share(parts: Sequence[float]) -> str:
    low, high = min(parts), max(parts)
    said = [f"{part:.1%}" if part < 1 else "100%" for part in (low, high)]
    return said[0] if said[0] == said[1] else f"{said[0]} to {said[1]}"


def _about_host(console: Console, session: Setup) -> None:
    cores, host = session.cores, session.host
    given = f"kit {_cores(cores.kit)}, engine {_cores(cores.engine)}"
    shared = ", shared by both" if cores.shared else ""
    refused = "".join(f"; refused: {text}" for text in cores.refused)
    terminal.field(console, "cores", f"{given}{shared}{refused}")
    level = f"level {host.level} asked for" if host.level != NO_LEVEL else "no level asked for"
    said = f": {len(host.problems)} probes not met" if host.problems else ""
    terminal.field(console, "host", f"{session.machine.cpu}, {level}{said}")
    for one in host.problems:
        mark = glyph("✗", "x", console) if one.status is Probed.NOT_OK else "?"
        terminal.field(console, "", f"{mark} {one.probe}: {one.value}; wanted {one.wanted}")


def _cores(numbers: Sequence[int]) -> str:
    """Return core numbers with stretches drawn together: "2-3,6"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts) or "none"


def show_search(console: Console, session: SearchSession, folder: Path) -> None:
    """Print a search: the answer, every step, how to repeat it."""
    engine, limits = session.engine, list(session.profile.limits)
    console.print()
    title = Text(shown(f"{engine.name} {engine.version}", 80), style="bold")
    title.append(f" on profile {shown(session.profile.name, 60)}: ", style="bold")
    console.print(title.append(session.answer, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for name in ("records/s", "step", *limits):
        table.add_column(name, justify="left" if name == "step" else "right", no_wrap=True)
    table.add_column("ms; why", overflow="fold")
    for step in sorted(session.found.steps, key=lambda step: step.rate):
        percentiles = step.runs[-1].percentiles
        figures = [milliseconds(percentiles.get(name)) for name in limits]
        times = f" of {len(step.runs)}" if len(step.runs) > 1 else ""
        why = Text(shown(step.why, _TEXT))
        table.add_row(f"{step.rate:,}", f"{step.result}{times}", *figures, why)
    console.print(Padding(table, (0, 0, 0, 2)))
    _about_host(console, session)
    terminal.line(console, "reproduce", session.reproduce)
    terminal.line(console, "folder", str(folder))
