"""A selftest on the terminal: its progress, the matrix, what is wrong, one last line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tickproof.conformance.report.live import LiveView, bar
from tickproof.conformance.report.style import counts_line
from tickproof.conformance.selftest import matrix
from tickproof.conformance.selftest.model import SelfTest, Trial
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import EXIT_OK

_LINE: Final = 300
#: Cases of one problem that are printed; the report holds all.
_CASES: Final = 20


class TrialProgress(LiveView):
    """Shows how many trials are done: a bar on a terminal, a line for each tenth elsewhere."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, self._bar)
        self._what, self._done = "trials", 0
        self._planned: int | None = None
        self._began = time.monotonic()

    def _bar(self) -> RenderableType:
        return bar(self._what, self._done, self._planned, time.monotonic() - self._began)

    def __call__(self, done: int, planned: int, trial: Trial) -> None:
        """Show one more trial."""
        self._what = f"{trial.subject} {trial.scenario}"
        self._done, self._planned = done, planned
        if done * 10 // planned > (done - 1) * 10 // planned:
            self.line(Text(f"  {done:,} of {planned:,} trials"))


def summary(console: Console, report: SelfTest, folder: Path) -> None:
    """Print the matrix, the problems and the score; ``folder`` is where the reports lie."""
    _matrix(console, report)
    for what, cases in matrix.problems(report):
        console.print()
        console.print(Text(f"{what}: {len(cases)}", style="bold red"))
        for case in cases[:_CASES]:
            console.print(Text(f"  {shown(case, _LINE)}"), soft_wrap=True)
        if len(cases) > _CASES:
            console.print(Text(f"  and {len(cases) - _CASES} more", style="dim"))
    console.print()
    if report.interrupted:
        console.print(Text(f"this selftest was {report.interrupted}", style="bold yellow"))
    seconds = (report.ended - report.started).total_seconds()
    good = report.exit_status == EXIT_OK
    console.print(
        Text(
            f"{score(report)}; {seconds:.0f} s; exit status {report.exit_status}",
            style="bold green" if good else "bold red",
        ),
        soft_wrap=True,
    )
    if report.runs:
        sound = Text(f"  sound engines: {report.runs} runs, ")
        console.print(sound.append_text(counts_line(report.of_sound, console)), soft_wrap=True)
    names = ", ".join(f"{folder}/{name}" for name in ("report.html", "matrix.md", "selftest.json"))
    console.print(Text(f"  reports     {names}", style="dim"), soft_wrap=True)


def score(report: SelfTest) -> str:
    """Return the mutation score in words."""
    if not report.mutants:
        return "no mutants tried"
    percent = 100 * report.killed / report.mutants
    return f"{report.killed} of {report.mutants} mutants killed, score {percent:.4g} %"


def _matrix(console: Console, report: SelfTest) -> None:
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("requirement / test", ratio=4, overflow="fold")
    table.add_column("mutants that it failed", ratio=5, overflow="fold")
    for name in ("passed", "?", "sound"):
        table.add_column(name, justify="right", no_wrap=True)
    for requirement, rows in matrix.by_requirement(report):
        table.add_row(Text(requirement, style="bold"))
        for row in rows:
            counts = (len(row.passed), len(row.unknown), row.sound)
            failed = ", ".join(row.named)
            others = f"{len(row.others)} {'more' if failed else 'others'}" if row.others else ""
            table.add_row(
                Text(f"  {row.test.removeprefix('test_').replace('_', ' ')}"),
                Text(", ".join(filter(None, (failed, others)))),
                *(Text(str(count) if count else "", style="dim") for count in counts),
            )
    console.print()
    console.print(Text("Matrix: requirement x test x mutant", style="bold"))
    console.print(Padding(table, (0, 0, 0, 2)))
