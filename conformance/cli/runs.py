"""``tickproof runs``: recorded runs found, tagged, removed."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table
from rich.text import Text

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import RUN, Command
from tickproof.conformance.errors import RequestError
from tickproof.conformance.report import style
from tickproof.conformance.text import counted
from tickproof.conformance.verdicts import Verdict

_UNITS: Final = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SPANS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
#: The verdict of a run from which nothing was decided.
NONE: Final = "none"

_below = click.argument("below", type=options.FOLDER, default="tickproof-out", metavar="[FOLDER]")
_verdict = click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    metavar="NAME",
    type=click.Choice([*(one.value for one in Verdict), NONE]),
    help=f"Only runs that came out so (repeatable); {NONE}: nothing was decided.",
)


def _amount(text: str | None, option: str, units: dict[str, int], example: str) -> int | None:
    """Return "2G" or "7d" as a number of bytes or seconds."""
    if text is None:
        return None
    found = re.fullmatch(rf"(\d{{1,9}})([{''.join(units)}])", text)
    if found is None:
        raise RequestError(
            f"{option}: expected a number and one of {', '.join(units)}, as {example}; got {text}"
        )
    return int(found[1]) * units[found[2]]


@click.group()
def runs() -> None:
    """List, tag and remove recorded runs."""


@runs.command("list", cls=Command)
@_below
@_verdict
@click.option("--engine", metavar="NAME", help="Only runs of this engine.")
@click.option("--scenario", metavar="NAME", help="Only runs of this scenario.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@options.as_json
def list_(below: Path, verdicts: tuple[str, ...], as_json: bool, **wanted: str | None) -> None:
    """List the runs in FOLDER, oldest first (default: tickproof-out)."""
    from tickproof.conformance.session import run_store

    chosen = [run for run in run_store.runs(below) if _matches(run, verdicts, **wanted)]
    if as_json:
        click.echo(json.dumps([_row(run) for run in chosen], indent=1))
        return
    console = style.console()
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("began", "verdict", "engine", "seed", "MiB", "run"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("seed", "MiB") else "left")
    for run in chosen:
        said = (
            style.badge(run.verdict, console)
            if run.verdict
            else Text("under way" if run.under_way else NONE, style="dim")
        )
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began)) if run.began else ""
        where = Text(str(run.folder))
        where.append(f"  {' '.join(run.tags)}" if run.tags else "", style="cyan")
        size = f"{run.bytes / 2**20:.1f}"
        if console.is_terminal:  # the folder on its own line, to be copied whole
            facts = Text(f"{began}  ").append_text(said)
            console.print(facts.append(f"  {run.engine}, seed {run.seed}, {size} MiB", "default"))
            console.print(Text("  ").append_text(where), soft_wrap=True)
        else:
            table.add_row(began, said, run.engine, str(run.seed), size, where)
    if not console.is_terminal:
        style.print_table(console, table)
    size = sum(run.bytes for run in chosen)
    console.print(Text(f"{counted(len(chosen), 'run')}, {size / 2**20:,.1f} MiB"))
    for page in dict.fromkeys(run.report for run in chosen if run.report):
        console.print(Text(f"report  {page}", style="dim"), soft_wrap=True)


def _matches(
    run: Any, verdicts: tuple[str, ...], engine: str | None, scenario: str | None, tag: str | None
) -> bool:
    return (
        (not verdicts or (run.verdict.value if run.verdict else NONE) in verdicts)
        and engine in (None, run.engine)
        and scenario in (None, run.scenario)
        and (tag is None or tag in run.tags)
    )


def _row(run: Any) -> dict[str, Any]:
    return {
        "run": str(run.folder),
        "engine": run.engine,
        "scenario": run.scenario,
        "seed": run.seed,
        "verdict": run.verdict,
        "began": run.began,
        "ended": run.ended,
        "bytes": run.bytes,
        "tags": list(run.tags),
        "report": str(run.report) if run.report else None,
    }


@runs.command(cls=Command)
@RUN
@click.argument("names", nargs=-1, metavar="TAG...")
@click.option("--remove", is_flag=True, help="Take these tags away; all of them without TAG.")
def tag(run: Path, names: tuple[str, ...], remove: bool) -> None:
    """Give RUN a TAG, so that it is kept.

    Neither `prune` nor a later session removes it.
    """
    from tickproof.conformance.session import run_store

    if not names and not remove:
        raise click.UsageError("TAG: expected at least one")
    if not run.is_dir():
        raise click.UsageError("RUN: expected a folder: a pack is kept as it is")
    try:
        left = run_store.tag(
            run, () if remove else names, (names or run_store.tags(run)) if remove else ()
        )
    except OSError as error:
        raise RequestError(f"RUN: {run} cannot be written: {error.strerror}") from error
    click.echo(f"{run}  {' '.join(left) or 'no tags'}")


@runs.command(cls=Command)
@_below
@_verdict
@click.option("--older", metavar="AGE", help="Remove runs that are older: 12h, 7d.")
@click.option("--keep", metavar="SIZE", help="Remove the oldest until this is left: 500M, 2G.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; say what would be.")
def prune(
    below: Path, verdicts: tuple[str, ...], older: str | None, keep: str | None, dry_run: bool
) -> None:
    """Remove runs in FOLDER by age or size.

    Never one with a tag, nor one that is under way.
    """
    from tickproof.conformance.session import run_store

    if older is None and keep is None:
        raise click.UsageError("expected --older AGE, --keep SIZE or both")
    older_s = _amount(older, "--older", _SPANS, "7d")
    keep_bytes = _amount(keep, "--keep", _UNITS, "2G")
    wanted = {None if one == NONE else Verdict(one) for one in verdicts} or None
    chosen = run_store.to_prune(
        run_store.runs(below), older_s=older_s, keep_bytes=keep_bytes, verdicts=wanted
    )
    for run in chosen:
        if not dry_run:
            try:
                run_store.remove(run, below)
            except OSError as error:
                raise RequestError(f"{run.folder} cannot be removed: {error.strerror}") from error
        click.echo(f"{'would remove' if dry_run else 'removed'}  {run.folder}")
    size = sum(run.bytes for run in chosen) / 2**20
    click.echo(f"{counted(len(chosen), 'run')}, {size:,.1f} MiB")
