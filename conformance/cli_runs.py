"""``tickproof check``, ``replay``, ``pack``: what is done with a recorded run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from conformance.reports import style
from conformance.verdicts import exit_status

_RUN = click.Path(exists=True, readable=True, path_type=Path)


@click.command()
@click.argument("run", type=_RUN, metavar="RUN")
@click.option("--spark", is_flag=True, help="Judge on Spark: for more than one machine can hold.")
@click.option("--master", metavar="URL", help="Where Spark runs, with --spark. Default: local[*]")
def check(run: Path, spark: bool, master: str | None) -> int:
    """Judge a recorded RUN again, from disk alone: its folder, or a pack of it."""
    if master is not None and not spark:
        raise click.UsageError("--master: expected together with --spark")
    _expect_run(run)
    from conformance import at_scale, session
    from conformance.history.folder import HistoryError
    from conformance.packing import opened_run
    from conformance.reports import terminal
    from conformance.reports.json_report import result
    from conformance.requirements import registry

    known = registry.load()
    try:
        with opened_run(run) as folder:
            if spark:
                outcomes = at_scale.recheck(folder, master or "local[*]")
            else:
                outcomes = session.recheck(folder)
    except HistoryError as error:
        raise click.UsageError(f"RUN: {error}") from error
    except at_scale.NotStarted as error:
        raise click.UsageError(f"--spark: {error}") from error
    results = [
        result(replace(outcome, run=str(run)), known.get(outcome.requirement))
        for outcome in outcomes
    ]
    terminal.details(style.console(), results, None)
    return exit_status(decided.verdict for decided in results)


def _expect_run(run: Path) -> None:
    if run.is_dir() and not (run / "run.json").is_file():
        raise click.UsageError(f"RUN: {run} holds no run.json: expected a run folder")


@click.command()
@click.argument("run", type=_RUN, metavar="RUN")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Default: ENGINE-SCENARIO-SEED.tickproof.zip",
)  # fmt: skip
def pack(run: Path, output: Path | None) -> None:
    """Make one file of a RUN, to be checked and replayed elsewhere; nothing names the machine."""
    _expect_run(run)
    from conformance.history.folder import HistoryError
    from conformance.packing import making

    try:
        made = making.pack(run, output)
    except HistoryError as error:
        raise click.UsageError(f"RUN: {error}") from error
    except OSError as error:
        raise click.UsageError(f"--output: cannot be written: {error}") from error
    for member, word in made.kept:
        click.echo(f"warning: {member} holds {word}: the engine's own bytes, kept", err=True)
    click.echo(f"{made.path}  {made.bytes:,} bytes")
