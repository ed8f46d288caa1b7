"""The command line ``tickproof``. Thin: every verb calls one function elsewhere.

Exit status: that of tickproof.conformance.verdicts; wrong usage 2, Ctrl-C 130.
Modules with heavy imports are imported by the verb that needs them, so that
``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import json
import secrets
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from tickproof.conformance.cli import (
    engine_argument,
    explain,
    explore,
    generate,
    host,
    latency,
    recorded,
    selftest,
)
from tickproof.conformance.errors import RequestError
from tickproof.conformance.reports import machine, style
from tickproof.conformance.verdicts import EXIT_KIT_ERROR, EXIT_OK

EXIT_INTERRUPTED = 130
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_SEED = click.IntRange(0, 2**63 - 1)


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``tickproof`` and exit with its status."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, not a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(argv, prog_name="tickproof", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        why = error.__cause__ if isinstance(error, click.Abort) else error
        said = ": ".join(part for part in ("tickproof: interrupted", str(why or "")) if part)
        click.echo(said, err=True)
        status = EXIT_INTERRUPTED
    except Exception:
        traceback.print_exc()
        click.echo("tickproof: kit-error: the kit itself broke, see above", err=True)
        status = EXIT_KIT_ERROR
    sys.exit(status if isinstance(status, int) else EXIT_OK)


def _version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"tickproof {machine.version_text()}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Print the version, and the commit in a checkout.",
)  # fmt: skip
def cli() -> None:
    """Judge stream-processing engines: exactly once, proven while processes are killed."""


@cli.command()
@click.argument("engines", nargs=-1, metavar="ENGINE...")
@click.option("--engine", "more", multiple=True, metavar="PATH", help="One more ENGINE.")
@click.option(
    "--profile",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="How many and how long runs are made; quick leaves out latency (tier 5).",
)
@click.option(
    "--tier",
    "tiers",
    type=int,
    multiple=True,
    metavar="N",
    help="Only this tier (repeat for more).",
)
@click.option("--only", multiple=True, metavar="ID[,ID...]", help="Only these requirements.")
@click.option("--seed", type=_SEED, metavar="N", help="Default: random, and printed.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tickproof-out"),
    show_default=True,
    help="Where reports and runs go.",
)
@click.option(
    "-n",
    "--parallel",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Runs at the same time. Default: one a processor.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Fixed port of the log server.")
@click.option("--quotes", type=_FILE, help="A recorded market as input: quotes.csv[.gz]")
@click.option("--orders", type=_FILE, help="... and its orders.csv[.gz]")
@click.option("--strict", is_flag=True, help="A doubtful CSV value is an error.")
@click.option(
    "--schedule", "schedules", type=_FILE, multiple=True,
    help="Play this schedule of faults instead of the suites (repeat for more).",
)  # fmt: skip
@click.option(
    "-v", "--verbose", is_flag=True, help="Show every requirement, and each run as it ends."
)
def run(
    engines: tuple[str, ...], more: tuple[str, ...], only: tuple[str, ...], seed: int | None,
    parallel: int | None, verbose: bool, **options: Any,
) -> int:  # fmt: skip
    """Judge each ENGINE: a name, a path to an engine.toml, mutant:ID or oddity:ID.

    `tickproof engines` lists the names.
    """
    if (options["quotes"] is None) != (options["orders"] is None):
        raise click.UsageError("--quotes and --orders: expected both or none")
    if options["strict"] and options["quotes"] is None:
        raise click.UsageError("--strict: expected together with --quotes and --orders")
    if options["schedules"] and (options["tiers"] or only or options["quotes"]):
        raise click.UsageError("--schedule: expected without --tier, --only and --quotes")
    if options["port"] is not None and (parallel or 1) > 1:
        raise click.UsageError("--port: expected -n 1, because one run has the port at a time")
    from tickproof.conformance.requirements import registry
    from tickproof.conformance.session import run_command
    from tickproof.conformance.session.request import Request
    from tickproof.conformance.suites import schedules

    known = registry.load()
    ids = tuple(dict.fromkeys(id_.strip().upper() for o in only for id_ in o.split(",") if id_))
    ids = (schedules.REQUIREMENT,) if options["schedules"] else ids
    try:
        selected = run_command.select(known, options["tiers"], ids, options["profile"])
        if options["port"] is not None:
            run_command.check_port(options["port"])
        specs = engine_argument.load([*engines, *more], list(known), options["out"])
        run_command.check_schedules(specs, options["schedules"])
        run_command.check_out(options["out"])
        console = style.console()
        if options["quotes"] is not None:
            run_command.check_market(
                options["quotes"], options["orders"], options["strict"], console
            )  # fmt: skip
    except RequestError as error:
        raise click.UsageError(str(error)) from error
    request = Request(
        only=ids,
        seed=secrets.randbelow(2**32) if seed is None else seed,
        workers=parallel or (1 if options["port"] else machine.usable_cpus()),
        **options,
    )
    console.print(Text(f"seed {request.seed}, profile {request.profile}", style="dim"))
    return run_command.judge_all(specs, selected, request, console, verbose=verbose)


@cli.command()
def engines() -> None:
    """List the engines that come with the kit."""
    from tickproof.conformance.engines import spec
    from tickproof.conformance.resources import fixtures

    table = Table(box=None, pad_edge=False)
    for column in ("engine", "version", "language", "engine.toml"):
        table.add_column(column, overflow="fold")
    for engine in spec.available(fixtures()):
        table.add_row(*map(Text, (engine.name, engine.version, engine.language, str(engine.path))))
    style.console().print(table)


@cli.command()
@click.option("--family", multiple=True, metavar="NAME", help="PR, SL, ST, MS, EO, DL, BP")
@click.option("--tier", type=int, multiple=True, metavar="N")
@click.option("--json", "as_json", is_flag=True, help="As a JSON list.")
def requirements(family: tuple[str, ...], tier: tuple[int, ...], as_json: bool) -> int:
    """List the requirements of the registry."""

    from tickproof.conformance.requirements import registry

    families = {name.upper() for name in family}
    unknown = sorted(families - registry.FAMILIES.keys())
    if unknown:
        expected = ", ".join(registry.FAMILIES)
        raise click.UsageError(f"--family: expected one of {expected}; got {', '.join(unknown)}")
    chosen = [
        requirement
        for requirement in registry.load().values()
        if (not families or requirement.family in families)
        and (not tier or requirement.tier in tier)
    ]
    if as_json:
        click.echo(json.dumps([requirement.model_dump() for requirement in chosen], indent=2))
        return EXIT_OK
    table = Table(box=None, pad_edge=False)
    for column in ("requirement", "tier", "level", "title"):
        table.add_column(column, no_wrap=column != "title")
    for requirement in chosen:
        row = (requirement.id, f"T{requirement.tier}", requirement.level, requirement.title)
        table.add_row(*map(Text, row))
    style.console().print(table)
    return EXIT_OK


@cli.group()
def bench() -> None:
    """Measure the kit itself, or engines side by side."""


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def kit(as_json: bool) -> None:
    """Measure log server, recorder, checker, generators and memory on this machine."""
    from tickproof.conformance.bench import kit as benchmark

    benchmark.report(style.console(), as_json)


@bench.command("engines")
@click.argument("names", nargs=-1, metavar="ENGINE...")
@click.option(
    "--app",
    "apps",
    default="passthrough,count,market-spread",
    show_default=True,
    metavar="APP[,APP...]",
    help="What is measured.",
)
@click.option(
    "--messages",
    type=click.IntRange(1_000, 2**32),
    default=20_000_000,
    show_default=True,
    metavar="N",
    help="Input of each steady run.",
)
@click.option(
    "--symbols",
    type=click.IntRange(1),
    default=350,
    show_default=True,
    metavar="N",
    help="Symbols of the market.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=2,
    show_default=True,
    metavar="N",
    help="Workers of each engine.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="Of so many rounds the median is shown.",
)
@click.option(
    "--kill",
    "kills",
    default="worker,engine",
    show_default=True,
    metavar="WHOM[,WHOM]",
    help="Whose deaths are measured: worker, engine, or none.",
)
@click.option(
    "--pace",
    type=click.IntRange(100),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Records a second of a run with a kill.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Length of the input of a run with a kill, by its pace.",
)
@click.option("--seed", type=_SEED, default=1, show_default=True, metavar="N")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    show_default=True,
    default=Path("tickproof-out/bench"),
    help="Where bench.json and runs go.",
)
@click.option("--keep", is_flag=True, help="Keep the folders of all runs.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def bench_engines(
    names: tuple[str, ...], apps: str, kills: str, out: Path, keep: bool, as_json: bool,
    **numbers: Any,
) -> int:  # fmt: skip
    """Measure each ENGINE in turn: rate, processor time, memory, state, time to recover."""
    from tickproof.conformance.bench.engines import plan, session
    from tickproof.conformance.requirements import registry

    specs = engine_argument.load(names, list(registry.load()), out)
    chosen = plan.Plan(
        apps=_listed("--app", apps, plan.APPS),
        kills=() if kills == "none" else _listed("--kill", kills, plan.TARGETS, "none"),
        **numbers,
    )
    try:
        session.check(specs, chosen, out)
    except RequestError as error:
        raise click.UsageError(str(error)) from error
    return session.bench(
        specs, chosen, out, keep=keep, as_json=as_json, console=style.console()
    )  # fmt: skip


def _listed(option: str, text: str, known: Sequence[str], *more: str) -> tuple[Any, ...]:
    """Return the parts of a list with commas, none twice; each has to be known."""
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if unknown := [part for part in parts if part not in known]:
        expected = ", ".join([*known, *more])
        raise click.UsageError(f"{option}: expected some of {expected}; got {unknown[0]!r}")
    return parts


cli.add_command(explore.explore)
cli.add_command(generate.generate)
cli.add_command(host.host)
cli.add_command(latency.latency)
cli.add_command(latency.profiles)
cli.add_command(selftest.selftest)
cli.add_command(recorded.check)
cli.add_command(explain.explain)
cli.add_command(recorded.pack)
cli.add_command(recorded.replay)

if __name__ == "__main__":
    main()
