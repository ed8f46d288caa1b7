"""What an engine does once before a session: build, fill caches. ``prepare`` of engine.toml."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from pathlib import Path
from typing import Final

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.output_streams import StderrLog
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.text import shown

LIMIT_S: Final = 600.0
_KILL_S: Final = 15.0
_CHUNK: Final = 1 << 16


def prepare(spec: EngineSpec, output: Path, limit_s: float = LIMIT_S) -> None:
    """Run an engine's ``prepare``, outside of any isolation; all that it prints goes to a file.

    Nothing that it starts outlives the call. Raises InvalidFile where it cannot be run, takes
    longer than ``limit_s``, or ends with a status that is not 0; OSError for the file.
    """
    command = spec.preparation()
    if not command:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    run_id = uuid.uuid4().hex
    try:
        process = subprocess.Popen(
            command, cwd=spec.path.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, bufsize=0,
            env=os.environ | {process_table.RUN_VARIABLE: run_id},
        )  # fmt: skip
    except OSError as error:
        why = f"{shown(command[0], 300)} cannot be run: {error.strerror}"
        raise InvalidFile(spec.path, [f"[engine] prepare: {why}"]) from error
    log = StderrLog(output)
    keeper = threading.Thread(target=_keep, args=(process, log), daemon=True)
    keeper.start()
    try:
        ended = _named(process.wait(limit_s))
    except subprocess.TimeoutExpired:
        ended = f"still running after {limit_s:g} s"
    finally:
        process.kill()
        process.wait()
        mine = lambda: process_table.own(process.pid, run_id)  # noqa: E731
        process_table.kill_all(mine, lambda: True, _KILL_S)
        keeper.join(_KILL_S)
        log.close()
    if ended:
        expected = f"[engine] prepare: expected status 0, got: {ended}; its output is {output}"
        lines = [expected, *(shown(line, 500) for line in log.tail())]
        raise InvalidFile(spec.path, ["\n  ".join(lines)])


def _keep(process: subprocess.Popen[bytes], log: StderrLog) -> None:
    assert process.stdout is not None
    with process.stdout as pipe:
        while chunk := pipe.read(_CHUNK):
            log.write(chunk)


def _named(status: int) -> str:
    """Say how a process ended, "" for status 0."""
    if status < 0:
        return f"signal {signal.Signals(-status).name}"
    return f"status {status}" if status else ""
