"""``tickproof bench``: measures the kit, and engines side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import style

_MOST_WORKERS: Final = 1024


@click.group()
def bench() -> None:
    """Measure the kit itself, or engines side by side."""


@bench.command(cls=Command)
@options.as_json
def kit(as_json: bool) -> None:
    """Measure the parts of the kit on this machine.

    Log server, recorder, checker, generators and memory.
    """
    from tickproof.conformance.performance import kit as benchmark

    benchmark.report(style.console(), as_json)


@bench.command("engines", cls=Command)
@click.argument("names", nargs=-1, metavar="ENGINE...", shell_complete=completion.engines)
@click.option(
    "--app",
    "apps",
    default="passthrough,count,market-spread",
    show_default=True,
    metavar="APP[,APP...]",
    callback=options.listed,
    help="What is measured.",
)
@options.number("--messages", click.IntRange(1_000, 2**32), 20_000_000, "Input of each steady run.")
@click.option(
    "--keys",
    default="10000",
    show_default=True,
    metavar="N[,N...]",
    callback=options.whole_numbers("keys", 2**32, "350,10000"),
    help="Keys of count. Of several, latency and deaths are measured with the first.",
)
@options.number("--symbols", click.IntRange(1), 350, "Symbols of the market.")
@click.option(
    "--workers",
    default="2",
    show_default=True,
    metavar="N[,N...]",
    callback=options.whole_numbers("workers", _MOST_WORKERS, "1,2,4"),
    help="Workers of each engine. Of several, latency and deaths are measured with the first.",
)
@options.number(
    "--rounds", click.IntRange(1, 100), 1, "Rounds; the median of all of them is shown."
)
@click.option(
    "--kill",
    "kills",
    default="worker,engine",
    show_default=True,
    metavar="WHOM[,WHOM]",
    callback=options.listed,
    help="Whose deaths are measured: worker, engine, or none.",
)
@click.option(
    "--latency/--no-latency", default=True, show_default=True, help="Measure latency, too."
)
@options.number(
    "--pace", click.IntRange(100), 20_000, "Records a second where latency or a death is measured."
)
@options.number("--seconds", click.FloatRange(1), 30.0, "Length of that input.")
@options.seed()
@options.out("tickproof-out/bench", "bench.json and runs go")
@click.option("--keep", is_flag=True, help="Keep the folders of all runs.")
@options.as_json
def bench_engines(
    names: tuple[str, ...],
    apps: tuple[str, ...],
    kills: tuple[str, ...],
    out: Path,
    keep: bool,
    as_json: bool,
    **numbers: Any,
) -> int:
    """Measure each ENGINE in turn, on the same inputs.

    Rate, costs, memory, state, latency, and time to recover.
    """
    with loading():
        from tickproof.conformance.performance import bench, bench_plan
        from tickproof.conformance.session import out_folder

    specs = options.load_engines(names, out)
    chosen = bench_plan.Plan(
        apps=_known("--app", apps, bench_plan.APPS),
        kills=() if kills == ("none",) else _known("--kill", kills, bench_plan.TARGETS, "none"),
        **numbers,
    )
    bench.check(specs, chosen, out)
    console = style.console()
    with out_folder.held(out):
        return bench.bench(specs, chosen, out, keep=keep, as_json=as_json, console=console)


def _known(
    option: str, parts: tuple[str, ...], known: Sequence[str], *more: str
) -> tuple[Any, ...]:
    """Return the parts of a list; each has to be known."""
    if unknown := [part for part in parts if part not in known]:
        expected = ", ".join([*known, *more])
        raise click.UsageError(f"{option}: expected some of {expected}; got {unknown[0]!r}")
    return parts
