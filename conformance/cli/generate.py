"""``tickproof generate``: input streams into files of framed records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tickproof.conformance.cli.options import (
    FILE,
    FOLDER,
    READING,
    Decorator,
    reading,
    refuse_given,
    spark,
)
from tickproof.conformance.errors import SparkNotStarted
from tickproof.conformance.history import json_lines
from tickproof.conformance.report import style
from tickproof.generators.choices import EVENT_TIMES, KEY_SHAPES
from tickproof.generators.reading import MissingSide, Reading, Ties

_COUNT = click.IntRange(0, 2**32)
_SHARE = click.FloatRange(0, 1)


@click.group()
def generate() -> None:
    """Write input streams.

    The same options give the same bytes, on any machine.
    """


def _options(*options: Decorator) -> Decorator:
    """Return several options as one decorator, in the order in which help shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_output = _options(
    click.option(
        "--out",
        type=click.Path(dir_okay=False, path_type=Path),
        required=True,
        help="File to write.",
    ),
    click.option(
        "--messages",
        "--count",
        "messages",
        type=_COUNT,
        default=1_000_000,
        show_default=True,
        help="How many records.",
    ),
    click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=1, show_default=True),
)

_market = _options(
    _output,
    click.option("--symbols", type=int, default=350, show_default=True),
    click.option(
        "--rate",
        type=int,
        default=1_000_000,
        show_default=True,
        help="Messages a second on the time axis of the records.",
    ),
    click.option(
        "--start-ns",
        type=int,
        default=1_704_205_800_000_000_000,
        show_default=True,
        help="Time of the first record.",
    ),
    click.option(
        "--hot-share",
        type=_SHARE,
        default=0.8,
        show_default=True,
        help="Share of records on the hot symbols.",
    ),
    click.option(
        "--hot-symbols",
        type=_SHARE,
        default=0.2,
        show_default=True,
        help="Share of symbols that are hot.",
    ),
    click.option(
        "--reject-one-in",
        type=int,
        default=70_000,
        show_default=True,
        help="One order in N is rejected (0: none).",
    ),
    click.option(
        "--probe-one-in",
        type=int,
        default=0,
        show_default=True,
        help="One order in N is a probe that is always rejected (0: none).",
    ),
    click.option("--crossed", is_flag=True, help="Allow crossed quotes."),
    click.option("--edges", is_flag=True, help="Odd symbols, quotes, sizes and ids among them."),
    click.option("--falling-ids", is_flag=True, help="With --edges: some ids of orders fall."),
    click.option(
        "--event-times",
        type=click.Choice(EVENT_TIMES),
        default="rising",
        show_default=True,
        help="limits: 0 and 2^64-1.",
    ),
)


@generate.command()
@_market
def quotes(out: Path, **options: Any) -> None:
    """NBBO quotes alone, 52-byte payloads, with universe.json."""
    _write_market("write_quotes", out, options)


@generate.command()
@_market
def orders(out: Path, **options: Any) -> None:
    """Orders alone, 52-byte payloads, with universe.json."""
    _write_market("write_orders", out, options)


@generate.command()
@_market
@click.option(
    "--from-csv",
    type=FILE,
    nargs=2,
    metavar="QUOTES ORDERS",
    help="Read a recorded market instead: CSV, packed or not, or Parquet.",
)
@reading
def market(
    out: Path,
    from_csv: tuple[Path, Path] | None,
    strict: bool,
    missing_side: MissingSide | None,
    ties: Ties,
    **options: Any,
) -> None:
    """Quotes and orders in one agreed order, with universe.json."""
    if from_csv is None:
        refuse_given(READING, "expected together with --from-csv")
        _write_market("write_market", out, options)
        return
    _only_csv_options(
        "messages",
        "seed",
        "symbols",
        "rate",
        "start_ns",
        "hot_share",
        "hot_symbols",
        "reject_one_in",
        "probe_one_in",
        "crossed",
        "edges",
        "falling_ids",
        "event_times",
    )
    from tickproof.conformance.report.market import market_notes
    from tickproof.generators.csv_market import write_market_csv

    with _writing(out, None) as progress:
        how = Reading(strict, missing_side, ties)
        read = write_market_csv(*from_csv, out, progress, how)
    market_notes(style.console(), read)


