"""``tickproof engines`` and ``tickproof requirements``: what the kit comes with."""

from __future__ import annotations

import json

import click
from rich.table import Table
from rich.text import Text

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.report import style
from tickproof.conformance.verdicts import EXIT_OK


@click.command(cls=Command)
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


@click.command(cls=Command)
@click.option("--family", multiple=True, metavar="NAME", help="Only this family, as EO.")
@options.tiers
@click.option("--json", "as_json", is_flag=True, help="As a JSON list.")
def requirements(family: tuple[str, ...], tiers: tuple[int, ...], as_json: bool) -> int:
    """List the requirements of the registry."""
    from tickproof.conformance.suites import registry

    families = {name.upper() for name in family}
    unknown = sorted(families - registry.FAMILIES.keys())
    if unknown:
        expected = ", ".join(registry.FAMILIES)
        raise click.UsageError(f"--family: expected one of {expected}; got {', '.join(unknown)}")
    chosen = [
        requirement
        for requirement in registry.load().values()
        if (not families or requirement.family in families)
        and (not tiers or requirement.tier in tiers)
    ]
    if not chosen:
        raise click.UsageError("--family and --tier: no requirement is in both")
    if as_json:
        click.echo(json.dumps([requirement.to_json() for requirement in chosen], indent=2))
        return EXIT_OK
    table = Table(box=None, pad_edge=False)
    for column in ("requirement", "tier", "level", "title"):
        table.add_column(column, no_wrap=column != "title")
    for requirement in chosen:
        row = (requirement.id, f"T{requirement.tier}", requirement.level, requirement.title)
        table.add_row(*map(Text, row))
    style.console().print(table)
    return EXIT_OK
