"""``tickproof check``, ``replay``, ``pack``: commands on a recorded run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import RUN, RUN_OR_URI, Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.errors import HistoryError, KitStopped, RequestError, SparkNotStarted
from tickproof.conformance.report import style
from tickproof.conformance.text import command_line
from tickproof.conformance.verdicts import EXIT_KIT_ERROR, Outcome


def _digest(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[0-9a-f]{64}", text):
        raise click.UsageError(f"--root: expected 64 hexadecimal digits; got {text!r}")
    return text


@click.command(cls=Command)
@RUN_OR_URI
@options.spark("Judge on Spark: for more than one machine can hold.")
@click.option(
    "--root",
    "expected",
    metavar="DIGEST",
    callback=_digest,
    help="Refuse a run whose root is another: the digest that `run`, `check` or `pack` printed.",
)
def check(run: Path | str, master: str | None, expected: str | None) -> int:
    """Judge a recorded RUN again, from its folder or a pack of it.

    With --spark, RUN may be the URI of a folder that Spark can read, as s3a://BUCKET/RUN.
    """
    if isinstance(run, str) and master is None:
        raise click.UsageError(f"RUN: {run}: a URI needs --spark")
    with loading():
        from tickproof.conformance import spark_check
        from tickproof.conformance.history import seal
        from tickproof.conformance.report import terminal
        from tickproof.conformance.report.json_report import result
        from tickproof.conformance.session.pack import opened_run
        from tickproof.conformance.suites import registry

    known = registry.load()
    try:
        with ExitStack() as stack:
            if isinstance(run, str):
                folder, judge = stack.enter_context(spark_check.fetched(run, master or ""))
            else:
                folder = stack.enter_context(opened_run(run))
                judge = partial(_judged, folder, master)
            root = seal.root(folder)
            if expected not in (None, root):
                raise HistoryError(f"{run}: root {root or 'missing'}, expected {expected}")
            outcomes = judge()
    except HistoryError as error:
        raise click.UsageError(f"RUN: {error}") from error
    except SparkNotStarted as error:
        raise click.UsageError(f"--spark: {error}") from error
    results = [
        result(replace(outcome, run=str(run)), known.get(outcome.requirement))
        for outcome in outcomes
    ]
    if isinstance(run, str):  # a Path would take a slash of it away
        results = [one.model_copy(update={"run": run}) for one in results]
    console = style.console()
    terminal.details(console, results, None)
    terminal.root(console, root)
    return terminal.status(console, [decided.verdict for decided in results])


def _judged(folder: Path, master: str | None) -> list[Outcome]:
    from tickproof.conformance import spark_check
    from tickproof.conformance.explain import with_stories
    from tickproof.conformance.session import judging

    if master is None:
        return with_stories(judging.recheck(folder))
    return spark_check.recheck(folder, master)


@click.command(cls=Command)
@RUN
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Default: ENGINE-SCENARIO-SEED.tickproof.zip",
)
def pack(run: Path, output: Path | None) -> None:
    """Make one file of a RUN, for `check` and `replay` elsewhere.

    Nothing in it names the machine.
    """
    with loading():
        from tickproof.conformance.session.pack import writer

    try:
        made = writer.pack(run, output)
    except HistoryError as error:
        raise click.UsageError(f"RUN: {error}") from error
    except OSError as error:
        raise options.unwritable("--output", output or Path(), error) from error
    for member, word in made.kept:
        click.echo(f"warning: {member} holds {word}: the engine's own bytes, kept", err=True)
    click.echo(f"{made.path}  {made.bytes:,} bytes")
    if made.root:
        click.echo(f"root  {made.root}")


def _engine_of(run: Path, record: Mapping[str, Any]) -> str:
    """Return the engine that a recorded run was made with."""
    from tickproof.conformance.session import replay

    # Never start what a file from elsewhere names as its engine.
    path = replay.engine_of(record) if run.is_dir() else ""
    if not path:
        raise click.UsageError("ENGINE: expected an engine, because a pack does not hold one")
    if not Path(path).is_file():
        raise click.UsageError(f"ENGINE: expected an engine; that of the run is gone: {path}")
    return path


@click.command(cls=Command)
@RUN
@click.argument("engine", required=False, metavar="[ENGINE]", shell_complete=completion.engines)
@options.number(
    "--times", click.IntRange(1, 1000), 1, "Play it so many times, and say how many failed."
)
@options.out("tickproof-out", "the new runs go")
def replay(run: Path, engine: str | None, times: int, out: Path) -> int:
    """Play a RUN again: the same input, faults and seed.

    RUN is a folder or a pack; it is played on its ENGINE, or on another. Of the run of a job,
    ENGINE is a job.toml.
    """
    with loading():
        from tickproof.conformance.explain.outcomes import stimulus
        from tickproof.conformance.history import job_run
        from tickproof.conformance.history.folder import History
        from tickproof.conformance.report import replay_report, terminal
        from tickproof.conformance.session import replay, run_command
        from tickproof.conformance.session.pack import opened_run
        from tickproof.conformance.session.runs_folder import REPLAYS, runs_folder
        from tickproof.conformance.suites import registry

    known = registry.load()
    console = style.console()
    try:
        with opened_run(run) as folder:
            if job_run.is_one(folder):
                return _replay_job(run, folder, engine, times, out)
            history = History(folder)
            name = engine or _engine_of(run, history.record)
            (spec,) = options.load_engines([name], out)
            engine_then = history.record.engine
            replay_report.heading(
                console,
                f"{history.scenario}, seed {history.record.seed}",
                stimulus(history),
                f"{engine_then.name} {engine_then.version}",
                f"{spec.name} {spec.version}",
            )
            (parent,) = run_command.engine_folders([spec], out)
            run_command.claim(parent, spec)
            with runs_folder(parent / REPLAYS, history.record.seed, folder) as runs:
                found = replay.replay(
                    folder,
                    spec,
                    runs,
                    times=times,
                    reproduce=command_line("replay", run, name),
                    on_run=lambda number, found: replay_report.line(console, number, times, found),
                )
    except HistoryError as error:
        raise click.UsageError(f"RUN: {error}") from error
    except RequestError as error:
        raise click.UsageError(f"ENGINE: {error}") from error
    except KitStopped as error:
        console.print(Text(f"kit-error: {error}"), soft_wrap=True)
        return EXIT_KIT_ERROR
    replay_report.summary(console, found.then, found.now, known)
    return terminal.status(console, [one.verdict for outcomes in found.now for one in outcomes])


def _replay_job(run: Path, folder: Path, path: str | None, times: int, out: Path) -> int:
    """Play the faults of a job's run again, on the job that it was made with or on another."""
    with loading():
        from tickproof.conformance.explain import job_runs
        from tickproof.conformance.history import job_run
        from tickproof.conformance.jobs import declaration, session
        from tickproof.conformance.jobs.requirements import JB
        from tickproof.conformance.report import replay_report, terminal
        from tickproof.conformance.session.runs_folder import REPLAYS, runs_folder

    recorded, then = job_run.read(folder), job_run.verdict(folder)
    if not recorded.strikes and not recorded.changed:
        raise click.UsageError("RUN: expected a run with faults; `tickproof run` plays the others")
    # Never start what a file from elsewhere names as its job.
    if not (path or run.is_dir()):
        raise click.UsageError("ENGINE: expected a job.toml, because a pack does not hold one")
    job = declaration.load(Path(path or recorded.job))
    console = style.console()
    played = "; ".join(map(str, recorded.fired))
    replay_report.heading(console, job_runs.title(recorded), played, recorded.job_name, job.name)
    settings = session.Settings(out, recorded.seed)
    with runs_folder(out / job.name / REPLAYS, recorded.seed, folder) as runs:
        made = session.Session(job, settings, runs)
        made.reproduce = command_line("replay", run, path or recorded.job)
        now = made.replay(
            recorded, times, lambda number, found: replay_report.line(console, number, times, found)
        )
    replay_report.summary(console, then, now, JB)
    return terminal.status(console, [one.verdict for outcomes in now for one in outcomes])
