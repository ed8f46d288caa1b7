"""``tickproof explore``: search for a schedule of faults that an engine does not survive."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import FOLDER, Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import machine, style
from tickproof.conformance.text import command_line

if TYPE_CHECKING:
    from tickproof.conformance.explore.subject import Subject

_UNITS = {"s": 1, "m": 60, "h": 3600}


class Span(click.ParamType):
    """A length of time in seconds: 90s, 10m, 1h."""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(value))
        if match is None or float(match[1]) == 0:
            self.fail(f"expected a time such as 90s, 10m or 1h; got {value!r}", param, ctx)
        return float(match[1]) * _UNITS[match[2]]


@click.command(cls=Command)
@click.argument("engine", metavar="ENGINE", shell_complete=completion.engines)
@click.option(
    "--budget",
    type=Span(),
    default="10m",
    show_default=True,
    help="How long to search. It ends at the first failure.",
)
@click.option(
    "--shrink",
    "shrink_s",
    type=Span(),
    default="5m",
    show_default=True,
    help="How long a failure may be shrunk.",
)
@options.random_seed
@options.secret
@options.hosts
@options.parallel
@options.number(
    "--times", click.IntRange(1, 100), 3, "A smaller schedule has to fail in N of N runs."
)
@options.out("tickproof-out", "report.html, explore.json and the failing run go")
@click.option(
    "--save",
    type=FOLDER,
    metavar="DIR",
    help="Where a failing schedule goes. Default: regressions/ beside the engine.toml that "
    "was named by its path, or the job.toml; for other engines below --out.",
)
def explore(
    engine: str,
    budget: float,
    seed: int | None,
    secret: str,
    parallel: int | None,
    out: Path,
    save: Path | None,
    **given: Any,
) -> int:
    """Search for faults that ENGINE does not survive.

    Their schedule is shrunk and saved. A path to a job.toml searches a job of your own.
    """
    with loading():
        from tickproof.conformance.session import out_folder

        try:
            from tickproof.conformance.explore import search
        except ImportError as error:
            raise click.UsageError(f"explore: hypothesis cannot be imported: {error}") from error

    seed = secrets.randbelow(2**32) if seed is None else seed
    if of_job := options.names_job(Path(engine)):
        place, subject = _job(engine, out, parallel, seed)
    else:
        place, subject = _engine(engine, out, parallel, seed, secret, given["hosts"])
    asked = search.Search(
        out=place.folder / "explore",
        save=save or (place.toml.parent if Path(engine).exists() else place.folder) / "regressions",
        budget_s=budget,
        shrink_s=given["shrink_s"],
        seed=seed,
        times=given["times"],
        command=command_line(
            "explore",
            engine,
            budget=f"{budget:g}s",
            seed=seed,
            secret=None if of_job else secret,
            hosts=given["hosts"] or None,
        ),
    )
    console = style.console()
    console.print(Text(f"seed {asked.seed}", style="dim"))
    out_folder.check(out)
    # Not made before there is something to save.
    there = next(folder for folder in (asked.save, *asked.save.parents) if folder.exists())
    out_folder.check(there, "--save")
    with out_folder.held(asked.out):
        return search.explore(subject(asked.out), asked, console)


@dataclass(frozen=True)
class _Place:
    """The engine.toml or job.toml that is searched, and the folder below --out."""

    toml: Path
    folder: Path


#: Made when the folder of the search is held.
_Subject = Callable[[Path], "Subject[Any]"]


def _engine(
    name: str, out: Path, parallel: int | None, seed: int, secret: str, hosts: int
) -> tuple[_Place, _Subject]:
    with loading():
        from tickproof.conformance.engines import network
        from tickproof.conformance.explore.engine import EngineSubject
        from tickproof.conformance.session import run_command

    (spec,) = options.load_engines([name], out)
    if hosts:
        network.demand(spec.placement, spec.name)
    (folder,) = run_command.engine_folders([spec], out)
    runs = parallel or machine.runs_at_once(spec.runs_per_processor)
    subject = EngineSubject(spec, runs, seed, secret, hosts)

    def claimed(_: Path) -> EngineSubject:
        run_command.claim(folder, spec)
        return subject

    return _Place(spec.path, folder), claimed


def _job(name: str, out: Path, parallel: int | None, seed: int) -> tuple[_Place, _Subject]:
    with loading():
        from tickproof.conformance.kafka.cluster import client_library

        client_library()  # what a job needs first is named first
        from tickproof.conformance.jobs import declaration, exploring
        from tickproof.conformance.jobs.session import Session, Settings

    options.refuse_given(("secret", "hosts"), "expected for engines only, not for a job.toml")
    job = declaration.load(Path(name))

    def calm(folder: Path) -> exploring.JobSubject:
        runs = folder / "calm"
        shutil.rmtree(runs, ignore_errors=True)
        runs.mkdir()
        session = Session(job, Settings(out, seed, at_once=parallel), runs)
        return exploring.subject(job, session, parallel, seed)

    return _Place(job.path, out / job.name), calm
