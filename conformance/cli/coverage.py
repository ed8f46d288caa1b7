"""``tickproof coverage``: what sessions reached of what the protocol leaves free, added up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.errors import HistoryError, RequestError
from tickproof.conformance.report import style
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_OK

if TYPE_CHECKING:
    from tickproof.conformance.report.coverage import Added
    from tickproof.conformance.report.json_report import Report
    from tickproof.conformance.suites.reached import Coverage

#: What is missing is printed up to so many lines without --missing.
_SHOWN: Final = 10
_LINE: Final = 300


@click.command(cls=Command)
@click.argument(
    "sessions",
    nargs=-1,
    required=True,
    metavar="SESSION...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--at-least",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit status 1 if a smaller share of the pairs is covered, for example 0.9.",
)
@click.option(
    "--varied",
    is_flag=True,
    help="Exit status 1 if the kit chose one class of a freedom in all runs.",
)
@click.option("--classes", is_flag=True, help="Print every class of every freedom.")
@click.option("--missing", is_flag=True, help="Print all pairs that no session covered.")
def coverage(
    sessions: tuple[Path, ...], at_least: float | None, varied: bool, classes: bool, missing: bool
) -> int:
    """Add up what SESSIONs covered of the fault space.

    A SESSION is a report.json, or a folder of sessions and runs. Of the fault space it counts
    pairs, by the reports; of what the protocol leaves free to kit and input it counts classes, by
    the recorded runs.
    """
    with loading():
        from tickproof.conformance.report.coverage import added_up
        from tickproof.conformance.session import run_store
        from tickproof.conformance.suites.reached import reached

    added = added_up(_reports(sessions))
    folders = [run.folder for one in sessions if one.is_dir() for run in run_store.runs(one)]
    found = reached(folders)
    if not added.covered and not found.runs:
        why = f"; {shown(found.unread[0], _LINE)}" if found.unread else ""
        raise RequestError(
            f"SESSION: expected points of the fault space, or a run; there is none{why}"
        )
    console = style.console()
    if added.covered:
        _print_space(console, added, missing)
    if found.runs:
        _print_freedoms(console, found)
        if classes:
            style.print_table(console, _table(found))
    too_few = at_least is not None and added.share < at_least
    return EXIT_FAIL if too_few or (varied and (found.constant or not found.runs)) else EXIT_OK


def _reports(sessions: Sequence[Path]) -> Iterable[Report]:
    from tickproof.conformance.report import json_report

    for session in sessions:
        path = session / json_report.FILE_NAME if session.is_dir() else session
        if session.is_dir() and not path.exists():
            continue  # a folder of runs
        try:
            yield json_report.Report.read(path)
        except HistoryError as error:
            raise RequestError(f"SESSION: {error}") from error


def _print_space(console: Console, added: Added, missing: bool) -> None:
    pairs = len(added.covered) + len(added.missing)
    console.print(
        f"fault space: {len(added.covered):,} of {pairs:,} pairs covered ({added.share:.1%}) "
        f"by {added.sessions} sessions",
        highlight=False,
    )
    left = sorted(added.missing)
    for pair in left if missing else left[:_SHOWN]:
        console.print(Text(f"  missing  {', '.join(pair)}"), soft_wrap=True)
    if not missing and len(left) > _SHOWN:
        console.print(Text(f"  and {len(left) - _SHOWN:,} more: --missing prints all"))


def _print_freedoms(console: Console, found: Coverage) -> None:
    rows = list(found.rows())
    hit = sum(one.runs > 0 for *_, one in rows)
    console.print(
        f"freedoms: {hit} of {len(rows)} classes reached by {found.runs:,} runs", highlight=False
    )
    for word, chosen in (
        ("not reached", [row for row in rows if not row[2].runs]),
        ("no fault", [row for row in rows if row[2].runs and not row[2].with_faults]),
    ):
        names: dict[str, list[str]] = {}
        for freedom, name, _ in chosen:
            names.setdefault(f"{freedom.clause}, {freedom.what}", []).append(name)
        for what, missed in names.items():
            console.print(Text(f"  {word:11}  {what}: {'; '.join(missed)}"), soft_wrap=True)
    for freedom in found.constant:
        console.print(Text(f"  constant     {freedom.clause}, {freedom.what}"), soft_wrap=True)
    for why in found.unread:
        console.print(Text(f"  not read     {shown(why, _LINE)}"), soft_wrap=True)


def _table(found: Coverage) -> Table:
    table = Table("clause", "what is free", "class", box=None, pad_edge=False)
    for name in ("runs", "with faults"):
        table.add_column(name, justify="right")
    table.add_column("which")
    for freedom, name, one in found.rows():
        counts, faults = (f"{one.runs}", f"{one.with_faults}"), ", ".join(sorted(one.faults))
        table.add_row(freedom.clause, freedom.what, name, *counts, faults)
    return table
