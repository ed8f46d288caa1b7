"""Provenance of a run: the engine's file, and the names that must not leave the machine.

Kept in run.json under ``made_at``, so that a run can be played again and a pack of it can
leave out what was true where it was recorded. No pack holds it.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

import psutil

from tickproof import conformance

#: The key of run.json.
MADE_AT: Final = "made_at"


def provenance(engine: Path | None = None) -> dict[str, Any]:
    """Return folders (absolute paths), user, host names and addresses of this machine.

    engine: the absolute path of the engine's engine.toml.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        user = ""
    return {
        "engine": "" if engine is None else str(engine),
        "folders": {
            "cwd": str(Path.cwd()),
            "home": os.path.expanduser("~"),  # noqa: PTH111 (Path.home raises without a home)
            "kit": str(Path(conformance.__file__).parents[2]),
            "python": sys.prefix,
        },
        "user": user,
        "host": socket.gethostname(),
        "addresses": sorted(_addresses()),
    }


def _addresses() -> set[str]:
    """Return the network addresses of this machine, loopback left out."""
    found = {
        row.address.partition("%")[0] for rows in psutil.net_if_addrs().values() for row in rows
    }
    return {address for address in found if not address.startswith("127.")} - {
        "",
        "::1",
        "00:00:00:00:00:00",
    }
