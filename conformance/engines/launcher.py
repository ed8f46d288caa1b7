"""Starts the reaper that starts an engine, with the pipes to both."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.isolation import Isolation, Level, other_user
from tickproof.conformance.engines.workspace import Workspace

_REAPER: Final = Path(__file__).with_name("reaper.py")
#: Says to the processes of the kit where its broker is, with a password: no engine's business.
BROKER_VARIABLE: Final = "TICKPROOF_BROKER"


def launch(
    command: list[str],
    run_id: str,
    workspace: Workspace,
    isolation: Isolation,
    ports: Sequence[int] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> tuple[subprocess.Popen[bytes], dict[str, int]]:
    """Start ``command`` below a reaper; return the reaper and descriptors by name.

    ``ports``: those to listen on in a sandbox. ``variables`` are added to its environment. stdin,
    stdout, stderr: the engine's. control, status: to and from the reaper. wake, waker: the two
    ends of a pipe of the kit's own. All are non-blocking, and the caller closes them.
    """
    control_read, control_write = os.pipe()
    status_read, status_write = (end.detach() for end in socket.socketpair())
    wake_read, wake_write = os.pipe()
    interpreter = [sys.executable, "-I", "-S", str(_REAPER)]
    # pytest names the scenario in one of its own.
    unwanted = (process_table.RUN_VARIABLE, BROKER_VARIABLE, "PYTEST_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
    environment |= {"TMPDIR": str(workspace.tmp), **variables}
    network = isolation.network
    spaces = [] if network is None else [network.user, *network.spaces]
    try:
        reaper = subprocess.Popen(
            [
                *interpreter,
                str(control_read),
                str(status_write),
                run_id,
                str(workspace.root),
                _level(isolation, ports),
                " ".join(map(str, spaces)),
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(control_read, status_write, *(one for one in spaces if one >= 0)),
            start_new_session=True,  # so that Ctrl-C at the terminal does not end it
            env=environment,
            cwd="/",
            bufsize=0,
        )
        if isolation.level == Level.SANDBOX:
            told = isolation.writable or isolation.unseen
            paths = [os.fsencode(path.resolve()) for path in told]
            os.write(control_write, b"".join(path + b"\0" for path in paths) + b"\0")
    except BaseException:
        for descriptor in (control_write, status_read, wake_read, wake_write):
            os.close(descriptor)
        raise
    finally:
        os.close(control_read)
        os.close(status_write)
    opened = {"control": control_write, "status": status_read}
    opened |= {"wake": wake_read, "waker": wake_write}
    # Copies: Popen's own file objects are closed here, each number has one owner.
    for name, pipe in (
        ("stdin", reaper.stdin),
        ("stdout", reaper.stdout),
        ("stderr", reaper.stderr),
    ):
        assert pipe is not None
        opened[name] = os.dup(pipe.fileno())
        pipe.close()
    for descriptor in opened.values():
        os.set_blocking(descriptor, False)
    return reaper, opened


def _level(isolation: Isolation, ports: Sequence[int]) -> str:
    """Return the level as the reaper takes it."""
    if isolation.writable:
        return "workshop"
    if isolation.level == Level.SANDBOX:
        disk = ":disk" if isolation.disk else ""
        return f"{isolation.level}:{','.join(map(str, ports))}{disk}"
    if isolation.level == Level.USER:
        return ":".join(map(str, (isolation.level, *other_user())))
    return str(isolation.level)
