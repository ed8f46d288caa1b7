"""``tickproof live``: a page that follows a session while it goes on."""

from __future__ import annotations

from pathlib import Path

import click

from tickproof.conformance.cli.options import FOLDER, Command
from tickproof.conformance.errors import RequestError


@click.command(cls=Command)
@click.argument("folder", type=FOLDER, default="tickproof-out", metavar="[DIR]")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Of the page. Default: any free one."
)
@click.option("--until-eof", is_flag=True, help="End when standard input ends.")
def live(folder: Path, port: int, until_eof: bool) -> None:
    """Serve a page of the newest session below DIR.

    With metrics for Prometheus. On this machine only, until Ctrl-C. Needs the extra `live`.
    """
    import asyncio

    try:
        from tickproof.conformance.report.live_page import server
    except ImportError as error:
        expected = "expected the extra live: pip install 'tickproof[live]'"
        raise RequestError(f"{error.name} is not installed; {expected}") from error

    async def serve() -> None:
        until = server.end_of_stdin() if until_eof else asyncio.Event().wait()
        await server.serve(folder, port, until, lambda url: click.echo(url))

    try:
        asyncio.run(serve())
    except OSError as error:
        raise RequestError(f"--port: {port}: {error.strerror}") from error
