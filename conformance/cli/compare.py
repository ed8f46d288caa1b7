"""``tickproof compare``: sessions held against each other."""

from __future__ import annotations

from pathlib import Path

import click

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.errors import RequestError
from tickproof.conformance.report import style


@click.command(cls=Command)
@click.argument(
    "sessions", nargs=-1, required=True, metavar="SESSION...", type=click.Path(path_type=Path)
)
@click.option("--all", "everything", is_flag=True, help="Every requirement, not what differs.")
@click.option("--only-common", is_flag=True, help="Pass over what was not judged for all of them.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 10),
    default=0.05,
    show_default=True,
    metavar="PART",
    help="By more than this a figure has to be worse.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "markdown", "html", "json"]),
    default="terminal",
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where a page or JSON goes, instead of standard output.",
)
def compare(
    sessions: tuple[Path, ...],
    everything: bool,
    only_common: bool,
    threshold: float,
    form: str,
    output: Path | None,
) -> int:
    """Hold SESSIONs against the first of them.

    Exit status 1 if one is worse, 5 if something of the first was not compared, or nothing was.
    A SESSION is the folder, or the document, of `tickproof run`, `latency` or `bench engines`.
    """
    if output is not None and form == "terminal":
        raise click.UsageError("--output: expected together with --format markdown, html or json")
    with loading():
        from tickproof.conformance.performance import comparison, comparison_words, subject
        from tickproof.conformance.performance import comparison_output as outputs
        from tickproof.conformance.report import whole_file

    subjects = [one for session in sessions for one in subject.read(session)]
    if len(subjects) < 2:
        raise RequestError(
            "SESSION: expected at least two sessions, as `tickproof compare BEFORE AFTER`, or a "
            f"bench of two engines; got {', '.join(one.where for one in subjects)} alone"
        )
    found = comparison.compare(subjects, threshold, only_common=only_common)
    status = found.status
    if form == "terminal":
        outputs.show(style.console(), found, everything=everything)
        return status
    if form == "markdown":
        text = comparison_words.markdown(found, everything=everything)
    elif form == "html":
        text = outputs.html(found, everything=everything)
    else:
        text = outputs.as_json(found)
    if output is None:
        click.echo(text, nl=False)
        return status
    try:
        whole_file.write(output, text)
    except OSError as error:
        raise options.unwritable("--output", output, error) from error
    click.echo(output)
    return status
