"""``tickproof survey``: several engines, several seeds, one site."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import click

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import style

#: A random first seed leaves room for the others.
_FIRST: Final = 2**32


@click.command(cls=Command)
@click.argument("engines", nargs=-1, metavar="ENGINE...", shell_complete=completion.engines)
@options.number("--seeds", click.IntRange(1, 100), 3, "Judge each engine with so many seeds.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 101),
    metavar="N",
    help="The first seed; the others follow it. Default: random, and printed.",
)
@options.secret
@click.option(
    "--profile",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="How many and how long runs are made; quick leaves out latency (tier 5).",
)
@options.tiers
@options.only("Only these requirements.")
@options.number("--confirm", click.IntRange(0, 1000), 10, "Replay each failure so many times.")
@options.number(
    "--measure", click.IntRange(0, 100), 1, "Measure rate and latency in so many rounds."
)
@options.out("tickproof-out/survey", "the pages, reports, runs and packs go")
@options.parallel
def survey(
    engines: tuple[str, ...],
    seeds: int,
    seed: int | None,
    secret: str,
    profile: str,
    tiers: tuple[int, ...],
    only: tuple[str, ...],
    confirm: int,
    measure: int,
    out: Path,
    parallel: int | None,
) -> int:
    """Judge engines with several seeds, and write pages.

    They show the promises that each kept, and each failure with how often it came again. ENGINE as
    in `tickproof run`. The pages are in site, which any host can serve, and survey.json holds the
    same as data. The exit status is the worst of `tickproof run` for any of them.
    """
    with loading():
        from tickproof.conformance.performance.survey import command
        from tickproof.conformance.session import out_folder, run_command
        from tickproof.conformance.session.request import Request

    request = Request(
        out=out,
        secret=secret,
        profile=profile,
        tiers=tiers,
        only=only,
        workers=parallel or 0,
        confirm=confirm,
    )
    first = secrets.randbelow(_FIRST) if seed is None else seed
    console = style.console()
    selected = run_command.select(request)
    specs = options.load_engines(engines, out, protected=True)
    run_command.check(request, specs, console)
    with out_folder.held(out):
        return command.run(specs, selected, request, range(first, first + seeds), measure, console)
