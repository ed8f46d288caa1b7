"""Where a job's output is read: the interface of sinks, a topic read committed, and SQL."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

from tickproof.conformance.errors import HistoryError, InvalidFile, KitStopped, TickproofError
from tickproof.conformance.history import plain_files
from tickproof.conformance.jobs import user_code
from tickproof.conformance.jobs.comparison import canonical
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.kafka.cluster import Cluster, client_library
from tickproof.conformance.text import shown

Row = tuple[str, dict[str, Any]]
_BATCH = 5_000
_WAIT_S = 10.0
#: A writer's lock, which lasts as long as its transaction: of the database file where it has a
#: rollback journal (sqlite.org/lockingv3.html), and of FILE-shm where it has a write-ahead log
#: (sqlite.org/walformat.html#wal_locks).
_RESERVED_BYTE, _WAL_WRITE_BYTE = 0x40000001, 120
#: The first that readers share: a writer with a rollback journal has it alone as it commits.
_SHARED_BYTE = 0x40000002
#: Where FILE-shm counts the transactions (sqlite.org/walformat.html#walidxfmt, iChange).
_WAL_COUNT_AT = 8


class BadOutput(TickproofError):
    """Output that is not what job.toml says of it; the text names where it is."""


class Sink(Protocol):
    """One output of a job in one run; ``where`` is what the job is told of it."""

    where: str
    #: What `transactions` sees, in words.
    open: str

    def take(self) -> None:
        """Read what has come; raises BadOutput."""

    def position(self) -> object:
        """Return a value that changes as output comes."""

    def whole(self) -> bool:
        """Tell whether all that was written has come: no open transaction hides some of it."""

    def rows(self, ended: bool = False) -> list[Row]:
        """Return the rows that are there, each with its identity; raises BadOutput.

        ended: the job is over, so that what is half there stays so.
        """

    def settled(self) -> int | None:
        """Return how many records of input have had their effect, None where nothing tells."""

    def transactions(self) -> frozenset[str]:
        """Return a name of its own for each transaction that is open, or for files at work."""

    def close(self) -> None:
        """Let go of it."""


def identity(table: OutputTable, value: dict[str, Any], key: str, where: str) -> str:
    """Return which row a value is; raises BadOutput if it lacks a field of its identity."""
    if not table.identity:
        return key
    if missing := [name for name in table.identity if name not in value]:
        raise BadOutput(f"{where}: expected the field {missing[0]} of identity; got {_cut(value)}")
    return canonical([value[name] for name in table.identity])


def _cut(value: object) -> str:
    return shown(value if isinstance(value, str) else canonical(value), 200)


#: Makes an object of a message and its place, None of one that is no output. Raises BadOutput.
Reader = Callable[[bytes | None, str], dict[str, Any] | None]


def reader(table: OutputTable, folder: Path) -> Reader:
    """Return what reads the messages of an output.

    Only ``decode`` leaves one out, also one without a value (null). Raises InvalidFile if it
    cannot be loaded from the folder.
    """
    name = table.decode
    decode: Callable[[Any], Any] = user_code.function(folder, name) if name else json.loads

    def read(message: bytes | None, where: str) -> dict[str, Any] | None:
        got = shown(repr(message), 100)
        try:
            value = None if message is None and not name else decode(message)
        except Exception as error:
            if name:
                said = f"{name}: {user_code.raised(error)}"
                raise BadOutput(f"{where}: {said}; the message is {got}") from error
            value = None
        if name and value is None:
            return None
        if not isinstance(value, dict):
            if name:
                got = f"{shown(repr(value), 100)} from {name}, of the message {got}"
            raise BadOutput(f"{where}: expected a JSON object; got {got}")
        return value

    return read


def dead_letter(message: bytes | None, _where: str = "") -> dict[str, Any]:
    """Return the row that a dead letter is, whatever its bytes."""
    return {"message": shown(repr(message), 1_000)}


class TopicSink:
    """A topic of JSON objects, or of bytes that ``decode`` makes objects of."""

    open = "an open transaction of the database"

    def __init__(self, table: OutputTable, topic: str, cluster: Cluster, read: Reader) -> None:
        self._table, self.where, self._cluster, self._read = table, topic, cluster, read
        kafka = client_library()
        self._end = kafka.KafkaError._PARTITION_EOF
        self._consumer = kafka.Consumer(
            {
                "bootstrap.servers": cluster.address,
                "group.id": f"{topic}-kit",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        places = [kafka.TopicPartition(topic, at, 0) for at in range(table.partitions)]
        self._consumer.assign(places)
        self._rows: list[Row] = []
        #: Where reading has come to, by partition: behind all that committed transactions wrote.
        self._reached: Counter[int] = Counter()

    def take(self) -> None:
        """Read what has come."""
        for message in self._consumer.consume(_BATCH, 0):
            if error := message.error():
                if error.code() == self._end:
                    self._reached[message.partition()] = message.offset()
                continue
            where = (
                f"topic {self.where}, partition {message.partition()}, offset {message.offset()}"
            )
            if (value := self._read(message.value(), where)) is None:
                continue
            key = (message.key() or b"").decode("utf-8", "backslashreplace")
            self._rows.append((identity(self._table, value, key, where), value))

    def position(self) -> object:
        """Return how many rows have come."""
        return len(self._rows)

    def whole(self) -> bool:
        """Tell whether reading has come to the end of each partition."""
        ends = self._cluster.ends(self.where, self._table.partitions, committed=False)
        return all(self._reached[at] >= end for at, end in enumerate(ends))

    def rows(self, ended: bool = False) -> list[Row]:
        """Return all rows, those of a partition in their order."""
        return list(self._rows)

    def settled(self) -> int | None:
        """Return None: a topic says nothing of the input."""
        return None

    def transactions(self) -> frozenset[str]:
        """Return none: the proxy knows the transactions of Kafka."""
        return frozenset()

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()


class SqliteSink:
    """Rows of a query on a SQLite file in the folder of the job's state."""

    open = "an open transaction of the database"

    def __init__(self, table: OutputTable, file: Path, job_toml: Path, where: str) -> None:
        self._table, self._file, self._toml, self._name = table, file, job_toml, where
        #: By the end of the name. Closed at the end: that ends this process's own locks, too.
        self._opened: dict[str, BufferedReader] = {}
        self._commits, self._commits_now = 0, False
        self.where = f"sqlite:///{file}"

    def take(self) -> None:
        """Do nothing: rows are read when the job stands still."""

    def position(self) -> object:
        """Return when its files changed last."""
        found = {}
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                held = os.stat(f"{self._file}{suffix}")  # noqa: PTH116
                found[suffix] = held.st_ino, held.st_mtime_ns, held.st_size
        return found

    def whole(self) -> bool:
        """Return True: a query sees all that is committed."""
        return True

    def rows(self, ended: bool = False) -> list[Row]:
        """Return the rows of the query."""
        return named_rows(self._table, self._asked(self._table.sql or "", "sql"), self._name)

    def settled(self) -> int | None:
        """Return what the query ``settled`` gives."""
        if self._table.settled is None:
            return None
        found = self._asked(self._table.settled, "settled")
        return int(next(iter(found[0].values())) or 0) if found else 0

    def _asked(self, query: str, key: str) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        with contextlib.closing(sqlite3.connect(self._file, timeout=_WAIT_S)) as database:
            try:
                cursor = database.execute(query)
                names = [one[0] for one in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            except sqlite3.Error as error:
                if "no such table" in str(error) and not _tables(database):
                    return []
                raise InvalidFile(self._toml, [f"[{self._name}] {key}: {error}"]) from error

    def transactions(self) -> frozenset[str]:
        """Return the one of the process that holds the lock of a writer, which ends with it.

        It is named by how many are over, as far as they were seen: there may be no time to look
        between two that follow each other at once.
        """
        commits = self._locked("", _SHARED_BYTE)
        self._commits += self._commits_now and not commits
        self._commits_now = commits
        if self._locked("", _RESERVED_BYTE):
            return frozenset({f"journal {self._commits}"})
        if not self._locked("-shm", _WAL_WRITE_BYTE):
            return frozenset()
        count = os.pread(self._opened["-shm"].fileno(), 4, _WAL_COUNT_AT)
        return frozenset({f"log {count.hex()}"})

    def _locked(self, suffix: str, byte: int) -> bool:
        """Tell whether another process has a byte of one of its files locked, as one who writes."""
        try:
            there = os.stat(f"{self._file}{suffix}")  # noqa: PTH116
            held = self._opened.get(suffix)
            if held is None or not os.path.samestat(os.fstat(held.fileno()), there):
                name = f"{self._file.name}{suffix}"
                self._opened[suffix] = plain_files.opened(self._file.parent, name)
                if held is not None:
                    held.close()
            # As <fcntl.h> has struct flock: type, whence, start, length, pid.
            asked = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0)
            found = fcntl.fcntl(self._opened[suffix], fcntl.F_OFD_GETLK, asked)
        except (OSError, HistoryError):
            return False  # there is none, or it is none that SQLite has made
        return struct.unpack_from("h", found)[0] != fcntl.F_UNLCK

    def close(self) -> None:
        """Close the files whose locks were looked at; each query has its own connection."""
        while self._opened:
            self._opened.popitem()[1].close()


