"""A table as a sink of the reference: a batch is there once, wherever its task died."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tickproof.conformance.errors import KitStopped
from tickproof.conformance.jobs.postgres import Postgres

sa = pytest.importorskip("sqlalchemy")
pytest.importorskip("pyspark")
table = pytest.importorskip("tickproof.reference.sinks.table")

COLUMNS, KEY = ("customer", "n"), ("customer",)
FIRST, SECOND = [("a", 1), ("b", 1), ("a", 2)], [("a", 3)]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    try:
        made = Postgres()
    except KitStopped as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give a database with a table of totals, one without a key, and the one of writers."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/totals.db"
    else:
        url = request.getfixturevalue("server").url
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE totals (customer VARCHAR(20) PRIMARY KEY, n INT)"))
        connection.execute(sa.text("CREATE TABLE history (customer VARCHAR(20), n INT)"))
    table.DELIVERED.create(engine)
    yield url
    table._engine(url).dispose()
    for one in (table._engine, table._table, table._introduce):
        one.cache_clear()
    with engine.begin() as connection:
        for name in ("totals", "history", table.DELIVERED.name):
            connection.execute(sa.text(f"DROP TABLE {name}"))
    engine.dispose()


def rows(url: str, name: str) -> list[tuple]:
    with sa.create_engine(url).connect() as connection:
        found = connection.execute(sa.text(f"SELECT customer, n FROM {name} ORDER BY 1, 2"))
        return [tuple(row) for row in found]


def deliver(
    url: str, batch_id: int, some: list[tuple], *, writer: str = "w", name="totals"
) -> None:
    key = KEY if name == "totals" else ()
    into = functools.partial(table.deliver, url, name, COLUMNS, key)
    table.writers.persistently(sa.exc.OperationalError, into, writer, batch_id, some)


def test_a_batch_that_runs_again_is_there_once(url: str) -> None:
    for batch_id, some in ((0, FIRST), (0, FIRST), (1, SECOND), (1, SECOND), (0, FIRST)):
        deliver(url, batch_id, some)
        deliver(url, batch_id, some, writer="adds", name="history")
    assert rows(url, "totals") == [("a", 3), ("b", 1)]
    assert rows(url, "history") == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]


def test_writers_do_not_know_of_each_other(url: str) -> None:
    deliver(url, 0, [("a", 1)], writer="one", name="history")
    deliver(url, 0, [("b", 1)], writer="other", name="history")
    assert rows(url, "history") == [("a", 1), ("b", 1)]


def test_an_empty_batch_is_delivered_too(url: str) -> None:
    deliver(url, 0, [])
    deliver(url, 0, FIRST)
    assert rows(url, "totals") == []


def test_two_tasks_of_one_batch_write_once(url: str) -> None:
    tasks = [
        threading.Thread(target=deliver, args=(url, 0, FIRST), kwargs={"name": "history"})
        for _ in range(4)
    ]
    for one in tasks:
        one.start()
    for one in tasks:
        one.join(60)
    assert rows(url, "history") == sorted(FIRST)


def test_a_task_that_dies_in_its_transaction_leaves_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(Exception):
        pass

    noted = table._is_next

    def note_and_die(*given: object) -> None:
        assert noted(*given)
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(table, "_is_next", note_and_die)
        with pytest.raises(Died):
            deliver(url, 0, FIRST)
    deliver(url, 0, FIRST)
    assert rows(url, "totals") == [("a", 2), ("b", 1)]


def test_columns_that_are_not_delivered_stay_as_they_are(url: str) -> None:
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("ALTER TABLE totals ADD COLUMN note VARCHAR(20) DEFAULT 'new'"))
    deliver(url, 0, [("a", 1)])
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("UPDATE totals SET note = 'blocked'"))
    deliver(url, 1, [("a", 2), ("b", 1)])
    with sa.create_engine(url).connect() as connection:
        found = connection.execute(sa.text("SELECT * FROM totals ORDER BY 1")).all()
    assert [tuple(row) for row in found] == [("a", 2, "blocked"), ("b", 1, "new")]


def test_a_row_of_nothing_but_its_key_is_there_once(url: str) -> None:
    for batch_id in range(2):
        table.deliver(url, "totals", KEY, KEY, "w", batch_id, [("a",), ("a",)])
    assert rows(url, "totals") == [("a", None)]


def test_the_number_of_a_writer_that_was_removed_is_missed(url: str) -> None:
    """Nobody knows then whether the batch is there: to write nothing would lose it in silence."""
    deliver(url, 0, FIRST)
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text(f"DELETE FROM {table.DELIVERED.name}"))
    with pytest.raises(RuntimeError, match="expected the row of writer w"):
        deliver(url, 1, SECOND)
    assert rows(url, "totals") == [("a", 2), ("b", 1)]


def test_what_is_wrong_with_a_table_is_said_at_the_start(url: str) -> None:
    class Frame:
        columns = ["writer", *COLUMNS, *table.PLACE.names]

    with pytest.raises(ValueError, match="expected columns among customer, n, got id"):
        table.write(Frame(), url, "totals", "q", "checkpoint", key=["id"])
    with pytest.raises(sa.exc.NoSuchTableError):
        table.write(Frame(), url, "orders", "q", "checkpoint", key=["customer"])
