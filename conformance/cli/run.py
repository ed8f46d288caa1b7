"""``tickproof run``: judge engines."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import FILE, Command
from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import style


@click.command(cls=Command)
@click.argument("engines", nargs=-1, metavar="ENGINE...", shell_complete=completion.engines)
@click.option("--engine", "more", multiple=True, metavar="PATH", help="One more ENGINE.")
@click.option(
    "--profile",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="How many and how long runs are made; quick leaves out latency (tier 5).",
)
@options.tiers
@options.only("Only these requirements.")
@click.option(
    "--require",
    multiple=True,
    callback=options.listed,
    shell_complete=completion.requirements,
    metavar="ID|tN[,...]",
    help="What has to be judged: a requirement, or all of a tier; else exit status 5. "
    "A known gap among them is a failure.",
)
@options.random_seed
@options.secret
@options.out("tickproof-out", "reports and runs go")
@options.parallel
@click.option(
    "--isolation",
    type=click.Choice(["auto", *(level.value for level in Level)]),
    default="auto",
    show_default=True,
    help="What engines are kept from; auto: the best that this machine gives.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Fixed port of the log server.")
@click.option(
    "--kafka",
    metavar="HOST:PORT",
    callback=options.address,
    help="Judge on this cluster of one local broker, not on a broker of the kit.",
)
@options.hosts
@click.option("--quotes", type=FILE, help="A recorded market as input: its quotes ...")
@click.option("--orders", type=FILE, help="... and its orders. CSV, packed or not, or Parquet.")
@options.reading
@click.option(
    "--schedule",
    "schedules",
    type=FILE,
    multiple=True,
    help="Play this schedule of faults instead of the suites (repeatable).",
)
@click.option(
    "--confirm",
    type=click.IntRange(0, 1000),
    default=0,
    metavar="N",
    help="Replay each failure N times, and say how often it came again.",
)
@click.option("--live", is_flag=True, help="Serve a page that follows the session.")
@click.option(
    "--live-port", type=click.IntRange(0, 65535), default=0, help="Its port. Default: any free one."
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Show every requirement, and each run as it ends."
)
def run(
    engines: tuple[str, ...],
    more: tuple[str, ...],
    only: tuple[str, ...],
    require: tuple[str, ...],
    seed: int | None,
    parallel: int | None,
    verbose: bool,
    live: bool,
    live_port: int,
    **given: Any,
) -> int:
    """Judge each ENGINE, or a job of your own.

    An ENGINE is a name, a path to an engine.toml, mutant:ID or variant:ID. `tickproof engines`
    lists the names. A path to a job.toml judges a job of your own.
    """
    if jobs := [Path(one) for one in (*engines, *more) if options.names_job(Path(one))]:
        asked = given | {"only": only, "require": require, "at_once": parallel, "seed": seed}
        asked["live"] = live_port if live else None
        return _run_jobs(jobs, [*engines, *more], verbose, asked)
    if (given["quotes"] is None) != (given["orders"] is None):
        raise click.UsageError("--quotes and --orders: expected both or none")
    if given["quotes"] is None:
        options.refuse_given(options.READING, "expected together with --quotes and --orders")
    if given["schedules"] and (given["tiers"] or only or given["quotes"]):
        raise click.UsageError("--schedule: expected without --tier, --only and --quotes")
    if given["port"] is not None and (parallel or 1) > 1:
        raise click.UsageError("--port: expected -n 1, because one run has the port at a time")
    with loading():
        from tickproof.conformance.session import run_command
        from tickproof.conformance.session.request import Request
        from tickproof.conformance.suites import schedules

    given["isolation"] = None if given["isolation"] == "auto" else Level(given["isolation"])
    request = Request(
        only=(schedules.REQUIREMENT,) if given["schedules"] else only,
        require=run_command.required(require, given["hosts"]),
        seed=secrets.randbelow(2**32) if seed is None else seed,
        workers=parallel or (1 if given["port"] else 0),
        **given,
    )
    console = style.console()
    selected = run_command.select(request)
    protected = request.isolation != Level.NONE
    specs = options.load_engines([*engines, *more], request.out, protected=protected)
    run_command.check(request, specs, console)
    console.print(Text(f"seed {request.seed}, profile {request.profile}", style="dim"))
    with _live_page(request.out, live_port if live else None, console):
        return run_command.judge_all(specs, selected, request, console, verbose=verbose)


@contextlib.contextmanager
def _live_page(out: Path, port: int | None, console: Console) -> Iterator[None]:
    """Serve the page of sessions below ``out`` meanwhile; port: None for no page, 0 for any."""
    if port is None:
        yield
        return
    from tickproof.conformance.report.live_page import beside

    beside.check()
    with beside.page(out, port) as address:
        console.print(Text(f"live page {address}"), soft_wrap=True)
        yield


#: Options that say something of a user's own job.
_OF_JOBS = (
    "only",
    "require",
    "seed",
    "out",
    "parallel",
    "isolation",
    "verbose",
    "profile",
    "schedules",
    "live",
    "live_port",
)


def _run_jobs(jobs: list[Path], named: list[str], verbose: bool, given: dict[str, Any]) -> int:
    """Judge users' own jobs, one after the other; return the worst exit status."""
    with loading():
        from tickproof.conformance.kafka.cluster import client_library

        client_library()  # what a job needs first is named first
        from tickproof.conformance.jobs import declaration, session
        from tickproof.conformance.jobs.requirements import JB
        from tickproof.conformance.suites import registry
        from tickproof.conformance.verdicts import worst_status

    if len(jobs) < len(named):
        raise click.UsageError("ENGINE: expected either jobs or engines in one command")
    others = click.get_current_context().params.keys() - {*_OF_JOBS, "engines", "more"}
    options.refuse_given(tuple(sorted(others)), "expected for engines only, not for a job.toml")
    if given["schedules"] and given["only"]:
        raise click.UsageError("--schedule: expected without --only: JB-SCHEDULE judges it")
    for option in ("only", "require"):
        for id_ in given[option]:
            registry.require_known(id_, f"--{option}: no requirement {id_} of a job", JB)
    loaded = [declaration.load(path) for path in jobs]
    console = style.console()
    seed = secrets.randbelow(2**32) if given["seed"] is None else given["seed"]
    console.print(Text(f"seed {seed}", style="dim"))
    settings = session.Settings(
        given["out"],
        seed,
        given["profile"],
        None if given["isolation"] == "auto" else Level(given["isolation"]),
        given["at_once"],
        given["only"],
        given["require"],
        given["schedules"],
    )
    with _live_page(settings.out, given["live"], console):
        reports = [session.run(job, settings, console, verbose=verbose) for job in loaded]
    return worst_status(report.exit_status for report in reports)
