"""``tickproof kafka``: the broker that engines are judged on, for people."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_OK


@click.group()
def kafka() -> None:
    """Start and stop a Kafka broker of your own. Judging needs none: it brings one."""


@kafka.command(cls=Command)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: one that is free.")
@click.option(
    "--transactions",
    type=click.Choice(["0", "2"]),
    default="2",
    show_default=True,
    help="Protocol of transactions: 2 is KIP-890, 0 the one before it.",
)
@options.as_json
def start(port: int, transactions: str, as_json: bool) -> int:
    """Start a broker that stays until `tickproof kafka stop`.

    Its address is printed. It listens on 127.0.0.1 only, and forgets its topics when it ends.
    """
    from tickproof.conformance.kafka import standing

    found = standing.start(kit_port=port, transaction_version=int(transactions))
    _show(found, as_json)
    return EXIT_OK


@kafka.command(cls=Command)
def stop() -> int:
    """End the broker that `tickproof kafka start` started, and no other."""
    from tickproof.conformance.kafka import standing

    found = standing.stop()
    click.echo("no broker runs" if found is None else f"stopped {found.address.kit}")
    return EXIT_OK


@kafka.command(cls=Command)
@options.as_json
def status(as_json: bool) -> int:
    """Print the address of the broker that runs. Exit status 1 where none does."""
    from tickproof.conformance.kafka import standing

    found = standing.status()
    _show(found, as_json)
    return EXIT_FAIL if found is None else EXIT_OK


@kafka.command(cls=Command)
def fetch() -> int:
    """Bring the broker's jars now: 46 files, 44 MB.

    No later start needs a network then.
    """
    from tickproof.conformance.kafka import jars

    click.echo(jars.bring(jars.load(jars.BROKER)))
    return EXIT_OK


def _show(found: object, as_json: bool) -> None:
    """Print where a broker is."""
    from tickproof.conformance.kafka.standing import Standing

    if as_json:
        click.echo(json.dumps(asdict(found) if isinstance(found, Standing) else None))
    elif isinstance(found, Standing):
        click.echo(f"{found.address.kit} (process {found.pid})")
    else:
        click.echo("no broker runs")
