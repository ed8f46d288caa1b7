"""``tickproof host``: look at this host, say what would tune it, run a command pinned."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from tickproof.conformance.cli import options
from tickproof.conformance.report import style
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_OK, EXIT_UNKNOWN, EXIT_USAGE

_LEVEL = click.Choice(["P0", "P1", "P2"], case_sensitive=False)
_COUNT = click.IntRange(0, 65536)


@click.group()
def host() -> None:
    """Look at this host, and tune it for runs of latency."""


@host.command()
@click.option("--level", type=_LEVEL, default="P2", show_default=True, help="Probes up to this.")
@options.as_json
def check(level: str, as_json: bool) -> int:
    """Probe this host: path, value, what is wanted. Changes nothing, needs no privilege.

    Exit status: 0 all OK up to the level; 1 some NOT_OK; 3 none NOT_OK, but some
    UNOBSERVABLE, which is never taken for OK.
    """
    from tickproof.conformance.hosts import table
    from tickproof.conformance.hosts.attestation import attest
    from tickproof.conformance.hosts.cores import assign
    from tickproof.conformance.hosts.model import Status

    cores = assign()
    named = {} if cores.shared else {"kit_cores": cores.kit, "engine_cores": cores.engine}
    attested = attest(level, **named)
    if as_json:
        click.echo(json.dumps(attested.to_json(), indent=2))
    else:
        table.show(attested, style.console())
    found = {reading.status for reading in attested.problems()}
    if Status.NOT_OK in found:
        return EXIT_FAIL
    return EXIT_UNKNOWN if found else EXIT_OK


@host.command()
@click.option("--kit", type=_COUNT, default=0, metavar="N", help="Cores of the kit. 0: as fits.")
@click.option("--engine", type=_COUNT, default=0, metavar="N", help="Cores of the engine.")
@options.as_json
def plan(kit: int, engine: int, as_json: bool) -> int:
    """Print what would tune this host for a run, and how to undo it. Changes nothing."""
    from tickproof.conformance.hosts import plan as planning
    from tickproof.conformance.hosts import table
    from tickproof.conformance.hosts.model import HostError

    try:
        made = planning.plan(kit, engine)
    except HostError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        click.echo(json.dumps(asdict(made), indent=2))
    else:
        table.show_plan(made, style.console())
    return EXIT_OK


@host.command(context_settings={"allow_interspersed_args": False})
@click.option("--cores", metavar="LIST", help="Run on these cores only, such as 2-3,6.")
@click.option("--policy", type=click.Choice(["other", "fifo", "rr"]), help="Of the scheduler.")
@click.option("--priority", type=int, metavar="N", help="1 to 99, with fifo or rr.")
@click.option("--lock", is_flag=True, help="Let the command lock all its memory.")
@click.option("--strict", is_flag=True, help="Do not start what could not be set as asked.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def pin(
    cores: str | None,
    policy: str | None,
    priority: int | None,
    lock: bool,
    strict: bool,
    command: tuple[str, ...],
) -> int:
    """Run a command pinned, as far as allowed.

    What was not, and why, is said on stderr. The command replaces this process, so its exit status
    is the one you see. What is set holds for all that it starts. No wrapper can lock the memory of
    a command: --lock raises the limit, and the command has to call mlockall itself.

    Exit status 2, before anything runs: wrong usage, no such command, and with --strict
    what could not be set.
    """
    from tickproof.conformance.hosts import pin
    from tickproof.conformance.hosts.model import HostError

    try:
        pinning = pin.requested(cores, policy, priority, lock)
        path = pin.program(command)
        refused = pin.apply(pinning)
        notes = [f"not set: {text}" for text in refused] + [pin.LOCK_NOTE] * lock
        for note in notes:
            click.echo(f"tickproof: {note}", err=True)
        if refused and strict:
            click.echo(f"tickproof: --strict: {command[0]} was not started", err=True)
            return EXIT_USAGE
        pin.exec_command(path, command)
    except HostError as error:
        raise click.UsageError(str(error)) from error
    return EXIT_OK
