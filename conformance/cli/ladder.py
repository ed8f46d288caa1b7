"""``tickproof ladder``: what each small feature of an engine costs."""

from __future__ import annotations

from pathlib import Path

import click

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import style


@click.command(cls=Command)
@click.argument("engine", shell_complete=completion.engines)
@options.number("--messages", click.IntRange(1_000, 2**32), 8_000_000, "Input of each run.")
@options.number("--workers", click.IntRange(1, 1024), 2, "Workers of the engine.")
@options.number(
    "--rounds", click.IntRange(1, 100), 5, "Runs of each step; four are the fewest for ratios."
)
@options.seed()
@options.out("tickproof-out/ladder", "ladder.json, report.html and runs go")
@click.option("--keep", is_flag=True, help="Keep the folders of all runs.")
def ladder(engine: str, out: Path, keep: bool, **numbers: int) -> int:
    """Measure what each small feature of ENGINE costs.

    Decoding, state, checkpoints and others, each added to those before.
    """
    with loading():
        from tickproof.conformance.performance import ladder as measuring
        from tickproof.conformance.performance.ladder_costs import Plan
        from tickproof.conformance.session import out_folder

    (spec,) = options.load_engines([engine], out)
    plan = Plan(**numbers)
    measuring.check(spec, plan, out)
    with out_folder.held(out):
        return measuring.ladder(spec, plan, out, keep=keep, console=style.console())
