"""What an engine does once before a session: build, fill caches. ``prepare`` of engine.toml."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.output_streams import StderrLog
from tickproof.conformance.engines.reaped_program import ReapedProgram
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.text import shown

LIMIT_S: Final = 600.0
#: The folder is $0, the rest the command.
_IN_ITS_FOLDER: Final = 'cd "$0" && exec "$@" 2>&1'


def prepare(spec: EngineSpec, output: Path, limit_s: float = LIMIT_S) -> None:
    """Run an engine's ``prepare``, outside of any isolation; all that it prints goes to a file.

    Nothing that it starts outlives the call. Raises InvalidFile where it takes longer than
    ``limit_s``, or ends with a status that is not 0; OSError for the file.
    """
    command = spec.preparation()
    if not command:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    log, workspace = StderrLog(output), Workspace()
    try:
        program = ReapedProgram(
            ["/bin/sh", "-c", _IN_ITS_FOLDER, str(spec.path.parent), *command],
            uuid.uuid4().hex,
            workspace,
            log.write,
        )
        try:
            status = program.wait(limit_s)
        finally:
            program.kill()
    finally:
        workspace.remove()
        log.close()
    ended = f"still running after {limit_s:g} s" if status is None else _named(status)
    if ended:
        expected = (
            f"[{spec.table}] prepare: expected status 0, got: {ended}; its output is {output}"
        )
        lines = [expected, *(shown(line, 500) for line in log.tail())]
        raise InvalidFile(spec.path, ["\n  ".join(lines)])


def _named(status: int) -> str:
    """Say how a process ended, "" for status 0."""
    if status < 0:
        return f"signal {signal.Signals(-status).name}"
    return f"status {status}" if status else ""
