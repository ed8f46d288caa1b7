"""``tickproof new-engine`` and ``new-job``: a folder to start from."""

from __future__ import annotations

from pathlib import Path

import click

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import Command


@click.command("new-engine", cls=Command)
@click.argument("name")
@click.option(
    "--kafka/--log",
    "kafka",
    default=False,
    show_default="log",
    help="What it speaks: Kafka, or the kit's own log.",
)
@click.option(
    "--lang",
    type=click.Choice(["python", "java", "go", "node", "rust"]),
    default="python",
    show_default=True,
    help="Not each is there for each transport yet.",
)
@click.option(
    "--out", type=options.FOLDER, default=Path(), help="Where the folder NAME goes. Default: here."
)
def new_engine(name: str, kafka: bool, lang: str, out: Path) -> None:
    """Write a folder NAME with an engine that passes tier 0.

    To make your own of it.
    """
    from tickproof.conformance.engines import starters

    made = starters.write(name, "kafka" if kafka else "log", lang, out)
    for path in sorted(made.parent.iterdir()):
        click.echo(path)
    click.echo(f"now: tickproof run {made} --tier 0")


@click.command("new-job", cls=Command)
@click.argument("name")
@click.option(
    "--spark/--python",
    default=False,
    help="PySpark, Structured Streaming by foreachBatch; or a consumer in Python, the default.",
)
@click.option(
    "--out", type=options.FOLDER, default=Path(), help="Where the folder NAME goes. Default: here."
)
def new_job(name: str, spark: bool, out: Path) -> None:
    """Write a folder NAME with a job in Python that passes.

    With its job.toml, an oracle and a test.
    """
    from tickproof.conformance.engines import starters

    folder = starters.write_job(name, out, "spark" if spark else "python")
    for path in sorted(folder.iterdir()):
        click.echo(path)
    click.echo(f"now: tickproof run {folder / 'job.toml'}, or pytest {folder / 'test_job.py'}")
