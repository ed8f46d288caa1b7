"""``tickproof report``: the HTML page of a session of run or latency, or of one run."""

from __future__ import annotations

from pathlib import Path

import click

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.errors import HistoryError, RequestError


def _not_of_a_job(_context: click.Context, _parameter: click.Parameter, what: Path) -> Path:
    from tickproof.conformance.history import job_run

    if job_run.is_one(what):
        raise click.UsageError(f"RUN: {what}: the run of a job has no page; expected its session")
    return what


@click.command(cls=Command)
@click.argument(
    "what",
    type=click.Path(exists=True, path_type=Path),
    metavar="SESSION|RUN|PACK",
    callback=_not_of_a_job,
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Default: report.html in the folder of a SESSION; else NAME.html in the working folder. "
    "A name that ends in .svg gets the picture of the worst run alone, one in .md a summary.",
)
@click.option(
    "--annotations",
    is_flag=True,
    help="Instead, print what did not hold as annotations for GitHub Actions.",
)
def report(what: Path, output: Path | None, annotations: bool) -> None:
    """Make one HTML file of a SESSION, a RUN or a PACK.

    A SESSION is a folder of `run` or `latency`. A run or a pack is judged again for it, from what
    it holds alone. A session of `run` that ended without reports, because it was killed, gets all
    of them, of what it had judged.
    """
    with loading():
        from tickproof.conformance.performance import latency_page
        from tickproof.conformance.performance.latency_document import LatencySession
        from tickproof.conformance.report import json_report, page, pipeline, whole_file
        from tickproof.conformance.report.document import PAGE_NAME
        from tickproof.conformance.session import recorded_report, session_reports
        from tickproof.conformance.session.pack import opened_run

    lost = None if output or not what.is_dir() else session_reports.ended_early(what)
    forms = {".svg": page.picture, ".md": lambda found, _folder: pipeline.summary(found)}
    html = forms.get(output.suffix if output else "", page.html)
    document = what / json_report.FILE_NAME if what.is_dir() else what
    if annotations:
        try:
            found = json_report.Report.read(document)
        except HistoryError as error:
            raise RequestError(f"SESSION: {error}") from error
        for line in pipeline.workflow_commands(found):
            click.echo(line)
        return
    try:
        if lost is not None:
            found = session_reports.of_lost(lost, what)
            session_reports.write(found, what)
    except HistoryError as error:
        raise RequestError(f"SESSION: {error}") from error
    except OSError as error:
        why = f"the reports cannot be written: {error.strerror}"
        raise RequestError(f"SESSION: {what}: {why}") from error
    try:
        if (what / LatencySession.FILE_NAME).exists() or what.name == LatencySession.FILE_NAME:
            if html is not page.html:
                why = "a session of latency has no picture of one run, and no summary"
                raise RequestError(f"--output: {why}")
            session = what if what.is_dir() else what.parent
            text = latency_page.html(
                LatencySession.read(session / LatencySession.FILE_NAME), session
            )
            path = output or session / PAGE_NAME
        elif (what / "run.json").exists() or (what.is_file() and what.suffix != ".json"):
            with opened_run(what) as folder:
                text = html(recorded_report.of_run(folder), folder)
            path = output or Path(f"{_name(what)}.html")
        else:
            text = html(json_report.Report.read(document), document.parent)
            path = output or document.parent / PAGE_NAME
    except HistoryError as error:
        raise RequestError(f"SESSION|RUN|PACK: {error}") from error
    try:
        whole_file.write(path, text)
    except OSError as error:
        raise options.unwritable("--output", path, error) from error
    click.echo(path)


def _name(run: Path) -> str:
    """Return the name of a run's folder, or of a pack without its endings."""
    return run.resolve().name.removesuffix(".zip").removesuffix(".tickproof")