def _tables(database: sqlite3.Connection) -> list[Any]:
    return database.execute("SELECT 1 FROM sqlite_master").fetchall()


class SqlSink:
    """Rows of a query on any database that SQLAlchemy reaches."""

    open = "an open transaction of the database"

    def __init__(
        self, table: OutputTable, kit_url: str, job_url: str, job_toml: Path, name: str
    ) -> None:
        try:
            import sqlalchemy
        except ImportError as error:
            raise KitStopped(
                "a database other than SQLite needs pip install 'tickproof[sql]'"
            ) from error
        self._table, self._toml, self._name, self.where = table, job_toml, name, job_url
        self._alchemy = sqlalchemy
        try:
            engine = sqlalchemy.create_engine(kit_url, isolation_level="AUTOCOMMIT")
            self._connection = engine.connect()
        except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
            said = shown(str(error).splitlines()[0], 200)
            raise InvalidFile(
                job_toml, [f"[{name}] url: the database is not there: {said}"]
            ) from error
        self._postgres = engine.dialect.name == "postgresql"

    def take(self) -> None:
        """Do nothing: rows are read when the job stands still."""

    def position(self) -> object:
        """Return what the database counts of transactions, or the rows themselves."""
        if self._postgres:
            counted = "select xact_commit, tup_inserted, tup_updated from pg_stat_database"
            found = self._asked(f"{counted} where datname = current_database()", "sql")
            return [one["tup_inserted"] + one["tup_updated"] for one in found]
        return self._asked(self._table.sql or "", "sql")

    def whole(self) -> bool:
        """Return True: a query sees all that is committed."""
        return True

    def rows(self, ended: bool = False) -> list[Row]:
        """Return the rows of the query."""
        return named_rows(self._table, self._asked(self._table.sql or "", "sql"), self._name)

    def settled(self) -> int | None:
        """Return what the query ``settled`` gives."""
        if self._table.settled is None:
            return None
        found = self._asked(self._table.settled, "settled")
        return int(next(iter(found[0].values())) or 0) if found else 0

    def _asked(self, query: str, key: str) -> list[dict[str, Any]]:
        errors = self._alchemy.exc
        try:
            found = self._connection.execute(self._alchemy.text(query))
            return [dict(row) for row in found.mappings()]
        except errors.ProgrammingError as error:
            if "does not exist" in str(error.orig) and "relation" in str(error.orig):
                return []  # the job has not made its table yet
            why = shown(str(error.orig).splitlines()[0], 200)
            raise InvalidFile(self._toml, [f"[{self._name}] {key}: {why}"]) from error
        except errors.SQLAlchemyError as error:
            why = shown(str(error).splitlines()[0], 200)
            raise InvalidFile(self._toml, [f"[{self._name}] {key}: {why}"]) from error

    def transactions(self) -> frozenset[str]:
        """Return those that have written something, of the clients of a PostgreSQL database."""
        if not self._postgres:
            return frozenset()
        open_ = (
            "select backend_xid::text as xid from pg_stat_activity where backend_xid is not null"
        )
        clients = "backend_type = 'client backend' and datname = current_database()"
        return frozenset(one["xid"] for one in self._asked(f"{open_} and {clients}", "sql"))

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
        self._connection.engine.dispose()


def named_rows(table: OutputTable, rows: Sequence[dict[str, Any]], where: str) -> list[Row]:
    """Return rows with their identities; raises BadOutput for one without."""
    return [(identity(table, row, "", f"[{where}]"), row) for row in rows]
