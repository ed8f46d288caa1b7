"""``tickproof explore``: search for a schedule of faults that an engine does not survive."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from tickproof.conformance.cli import engine_argument
from tickproof.conformance.errors import RequestError
from tickproof.conformance.reports import machine, style

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


@click.command()
@click.argument("engine", metavar="ENGINE")
@click.option(
    "--budget", type=Span(), default="10m", show_default=True,
    help="How long to search. It ends at the first failure.",
)  # fmt: skip
@click.option(
    "--shrink", "shrink_s", type=Span(), default="5m", show_default=True,
    help="How long a failure may be shrunk.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Default: random, and printed."
)  # fmt: skip
@click.option(
    "-n", "--parallel", type=click.IntRange(1, 64), metavar="N",
    help="Runs at the same time. Default: one a processor.",
)  # fmt: skip
@click.option(
    "--times", type=click.IntRange(1, 100), default=3, show_default=True, metavar="N",
    help="A smaller schedule has to fail in N of N runs.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("tickproof-out"),
    show_default=True, help="Where explore.json and the failing run go.",
)  # fmt: skip
@click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Where a failing schedule goes. Default: regressions/ beside the engine.toml that "
    "was named by its path; for other engines below --out.",
)  # fmt: skip
def explore(
    engine: str, budget: float, seed: int | None, parallel: int | None, out: Path,
    save: Path | None, **options: Any,
) -> int:  # fmt: skip
    """Search for a schedule of faults that ENGINE does not survive; shrink it and save it."""
    from tickproof.conformance.requirements import registry
    from tickproof.conformance.session import run_command

    try:
        from tickproof.conformance.explore import search
    except ImportError as error:
        raise click.UsageError(f"explore: hypothesis cannot be imported: {error}") from error

    (spec,) = engine_argument.load([engine], list(registry.load()), out)
    (folder,) = run_command.engine_folders([spec], out)
    own = Path(engine).exists()
    asked = search.Search(
        out=folder / "explore",
        save=save or (spec.path.parent if own else folder) / "regressions",
        budget_s=budget,
        seed=secrets.randbelow(2**32) if seed is None else seed,
        parallel=parallel or machine.usable_cpus(),
        **options,
    )
    console = style.console()
    console.print(Text(f"seed {asked.seed}", style="dim"))
    try:
        run_command.check_out(out)
        return search.explore(spec, asked, console)
    except RequestError as error:
        raise click.UsageError(str(error)) from error
