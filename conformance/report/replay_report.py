"""Output of `tickproof replay`: a line a run, counterexamples, then and now side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tickproof.conformance.report import terminal
from tickproof.conformance.report.json_report import result
from tickproof.conformance.report.style import badge
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import SEVERITY, Outcome, Verdict

if TYPE_CHECKING:
    from tickproof.conformance.suites.requirement import Requirement

_LIMIT: Final = 100
_STIMULUS: Final = 600


def heading(console: Console, scenario: str, stimulus: str, then: str, now: str) -> None:
    """Print what is replayed; ``then`` and ``now``: name and version of the engines."""
    console.print(Text(shown(scenario, _LIMIT), style="bold"))
    for label, value in (("played", stimulus), ("then", then), ("now", now)):
        grid = Table.grid(padding=0)
        grid.add_column(width=8)
        grid.add_column(overflow="fold")
        grid.add_row(Text(label, style="dim"), Text(shown(value, _STIMULUS)))
        console.print(Padding(grid, (0, 0, 0, 2), expand=False))


def line(console: Console, number: int, times: int, outcomes: Sequence[Outcome]) -> None:
    """Print how one replay came out."""
    worst = max(outcomes, key=_severity)
    text = Text(f"run {number} of {times}  ", style="dim").append_text(
        badge(worst.verdict, console)
    )
    if worst.reason:
        text.append(f"  {shown(f'{worst.requirement}: {worst.reason}', _LIMIT)}", style="default")
    console.print(text.append(f"  {worst.seconds:.1f} s", style="dim"))


def summary(
    console: Console,
    then: Sequence[Outcome],
    now: Sequence[Sequence[Outcome]],
    known: Mapping[str, Requirement],
) -> None:
    """Print the worst counterexample of each requirement, then the verdicts side by side."""
    again: dict[str, list[Outcome]] = {outcome.requirement: [] for outcome in then}
    for outcome in (one for run in now for one in run):
        again.setdefault(outcome.requirement, []).append(outcome)
    bad = [
        result(max(found, key=_severity), known.get(id_))
        for id_, found in again.items()
        if any(o.verdict not in (Verdict.PASS, Verdict.NOT_CLAIMED) for o in found)
    ]
    if bad:
        terminal.details(console, bad, None)
    table = Table(box=None, pad_edge=False)
    for column in ("requirement", "then", "now", *(["failed"] if len(now) > 1 else [])):
        table.add_column(column, no_wrap=True)
    before = {outcome.requirement: outcome.verdict for outcome in then}
    for id_, found in again.items():
        failed = sum(o.verdict is Verdict.FAIL for o in found)
        table.add_row(
            Text(shown(id_, _LIMIT)),
            badge(before[id_], console) if id_ in before else "",
            # What is told of failures alone, as PR-STAYS-UP, is not told of a run that passes.
            badge(max(found, key=_severity).verdict if found else Verdict.PASS, console),
            *([f"{failed} of {len(now)}"] if len(now) > 1 else []),
        )
    console.print()
    console.print(table)


def _severity(outcome: Outcome) -> int:
    return SEVERITY.index(outcome.verdict)
