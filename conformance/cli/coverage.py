"""``tickproof coverage``: what sessions have covered of the fault space, added up."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from tickproof.conformance.cli.options import Command
from tickproof.conformance.errors import HistoryError, RequestError
from tickproof.conformance.report import style
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_OK

#: Missing pairs that are printed without --missing.
_SHOWN = 10


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
    help="Exit status 1 where a smaller share of the pairs is covered: 0.9, say.",
)
@click.option("--missing", is_flag=True, help="Print all pairs that no session covered.")
def coverage(sessions: tuple[Path, ...], at_least: float | None, missing: bool) -> int:
    """Add up what SESSIONs covered of the fault space: report.json files, or folders of them."""
    from tickproof.conformance.report import json_report
    from tickproof.conformance.report.coverage import added_up

    reports = []
    for session in sessions:
        path = session / json_report.FILE_NAME if session.is_dir() else session
        try:
            reports.append(json_report.Report.read(path))
        except HistoryError as error:
            raise RequestError(f"SESSION: {error}") from error
    added = added_up(reports)
    if not added.covered:
        raise RequestError("SESSION: none of them played points of the fault space")
    console, pairs = style.console(), len(added.covered) + len(added.missing)
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
    return EXIT_FAIL if at_least is not None and added.share < at_least else EXIT_OK
