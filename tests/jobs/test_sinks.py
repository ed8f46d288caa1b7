"""The sink of databases, over SQLAlchemy, on a database that needs no server."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.sinks import BadOutput, SqliteSink, SqlSink

QUERY = "select customer, n from totals order by customer"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "totals.db")
    connection.execute("create table totals (customer text, n integer)")
    yield connection
    connection.close()


def opened(folder: Path, *, sql: str = QUERY, identity: str = "customer") -> SqlSink:
    settled = "select sum(n) from totals"
    table = OutputTable(sql=sql, settled=settled, identity=[identity])
    url = f"sqlite:///{folder / 'totals.db'}"
    return SqlSink(table, url, url, folder / "job.toml", "outputs.totals")


def test_rows_that_are_committed_are_read(database: sqlite3.Connection, tmp_path: Path) -> None:
    sink = opened(tmp_path)
    try:
        assert (sink.rows(), sink.settled()) == ([], 0)
        before = sink.position()
        database.execute("insert into totals values ('b', 2), ('a', 1)")
        assert sink.rows() == []
        database.commit()
        assert sink.rows() == [
            ('["a"]', {"customer": "a", "n": 1}),
            ('["b"]', {"customer": "b", "n": 2}),
        ]
        assert sink.settled() == 3
        assert sink.position() != before
    finally:
        sink.close()


def test_what_a_dead_process_left_is_no_open_transaction(tmp_path: Path) -> None:
    file = tmp_path / "totals.db"
    sink = SqliteSink(OutputTable(sql=QUERY, identity=["customer"]), file, file, "outputs.totals")
    dies = f"""
import os, sqlite3
database = sqlite3.connect({str(file)!r})
database.execute("create table totals (customer text primary key, n integer)")
database.execute("begin")
database.execute("insert into totals values ('a', 1)")
os.abort()
"""
    assert subprocess.run([sys.executable, "-c", dies], check=False).returncode == -signal.SIGABRT
    assert (tmp_path / "totals.db-journal").stat().st_size
    assert not sink.transactions()
    sink.close()


@pytest.mark.parametrize("mode", ["delete", "truncate", "persist", "memory", "wal"])
def test_a_transaction_is_open_from_its_first_write_to_its_commit(
    mode: str, tmp_path: Path
) -> None:
    file = tmp_path / "totals.db"
    sink = SqliteSink(OutputTable(sql=QUERY, identity=["customer"]), file, file, "outputs.totals")
    assert not sink.transactions()
    writes = f"""
import sqlite3
database = sqlite3.connect({str(file)!r}, isolation_level=None)
database.execute("pragma journal_mode={mode}")
database.execute("create table totals (customer text primary key, n integer)")
a, b = (f"insert into totals values ('{{one}}', 1)" for one in "ab")
alone = "begin exclusive;" + b
for words in ("begin", a, "commit", alone, "commit;begin immediate", "rollback"):
    for one in words.split(";"):
        database.execute(one)
    print(flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", writes], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as job:
        assert job.stdin and job.stdout
        seen = []
        for at in range(6):
            assert job.stdout.readline()
            # The kit reads meanwhile, where a writer lets it.
            assert (mode != "wal" and at == 3) or sink.rows() == [] or at > 1
            seen.append(sink.transactions())
            job.stdin.write(b"\n")
            job.stdin.flush()
    assert [len(one) for one in seen] == [0, 1, 0, 1, 1, 0]
    assert seen[4] != seen[3], "one that follows at once has a name of its own"
    sink.close()


@pytest.mark.usefixtures("database")
def test_a_query_that_fails_is_named_with_its_key(tmp_path: Path) -> None:
    sink = opened(tmp_path, sql="select customer from nowhere")
    try:
        with pytest.raises(InvalidFile, match=r"\[outputs.totals\] sql: .*nowhere"):
            sink.rows()
    finally:
        sink.close()


def test_rows_without_their_identity_are_refused(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    database.execute("insert into totals values ('a', 1)")
    database.commit()
    sink = opened(tmp_path, identity="client")
    try:
        with pytest.raises(BadOutput, match="expected the field client of identity"):
            sink.rows()
    finally:
        sink.close()


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="url: the database is not there"):
        opened(tmp_path / "missing")
