"""``tickproof latency``: does an engine answer in time? ``tickproof profiles``: by which limits."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.errors import HistoryError, InvalidFile
from tickproof.conformance.report import style
from tickproof.conformance.text import command_line

if TYPE_CHECKING:
    from rich.console import Console

_RATE = click.IntRange(1, 10_000_000)


@click.command(cls=Command)
@click.argument("engine", required=False, metavar="[ENGINE]", shell_complete=completion.engines)
@click.option(
    "--profile",
    metavar="NAME|PATH",
    shell_complete=completion.profiles,
    help="What is asked for; see tickproof profiles.",
)
@options.random_seed
@click.option(
    "--runs",
    type=click.IntRange(5, 30),
    metavar="N",
    help="Runs to begin with, instead of the profile's number.",
)
@options.out("tickproof-out/latency", "the folder of this session goes")
@click.option(
    "--anyway", is_flag=True, help="Play although the host is not as asked; that cannot pass."
)
@click.option(
    "--keep/--tidy",
    default=False,
    show_default=True,
    help="Keep the input of each run, or remove it.",
)
@click.option("--search", is_flag=True, help="Find the highest rate at which every limit holds.")
@click.option(
    "--low",
    type=_RATE,
    metavar="N",
    help="With --search: records a second. Default: an eighth of the rate.",
)
@click.option(
    "--high", type=_RATE, metavar="N", help="With --search: default is eight times the rate."
)
@click.option(
    "--again",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Decide a session again, from its folder alone.",
)
@options.as_json
def latency(
    engine: str | None, profile: str | None, again: Path | None, as_json: bool, **given: Any
) -> int:
    """Judge whether ENGINE answers in time, as a profile asks.

    ENGINE is a name, a path to an engine.toml, mutant:ID or variant:ID.
    """
    with loading():
        from tickproof.conformance.performance import latency_session

    console = style.console()
    if again is not None:
        if engine is not None or profile is not None:
            raise click.UsageError("--again: expected without ENGINE and --profile")
        try:
            return latency_session.measure_again(again, console, as_json=as_json)
        except HistoryError as error:
            raise click.UsageError(f"--again: {error}") from error
    if engine is None or profile is None:
        raise click.UsageError("expected ENGINE and --profile NAME|PATH, or --again FOLDER")
    if not given["search"] and (given["low"] or given["high"]):
        raise click.UsageError("--low, --high: expected together with --search")
    return _played(engine, profile, console, as_json=as_json, **given)


def _played(
    engine: str,
    profile: str,
    console: Console,
    *,
    as_json: bool,
    search: bool,
    runs: int | None,
    low: int | None,
    high: int | None,
    **given: Any,
) -> int:
    """Check the whole request, then play it."""
    from tickproof.conformance.latency import profiles
    from tickproof.conformance.performance import latency_session, search_session

    try:
        chosen = profiles.load(profile)
        if runs is not None:
            chosen = latency_session.with_runs(chosen, runs)
    except InvalidFile as error:
        raise click.UsageError(f"--profile: {error}") from error
    (spec,) = options.load_engines([engine], given["out"])
    seed = secrets.randbelow(2**32) if given["seed"] is None else given["seed"]
    again = command_line(
        "latency",
        engine,
        profile=profile,
        seed=seed,
        runs=runs,
        anyway=given["anyway"],
        search=search,
        low=low if search else None,
        high=high if search else None,
    )
    request = latency_session.Request(
        spec, chosen, seed, given["out"], given["anyway"], given["keep"], again
    )
    if search:
        span = search_session.span(chosen, low, high)
        return search_session.play(request, span, console, as_json=as_json)
    return latency_session.play(request, console, as_json=as_json)


@click.command(cls=Command)
@click.option("--json", "as_json", is_flag=True, help="As a JSON list.")
def profiles(as_json: bool) -> None:
    """List the profiles that come with the kit, and their limits."""
    from tickproof.conformance.latency.figures import shown_us
    from tickproof.conformance.latency.profiles import available

    found = available()
    if as_json:
        click.echo(json.dumps([profile.to_json() for profile in found], indent=1))
        return
    console = style.console()
    table = Table(box=None, pad_edge=False)
    for column in ("profile", "records/s", "limits", "host"):
        table.add_column(column, justify="right" if "/" in column else "left")
    for profile in found:
        limits = ", ".join(f"{name} {shown_us(us)}" for name, us in profile.limits.items())
        row = (profile.name, f"{profile.load.rate:,}", limits, profile.host.level)
        table.add_row(*map(Text, row))
    style.print_table(console, table)