@generate.command()
@_output
@click.option(
    "--app",
    type=click.Choice(["double", "count"]),
    default="double",
    show_default=True,
    help="double: distinct integers. count: keys and values.",
)
@click.option("--keys", type=int, default=1000, show_default=True, help="count: how many keys.")
@click.option(
    "--hot-share",
    type=_SHARE,
    default=0.8,
    show_default=True,
    help="count: share of records on the hot keys.",
)
@click.option(
    "--hot-keys",
    type=_SHARE,
    default=0.2,
    show_default=True,
    help="count: share of keys that are hot.",
)
@click.option("--edge-keys", is_flag=True, help="count: keys such as 0 and 2^64-1 among them.")
@click.option("--wrap", is_flag=True, help="count: values that wrap the totals.")
@click.option(
    "--key-shape",
    type=click.Choice(KEY_SHAPES),
    default="spread",
    show_default=True,
    help="count: how keys lie among all 64-bit numbers.",
)
@click.option("--from-csv", type=FILE, metavar="FILE", help="count: read a CSV with key,value.")
def numbers(
    out: Path, messages: int, seed: int, app: str, from_csv: Path | None, **keyed: Any
) -> None:
    """Input of the apps double and count."""
    from tickproof.generators import files
    from tickproof.generators.numbers import KeyedParams

    if from_csv is not None:
        _only_csv_options("messages", "seed", *keyed)
        from tickproof.generators.csv_keyed import read_keyed

        with _writing(out, None) as progress:
            files.write_chunks([read_keyed(from_csv)], out, progress)
        return
    if app == "double":
        _only_for("--app count", *keyed)
        with _writing(out, messages) as progress:
            files.write_numbers(messages, out, progress, seed=seed)
        return
    with _writing(out, messages) as progress:
        files.write_keyed(KeyedParams(seed=seed, **keyed), messages, out, progress)


@generate.command()
@click.argument("recipe", type=FILE, metavar="RECIPE")
@click.option("--out", type=FOLDER, required=True, metavar="FOLDER", help="New, or empty.")
@spark("Write on Spark; every machine of a cluster has to see FOLDER.")
def partitions(recipe: Path, out: Path, master: str | None) -> None:
    """Input of a run: the files of all partitions.

    RECIPE is a file with the JSON object `recipe` of a run's run.json, or one like it.
    """
    from tickproof.conformance import spark_check
    from tickproof.conformance.report.market import market_notes
    from tickproof.generators import recipes

    if out.exists() and any(out.iterdir()):
        raise click.UsageError(f"--out {out}: expected a new folder, or an empty one")
    try:
        asked = json_lines.loads(recipe.read_bytes())
    except ValueError as error:
        raise click.UsageError(f"RECIPE {recipe}: expected JSON: {error}") from error
    if not isinstance(asked, dict):
        raise click.UsageError(f"RECIPE {recipe}: expected a JSON object")
    try:
        full = recipes.complete(asked)
    except ValueError as error:
        raise click.UsageError(f"RECIPE {recipe}: {error}") from error
    with _writing(out, full.get("records")) as progress:
        if full["kind"] == "market-csv":
            from tickproof.generators.csv_market import read_market

            quotes, orders = Path(full["quotes"]), Path(full["orders"])
            market_notes(style.console(), read_market(quotes, orders, Reading.of(full)))
        if master is None:
            recipes.build(full, out, progress)
            return
        try:
            spark_check.generate(full, out, master, progress)
        except SparkNotStarted as error:
            raise click.UsageError(f"--spark: {error}") from error


def _write_market(writer: str, out: Path, options: dict[str, Any]) -> None:
    from tickproof.generators import files
    from tickproof.generators.market import MarketParams
    from tickproof.generators.universe import write_universe

    with _writing(out, options["messages"]) as progress:
        params = MarketParams(**options)
        getattr(files, writer)(params, out, progress)
        write_universe(params, out.with_name("universe.json"))


def _only_csv_options(*names: str) -> None:
    """Refuse options that a CSV decides, rather than pass over them in silence."""
    refuse_given(names, "not together with --from-csv")


def _only_for(what: str, *names: str) -> None:
    refuse_given(names, f"expected only with {what}")


@contextmanager
def _writing(out: Path, total: int | None) -> Iterator[Callable[[int], None]]:
    """Give the progress callback of a file or folder; a bar on a terminal, one line at the end.

    A wrong parameter or wrong data (ValueError) becomes a usage error; so does a file
    that cannot be written.
    """
    from tickproof.conformance.report.live import LiveView, bar

    done, started = 0, time.perf_counter()

    def progress(records: int) -> None:
        nonlocal done
        done = records

    view = LiveView(
        style.console(stderr=True),
        lambda: bar(out.name, done, total, time.perf_counter() - started),
    )
    try:
        with view:
            yield progress
        size = sum(path.stat().st_size for path in (out.iterdir() if out.is_dir() else [out]))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        inside = error.filename and out.is_dir() and f"{Path(error.filename).name}: "
        raise click.UsageError(f"--out {out}: {inside or ''}{error.strerror}") from error
    seconds = time.perf_counter() - started
    click.echo(f"{out}: {done:,} records, {size:,} bytes in {seconds:.1f} s")
