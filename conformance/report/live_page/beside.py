"""The live page of a session: `tickproof live` as a process beside it."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tickproof.conformance.errors import RequestError

#: Until the page has told its readers of the end.
_END_S: Final = 5.0


def check() -> None:
    """Raise RequestError where the extra that the page needs is not installed."""
    for name in ("aiohttp", "prometheus_client"):
        if importlib.util.find_spec(name) is None:
            expected = "expected the extra live: pip install 'tickproof[live]'"
            raise RequestError(f"--live: {name} is not installed; {expected}")


@contextlib.contextmanager
def page(folder: Path, port: int) -> Iterator[str]:
    """Serve the page of the sessions below a folder meanwhile; gives its address.

    It ends with this process, however that ends. Raises RequestError where it cannot start.
    """
    command = [
        sys.executable,
        "-m",
        "tickproof",
        "live",
        str(folder),
        "--port",
        str(port),
        "--until-eof",
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    try:
        if not (address := process.stdout.readline().strip()):
            again = shlex.join(command[2:-1])
            raise RequestError(f"--live: the page did not start; {again} says why")
        yield address
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
