"""The ladder on a terminal and as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tickproof.conformance.performance.bench_report import number
from tickproof.conformance.performance.ladder_costs import Cost, Ladder, StepCosts
from tickproof.conformance.report import svg, templates, whole_file
from tickproof.conformance.report.document import PAGE_NAME, this_kit
from tickproof.conformance.report.svg import LEFT, ROOM, label
from tickproof.conformance.scenario import Step
from tickproof.conformance.text import shown

_ROW: Final = 30
_TOP: Final = 8
_RULE: Final = (
    "Medians over rounds; in brackets a 95 % interval. Each step is held against the one above "
    "it, state against compute."
)
#: Room for the names of steps, right of the picture's own.
_NAMES: Final = 60


def show(console: Console, found: Ladder) -> None:
    """Print a row for each step, and what went wrong."""
    table = Table(box=None, pad_edge=False)
    table.add_column("step", no_wrap=True)
    for name in ("processor,\nns a record", "clock,\nns a record"):
        table.add_column(name, justify="right", no_wrap=True)
        table.add_column("times the\nstep before", no_wrap=True)
    for one in found.steps:
        cells = [cell for cost in (one.processor, one.clock) for cell in _cells(cost, one)]
        table.add_row(one.step, *map(Text, cells))
    console.print(table)
    console.print(Text(_RULE, style="dim"), soft_wrap=True)
    if found.interrupted:
        console.print(Text(missing(found), style="bold red"), soft_wrap=True)
    for one in found.steps:
        if one.run:
            text = f"{one.step}: {one.status}: {one.why}\n  run kept in {one.run}"
            console.print(Text(shown(text, 4000), style="bold red"), soft_wrap=True)


def missing(found: Ladder) -> str:
    """Say what ended a ladder early, and which rounds it did not come to; "" for nothing."""
    if not found.interrupted:
        return ""
    rounds = found.parameters.rounds
    open_ = [
        f"{one.step} {len(one.rounds)} of {rounds}"
        for one in found.steps
        if one.status == "measured" and len(one.rounds) < rounds
    ]
    return f"{shown(found.interrupted, 200)}; rounds measured: {', '.join(open_) or 'all'}"


def said(found: Cost, before: Step | None) -> str:
    """Return how a step compares with the one before, in a few words."""
    if before is None:
        return ""
    ratio = found.to_step_before
    if ratio is None:
        return "too few rounds"
    if not ratio.differs:
        return "no cost shown"
    return f"{ratio.estimate:.2f} [{ratio.low:.2f} {ratio.high:.2f}]"


def _cells(cost: Cost | None, one: StepCosts) -> tuple[str, str]:
    if cost is None:
        return "-", "" if one.status == "measured" else one.status
    return number(cost.median_ns), said(cost, one.before)


def write(folder: Path, found: Ladder) -> Path:
    """Write report.html; returns its path. Raises OSError."""
    return whole_file.write(folder / PAGE_NAME, html(found))


def html(found: Ladder) -> str:
    """Return the ladder as a page that needs nothing beside it."""
    return templates.render(
        "ladder.html.j2",
        ladder=found,
        missing=missing(found),
        said=said,
        number=number,
        picture=picture(found.steps),
        kit=this_kit(),
    )


def picture(found: Sequence[StepCosts]) -> Markup | None:
    """Return a bar for each step's processor time, the lowest on top; None without any."""
    rows = [(one, one.processor) for one in found if one.processor]
    if not rows:
        return None
    left, room = LEFT + _NAMES, ROOM - _NAMES - 90
    most = max(max(cost.rounds_ns) for _, cost in rows)
    parts, top = [], _TOP
    for one, cost in rows:
        low = top + _ROW - 10
        end = left + room * cost.median_ns / most
        tooltip = f"{one.step}: {one.adds}"
        parts.append(svg.shade("bar", left, end, top, low, tooltip))
        middle = (top + low) / 2
        spread = [
            (left + room * ns / most, middle) for ns in (min(cost.rounds_ns), max(cost.rounds_ns))
        ]
        parts.append(svg.line("spread", spread, "the smallest and the largest round"))
        parts.append(label(left - 6, middle + 4, one.step, "end"))
        parts.append(label(spread[1][0] + 6, middle + 4, f"{number(cost.median_ns)} ns", "start"))
        top += _ROW
    return svg.picture(top, "processor time of each step, nanoseconds a record", parts)
