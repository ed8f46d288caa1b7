"""Prepare an engine once before a session: ``prepare`` of engine.toml builds, or fills caches."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tickproof.conformance.engines import isolation
from tickproof.conformance.engines.isolation import UNPROTECTED, Isolation, Level
from tickproof.conformance.engines.output_streams import StderrLog
from tickproof.conformance.engines.reaped_program import ReapedProgram
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import InvalidFile, KitStopped
from tickproof.conformance.text import say, shown

LIMIT_S: Final = 600.0
#: A command that takes longer is told of.
_SILENT_S: Final = 2.0
#: The folder is $0, the rest the command.
_IN_ITS_FOLDER: Final = 'cd "$0" && exec "$@" 2>&1'
#: The folder that the kit's packages lie in; one of it is named as it is imported.
_KIT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = ("conformance", "generators", "reference", "tickproof")
_SHOWN: Final = 5


def prepare(
    spec: EngineSpec, output: Path, limit_s: float = LIMIT_S, *, protected: bool = False
) -> None:
    """Run an engine's ``prepare``; all that it prints goes to a file.

    protected: in a sandbox, if this machine gives one, with the network, in which only the folder
    of the engine and the user's cache are written for good. Nothing that it starts outlives the
    call. One that takes long is said on standard error. Raises InvalidFile if it takes longer than
    ``limit_s``, or ends with a status that is not 0; KitStopped if it changed the kit; OSError for
    the file.
    """
    command = spec.preparation()
    if not command:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    around = UNPROTECTED
    if protected and not isolation.sandbox_obstacle():
        around = Isolation(Level.SANDBOX, writable=(spec.path.parent, *_caches()))
    before = dict(_kit())
    log, workspace = StderrLog(output), Workspace()
    try:
        program = ReapedProgram(
            ["/bin/sh", "-c", _IN_ITS_FOLDER, str(spec.path.parent), *command],
            uuid.uuid4().hex,
            workspace,
            log.write,
            around,
        )
        try:
            status = program.wait(min(_SILENT_S, limit_s))
            if status is None and limit_s > _SILENT_S:
                said = "".join(f" ({shown(line, 200)})" for line in log.tail()[-1:])
                say(f"preparing {shown(spec.name, 60)}{said}; its output is {output}")
                status = program.wait(limit_s - _SILENT_S)
        finally:
            program.kill()
    finally:
        workspace.remove()
        log.close()
    _require_unchanged(spec, before)
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


def _caches() -> list[Path]:
    """Return the folder of the user's caches, if there is one, or one can be made."""
    with contextlib.suppress(OSError, RuntimeError):  # no home
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [cache]
    return []


def _kit() -> Iterator[tuple[str, str]]:
    """Yield the name of each file of the kit's packages, with a digest, or where it points to.

    Without compiled code: other processes of the kit may write some at any time.
    """
    within = (path for package in _PACKAGES for path in (_KIT / package).rglob("*"))
    for path in (*_KIT.glob("*.py"), *within):
        if path.is_symlink():
            yield str(path.relative_to(_KIT)), str(path.readlink())
        elif path.is_file() and path.parent.name != "__pycache__":
            yield str(path.relative_to(_KIT)), hashlib.sha256(path.read_bytes()).hexdigest()


def _require_unchanged(spec: EngineSpec, before: dict[str, str]) -> None:
    """Raise KitStopped if a file of the kit is not what it was."""
    after = dict(_kit())
    changed = sorted(dict(before.items() ^ after.items()))
    if changed:
        names = ", ".join(shown(name, 200) for name in changed[:_SHOWN])
        raise KitStopped(
            f"{spec.path}: [{spec.table}] prepare: expected a kit as it was before, got "
            f"{len(changed)} files that it changed in {_KIT}: {names}; install the kit anew"
        )
