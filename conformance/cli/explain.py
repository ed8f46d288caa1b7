"""``tickproof explain``: the story of a recorded run, with its picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from tickproof.conformance.cli.options import RUN, Command, as_json
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.report import style
from tickproof.conformance.verdicts import EXIT_OK


@click.command(cls=Command)
@RUN
@click.option("--requirement", metavar="ID", help="Only what this requirement saw.")
@as_json
def explain(run: Path, requirement: str | None, as_json: bool) -> int:
    """Tell what happened in a recorded RUN, and why it failed.

    RUN is a folder or a pack.
    """
    with loading():
        from tickproof.conformance.explain import stories
        from tickproof.conformance.explain.picture import plain
        from tickproof.conformance.history import job_run
        from tickproof.conformance.history.folder import opened
        from tickproof.conformance.session import judging
        from tickproof.conformance.session.pack import opened_run

    console, id_ = style.console(), requirement.upper() if requirement else None
    try:
        with opened_run(run) as folder:
            if job_run.is_one(folder):
                return _of_job(folder, id_, as_json)
            outcomes = judging.recheck(folder)
            wanted = [o for o in outcomes if id_ in (None, o.requirement)]
            if not wanted:
                expected = ", ".join(outcome.requirement for outcome in outcomes)
                raise click.UsageError(f"--requirement: expected one of {expected}; got {id_}")
            with opened(folder) as history:
                if as_json:
                    found = stories.as_json(history, wanted, width=console.width)
                    click.echo(json.dumps(found, indent=2))
                    return EXIT_OK
                for line in stories.text(history, wanted, width=console.width).splitlines():
                    click.echo(style.glyph(line, plain(line), console))
    except HistoryError as error:
        raise click.UsageError(f"RUN: {error}") from error
    return EXIT_OK


def _of_job(folder: Path, id_: str | None, as_json: bool) -> int:
    """Tell of a run of a job what was done to it and what was decided; ``id_``: of this alone."""
    from tickproof.conformance.explain import job_runs
    from tickproof.conformance.history import job_run
    from tickproof.conformance.report import terminal

    outcomes = job_run.verdict(folder)
    wanted = [one for one in outcomes if id_ in (None, one.requirement)]
    if id_ and not wanted:
        expected = ", ".join(one.requirement for one in outcomes) or "none"
        raise click.UsageError(f"--requirement: expected one of {expected}; got {id_}")
    parts = job_runs.parts(job_run.read(folder), wanted)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in parts], indent=2))
        return EXIT_OK
    console = style.console()
    for part in parts:
        console.print(Text(part.title, style="bold"))
        for label, value in part.fields:
            terminal.field(console, label, value)
    return EXIT_OK
