"""``tickproof log``: files of records as a log on which a streaming job runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import FOLDER, Command

if TYPE_CHECKING:
    from tickproof.conformance.log_server.folder_log import Address
    from tickproof.conformance.log_server.partition_files import GrowingFile


def _sizes(context: click.Context, option: click.Parameter, given: str) -> tuple[int, ...]:
    from tickproof.conformance.log_server.partition_files import MAX_PAYLOAD

    read = options.whole_numbers("payload bytes", MAX_PAYLOAD, "20,12", distinct=False)
    return read(context, option, given)


def _say(sentence: str) -> None:
    with suppress(OSError):  # nobody reads it any more: the log goes on
        click.echo(f"tickproof: {sentence}", err=True)


@click.command(cls=Command)
@click.argument("folder", type=FOLDER, metavar="FOLDER")
@click.option(
    "--output",
    "sizes",
    required=True,
    metavar="SIZE[,SIZE...]",
    callback=_sizes,
    help="Payload bytes of a record of output stream 0, 1, ...",
)
@click.option(
    "--out", type=FOLDER, help="New folder: output as s0.log, s1.log, ... Default: FOLDER/output."
)
@options.as_json
def log(folder: Path, sizes: tuple[int, ...], out: Path | None, as_json: bool) -> None:
    """Serve the files sSpP.log of FOLDER, and record output.

    It goes on until Ctrl-C. sSpP.log is partition P of input stream S: records, each a u32 size and
    its payload. What is appended while it runs is served, too. Prints host, port and token. Listens
    on this machine only, and remembers nothing when it ends: begin again with a new --out and a new
    checkpoint.
    """
    from tickproof.conformance.log_server import folder_log, partition_files

    target = out or folder / "output"

    def show(address: Address, files: Sequence[GrowingFile]) -> None:
        if as_json:
            counts = partition_files.partition_counts(files)
            click.echo(json.dumps(address._asdict() | {"out": str(target), "partitions": counts}))
        else:
            click.echo(f"{address.host} {address.port} {address.token}")

    folder_log.serve(folder, target, sizes, _say, show)
