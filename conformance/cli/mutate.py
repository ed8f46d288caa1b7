"""``tickproof mutate``: every mutant that a tool makes of an engine is judged."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import machine, style


@click.command(cls=Command)
@click.argument("engine", shell_complete=completion.engines)
@click.option(
    "--sample",
    type=click.IntRange(0),
    metavar="N",
    help="So many mutants, drawn by the seed. Default: all.",
)
@click.option(
    "--match",
    multiple=True,
    default=["*"],
    show_default=True,
    callback=options.listed,
    metavar="PATTERN[,PATTERN...]",
    help="Only these files or ids, such as 'partition.py:8*'.",
)
@options.only("Judge by these requirements.")
@click.option("--again", is_flag=True, help="Judge also what was not killed before.")
@options.seed(2**31)
@options.out("tickproof-out/mutate", "results and the summary go")
@options.parallel
def mutate(
    engine: str,
    sample: int | None,
    match: tuple[str, ...],
    only: tuple[str, ...],
    again: bool,
    seed: int,
    out: Path,
    parallel: int | None,
) -> int:
    """Make small edits of a sound ENGINE; all have to fail.

    All that a tool can make, in Python. Needs the extra `mutation`. A run that was interrupted goes
    on from its results.
    """
    from tickproof.conformance.resources import fixtures, require_checkout

    require_checkout("tickproof mutate")
    with loading():
        from tickproof.conformance.selftest.mutation import equivalents, markdown, session
        from tickproof.conformance.selftest.mutation.progress import MutantProgress
        from tickproof.conformance.session import out_folder

    (loaded,) = options.load_engines([engine], out)
    folder = loaded.path.parent
    known = equivalents.load(folder.name, fixtures())
    out = out.resolve() / folder.name
    request = session.Request(
        folder,
        out,
        seed=seed,
        only=only,
        sample=sample,
        match=match,
        again=again,
        workers=parallel or machine.runs_at_once(loaded.runs_per_processor),
        equivalent=known,
    )
    console = style.console()
    out_folder.check(out)
    with out_folder.held(out), MutantProgress(console) as progress:
        mutations, results = session.run(request, progress)
    found = markdown.summary(mutations, results, known)
    path = markdown.write(found, out)
    for case in found.stale:
        console.print(Text(f"not true: {case}"), soft_wrap=True)
    for result in (*found.survivors, *found.broken):
        console.print(Text(f"{result.fate}: {result.id}"), soft_wrap=True)
    console.print(Text(f"{found}; exit status {found.exit_status}", style="bold"), soft_wrap=True)
    console.print(Text(f"  reports     {path}, {results.path}", style="dim"), soft_wrap=True)
    return found.exit_status
