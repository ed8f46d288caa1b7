"""A table of a database as a sink: rows and the number of their batch in one transaction.

A crash between any two of these steps changes nothing for who reads the table:

- before the commit: nothing is there, and the batch runs again;
- committed, but Spark does not know: the batch runs again, finds its number, and writes nothing;
- a task that was taken for dead and goes on: it waits for the row of its writer, which its
  successor has locked, and finds the number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache, partial

import sqlalchemy as sa
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from sqlalchemy.dialects import postgresql, sqlite

from tickproof.reference.compiler.columns import PLACE
from tickproof.reference.sinks import writers

#: The last batch of each writer: a table beside those of its users.
DELIVERED = sa.Table(
    "tickproof_delivered",
    sa.MetaData(),
    sa.Column("writer", sa.String(200), primary_key=True),
    sa.Column("batch", sa.BigInteger, nullable=False),
)
#: What inserts a row or replaces it, by the kind of a database.
REPLACING = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


def write(
    frame: DataFrame, url: str, table: str, name: str, checkpoint: str, *, key: Sequence[str] = ()
) -> StreamingQuery:
    """Start the query that writes the rows of a frame into a table, each exactly once.

    frame: as `writers.start` has it; its columns between writer and PLACE are columns of the table,
    which exists. url: of SQLAlchemy. key: the columns, a unique key of the table, in whose row
    the last one of the frame sets its columns; without it, each row is added. It has to have the
    last key of the application: a row belongs to one writer. name: fixed for the checkpoint.
    """
    columns = tuple(frame.columns[1 : -len(PLACE)])
    if missing := [one for one in key if one not in columns]:
        raise ValueError(f"key: expected columns among {', '.join(columns)}, got {missing[0]}")
    DELIVERED.create(_engine(url), checkfirst=True)
    # What is wrong with the table is said here, and not in an executor.
    _table(url, table, columns, tuple(key))
    into = partial(deliver, url, table, columns, tuple(key))
    return writers.start(frame, name, checkpoint, into, sa.exc.OperationalError)


def deliver(
    url: str,
    table: str,
    columns: Sequence[str],
    key: Sequence[str],
    writer: str,
    batch_id: int,
    rows: list[tuple],
) -> None:
    """Write the rows of a batch, unless it is delivered."""
    insert = _table(url, table, columns, key)
    _introduce(url, writer)
    with _engine(url).begin() as connection:
        if not _is_next(connection, writer, batch_id):
            return
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        if key:  # a statement replaces no row twice
            found = list({tuple(row[one] for one in key): row for row in found}.values())
        if found:
            connection.execute(insert, found)


def _is_next(connection: sa.Connection, writer: str, batch_id: int) -> bool:
    """Note that a batch is delivered, and lock the row of its writer; False: it was before.

    RuntimeError where the row is gone: then nobody knows.
    """
    known = DELIVERED.c
    newer = (known.writer == writer) & (known.batch < batch_id)
    noted = connection.execute(DELIVERED.update().where(newer), {"batch": batch_id})
    if noted.rowcount:
        return True
    if connection.scalar(sa.select(known.batch).where(known.writer == writer)) is None:
        raise RuntimeError(f"{DELIVERED}: expected the row of writer {writer}; somebody removed it")
    return False


@lru_cache(maxsize=64)
def _introduce(url: str, writer: str) -> None:
    """Make the row of a writer: only one that is there can be locked."""
    with contextlib.suppress(sa.exc.IntegrityError), _engine(url).begin() as connection:
        connection.execute(DELIVERED.insert(), {"writer": writer, "batch": -1})


@lru_cache
def _engine(url: str) -> sa.Engine:
    """Return this process's connections to a database: Spark uses its Python workers again."""
    if url.startswith("postgresql://"):  # SQLAlchemy would look for another driver
        url = url.replace("://", "+psycopg://", 1)
    return sa.create_engine(url, pool_pre_ping=True)


@lru_cache
def _table(url: str, name: str, columns: Sequence[str], key: Sequence[str]) -> sa.Insert:
    """Return the statement that adds a row, or sets the columns of the one with its key."""
    engine = _engine(url)
    table = sa.Table(name, sa.MetaData(), autoload_with=engine)
    if not key:
        return sa.insert(table)
    kind = engine.dialect.name
    if kind not in REPLACING:
        raise ValueError(f"key: expected a database among {', '.join(REPLACING)}, got {kind}")
    insert = REPLACING[kind](table)
    others = {one: insert.excluded[one] for one in columns if one not in key}
    if not others:
        return insert.on_conflict_do_nothing(index_elements=list(key))
    return insert.on_conflict_do_update(index_elements=list(key), set_=others)
