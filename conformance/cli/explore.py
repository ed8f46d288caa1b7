"""``tickproof explore``: search for a schedule of faults that an engine does not survive."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import FOLDER, Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import machine, style
from tickproof.conformance.text import command_line

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
    "was named by its path; for other engines below --out.",
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
    """Search for a schedule of faults that ENGINE does not survive; shrink it and save it."""
    with loading():
        from tickproof.conformance.engines import network
        from tickproof.conformance.session import out_folder, run_command

        try:
            from tickproof.conformance.explore import search
        except ImportError as error:
            raise click.UsageError(f"explore: hypothesis cannot be imported: {error}") from error

    (spec,) = options.load_engines([engine], out)
    if given["hosts"]:
        network.demand(spec.placement, spec.name)
    (folder,) = run_command.engine_folders([spec], out)
    own = Path(engine).exists()
    seed = secrets.randbelow(2**32) if seed is None else seed
    asked = search.Search(
        out=folder / "explore",
        save=save or (spec.path.parent if own else folder) / "regressions",
        budget_s=budget,
        seed=seed,
        secret=secret,
        parallel=parallel or machine.runs_at_once(spec.runs_per_processor),
        command=command_line(
            "explore",
            engine,
            budget=f"{budget:g}s",
            seed=seed,
            secret=secret,
            hosts=given["hosts"] or None,
        ),
        **given,
    )
    console = style.console()
    console.print(Text(f"seed {asked.seed}", style="dim"))
    out_folder.check(out)
    # Not made before there is something to save.
    there = next(folder for folder in (asked.save, *asked.save.parents) if folder.exists())
    out_folder.check(there, "--save")
    run_command.claim(folder, spec)
    with out_folder.held(asked.out):
        return search.explore(spec, asked, console)
