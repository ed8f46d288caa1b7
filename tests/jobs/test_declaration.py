"""job.toml, and the user's files that it names: what is wrong is said where it is."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.jobs.twins import copy
from tickproof.conformance.engines.preparation import prepare
from tickproof.conformance.engines.security import CA_FILE, Access, Security
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs import declaration, oracle, records, user_code
from tickproof.conformance.jobs.workers import JobSpec
from tickproof.conformance.resources import fixtures
from tickproof.reference import java

GOOD = """
[job]
argv = ["{python}", "app.py"]
env = { A = "{bootstrap} {inputs.orders} {outputs.totals} {group} {state} {worker}" }
[inputs.orders]
file = "orders.jsonl"
key = "customer"
[outputs.totals]
[claims]
state = "exactly-once"
delivery = "exactly-once"
survives = ["worker"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.jsonl").write_text('{"customer": "a", "n": 1}\n{"customer": 7, "n": 2}\n')
    (tmp_path / "job.toml").write_text(GOOD)
    return tmp_path


def loaded(folder: Path, old: str = "", new: str = "") -> declaration.Job:
    (folder / "job.toml").write_text(GOOD.replace(old, new))
    return declaration.load(folder)


def test_a_good_one(folder: Path) -> None:
    job = loaded(folder)
    values = {
        "bootstrap": "b",
        "inputs.orders": "i",
        "outputs.totals": "o",
        "group": "g",
        "state": "s",
    }
    assert job.environment(values) == {"A": "b i o g s {worker}"}
    assert job.name == folder.name


def test_a_job_is_told_how_to_log_in(folder: Path) -> None:
    texts = "{security} {ca} {sasl.mechanism} {sasl.username} {sasl.password}"
    (folder / "job.toml").write_text(
        GOOD.replace("{group}", texts).replace("[job]", '[job]\nsecurity = "sasl_ssl"')
    )
    job = declaration.load(folder)
    assert job.security == Security("sasl_ssl", "SCRAM-SHA-256")
    values = Access(job.security, "PEM", "user", "p4ss").values(Path("/tmp"))
    told = f"sasl_ssl /tmp/{CA_FILE} SCRAM-SHA-256 user p4ss"
    assert told in job.environment(values)["A"]


def test_a_java_is_found_for_a_job_or_said_to_be_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = loaded(folder, "{worker}", "{java_home}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidFile, match=r"java_home.*no program bin/java in it"):
        job.environment({})
    monkeypatch.setattr(java, "for_spark", lambda: java.JavaFound(tmp_path, "17"))
    assert str(tmp_path) in job.environment({})["A"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{group}", "{grup}", "[job] env.A: expected one of"),
        ("{group}", "{grup}", "got {grup} (did you mean group?)"),
        ("[job]", "[job]\nworkrs = 2", "workrs: unknown key"),
        ("[job]", '[job]\nsecurity = "tls"', "[job] security: expected one of plaintext, ssl, "),
        (
            "[job]",
            '[job]\nsecurity = "ssl"\nsasl_mechanism = "PLAIN"',
            "[job] sasl_mechanism: expected only beside security",
        ),
        ("{group}", "{sasl.password}", "[job] env.A: expected one of"),
        ("[job]", '[job]\nroles = { workr = "x" }', "[job.roles] worker: missing"),
        ("[job]", '[job]\nroles = { worker = "(" }', "[job.roles] worker: expected a regular"),
        ("[job]", '[job]\nroles = { worker = "x" }', "[job] env.A: expected one of"),
        ("[inputs.orders]", "[upgrade]\nback = false\n[inputs.orders]", "[upgrade]: expected argv"),
        ("[inputs.orders]", "[upgrade]\nworkers = 0\n[inputs.orders]", "[upgrade] workers: "),
        (
            "[inputs.orders]",
            '[upgrade]\nenv = { V = "{grup}" }\n[inputs.orders]',
            "[upgrade] env.V: expected one of",
        ),
        (
            "[inputs.orders]",
            '[upgrade]\nargv = ["no-such-program"]\n[inputs.orders]',
            "[upgrade] argv[0]: expected a program",
        ),
        (
            "[inputs.orders]",
            '[job.roles]\nworker = "x"\n[upgrade]\nworkers = 2\n[inputs.orders]',
            "[upgrade] workers: expected none beside roles",
        ),
        (
            "[claims]",
            '[job.roles]\nworker = "x"\n[claims]\nworkers = 2',
            "[claims] workers: expected none beside roles",
        ),
        ("[claims]", "[claims]\nworkers = 1", "[claims] workers: expected another number than"),
        (
            "[claims]",
            "[claims]\npartitions = 4",
            "[claims] partitions: expected another number than",
        ),
        ('file = "orders.jsonl"', 'file = "none.jsonl"', "expected a file beside job.toml"),
        ('file = "orders.jsonl"', "", "[inputs.orders]: expected either make or file"),
        ('file = "orders.jsonl"', 'make = "orders.py"', "expected FILE.py:FUNCTION"),
        ("[outputs.totals]", '[outputs.totals]\nsql = "select 1"', "identity: missing"),
        (
            "[outputs.totals]",
            '[outputs.totals]\nsettled = "x"',
            "settled: expected only beside sql",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nsql = "select 1"\nurl = "postgresq"',
            '[outputs.totals] url: expected "sqlite", "postgresql" or an address',
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nfiles = "out"\nsql = "select 1"',
            "[outputs.totals]: expected one of sql, files, http; got sql, files",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nfiles = "out"',
            "[outputs.totals] identity: missing; required beside files",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nsql = "select 1"\ncatalog = "{state}/c.db"',
            "[outputs.totals] catalog: expected only beside files",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nfiles = "out"\ncatalog = "c.db"',
            "[outputs.totals] catalog: expected a file of SQLite below {state}",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nfiles = "../out"',
            "files: expected a folder or files below {state}",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nfiles = "/out"',
            "files: expected a folder or files below {state}",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nhttp = true\ntopic = "calls"',
            "[outputs.totals] topic: expected only beside a topic",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\nhttp = true\nurl = "sqlite"',
            "[outputs.totals] url: expected only beside sql",
        ),
        (
            "[outputs.totals]",
            "[outputs.totals]\nhttp = 1",
            "[outputs.totals] http: expected true or false",
        ),
        (
            "[outputs.totals]",
            '[outputs.totals]\ntypes = { n = "integer" }',
            "[outputs.totals] types: expected only beside files",
        ),
        ("[job]", "[job]\nschemas = {}", "[job] schemas: expected {registry}, the address"),
        ("{group}", "{registry}", "[job] env.A: expected one of"),
        ("[job]", '[job]\nschemas = { a = "no.avsc" }', "[job] schemas.a: expected a file beside"),
        ("[claims]", '[claims]\npoison = "stops"', "[claims] poison: expected one of"),
        (
            "[claims]",
            '[claims]\npoison = "stop"\ndead_letter = "totals"',
            'dead_letter: expected only beside poison = "dead-letter"',
        ),
        (
            "[claims]",
            '[claims]\npoison = "dead-letter"',
            "[claims] dead_letter: missing; required beside poison",
        ),
        (
            "[claims]",
            '[claims]\ndead_letter = "totals"',
            'dead_letter: expected only beside poison = "dead-letter"',
        ),
        (
            "[claims]",
            '[claims]\npoison = "dead-letter"\ndead_letter = "dead"',
            "dead_letter: expected an output that is a topic; got dead",
        ),
        (
            "[claims]",
            '[claims]\npoison = "dead-letter"\ndead_letter = "totals"',
            "dead_letter: expected one of several outputs",
        ),
        (
            "[inputs.orders]",
            '[inputs.orders]\npoison = "job.toml"',
            "[inputs.orders] poison: expected only beside poison of [claims]",
        ),
        (
            "[inputs.orders]",
            '[inputs.orders]\npoison = "none.bin"',
            "[inputs.orders] poison: expected a file beside job.toml",
        ),
        ('state = "exactly-once"', 'state = "once"', "state: expected"),
        ("[inputs.orders]", '[inputs.orders]\ntypes = { n = "integer" }', "types: expected only"),
        (
            "[job]",
            '[job]\nprepare = ["{state}"]',
            "prepare[0]: expected one of {here}, {python}; got",
        ),
        (
            "[inputs.orders]",
            '[inputs.orders]\ntypes = { n = "int" }',
            "[inputs.orders.types] n: expected one of",
        ),
        ('["{python}", "app.py"]', '["no-such-program"]', "argv[0]: expected a program"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(folder: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        loaded(folder, old, new)
    assert said in str(caught.value)


def test_what_prepares_a_job_runs_in_its_folder(folder: Path) -> None:
    (folder / "make.py").write_text("import pathlib, sys\npathlib.Path(sys.argv[1]).touch()\n")
    job = loaded(folder, "[job]", '[job]\nprepare = ["{python}", "make.py", "{here}/made"]')
    prepare(JobSpec(job, {}), folder / "prepare.log")
    assert (folder / "made").is_file()
    job = loaded(folder, "[job]", '[job]\nprepare = ["{python}", "-c", "1 / 0"]')
    with pytest.raises(InvalidFile, match=r"\[job\] prepare: expected status 0, got: status 1"):
        prepare(JobSpec(job, {}), folder / "prepare.log")


def test_a_schema_that_is_no_json_is_named(folder: Path) -> None:
    (folder / "order.avsc").write_text("record Order")
    declared = '[job]\nschemas = { a = "order.avsc" }\n'
    (folder / "job.toml").write_text(
        GOOD.replace("{group}", "{registry}").replace("[job]", declared)
    )
    with pytest.raises(InvalidFile, match=r"order.avsc: expected a schema of Avro, which is JSON"):
        declaration.load(folder)


def test_a_program_that_is_built_need_not_be_there_yet(folder: Path) -> None:
    argv, built = 'argv = ["{python}", "app.py"]', 'argv = ["./app"]'
    with pytest.raises(InvalidFile, match=r"argv\[0\]: expected a program .*; got \W?./app"):
        loaded(folder, argv, built)
    job = loaded(folder, argv, f'{built}\nprepare = ["touch", "app"]')
    assert job.command({}) == [str(folder / "./app")]


def test_records_have_numbers_keys_and_the_partitions_of_kafka_s_clients(folder: Path) -> None:
    found = records.of_input(loaded(folder), "orders", 1)
    assert [(one.number, one.key) for one in found] == [(1, "a"), (2, "7")]
    assert all(0 <= one.partition < 4 for one in found)


def test_a_poisoned_record_lies_beside_the_one_before_it(folder: Path) -> None:
    found = records.of_input(loaded(folder), "orders", 1)
    first, poison, last = records.poisoned(found, b"\xff", 1)
    assert [first, last] == found
    assert (poison.key, poison.partition, poison.message) == ("a", first.partition, b"\xff")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"customer": "a"}\n{"n": 1}', "record 2: expected a value of the key 'customer'"),
        ('{"customer": "a"}\n' * 250_001, "expected at most 250,000 records, for each run is sent"),
        ('{"customer": null}', "record 1: expected a value of the key 'customer'"),
        ('{"customer": ""}', "record 1: expected a value of the key 'customer'"),
        ('{"customer": "a", "n": NaN}', "record 1, field 'n': expected JSON"),
        ("[" * 100_000, "line 1: expected a JSON object"),
        ("[1]", "record 1: expected an object"),
        ("{", "line 1: expected a JSON object"),
        ("", "expected records for [inputs.orders]"),
    ],
)
def test_records_that_cannot_be_sent(folder: Path, text: str, said: str) -> None:
    (folder / "orders.jsonl").write_text(text)
    with pytest.raises(InvalidFile) as caught:
        records.of_input(loaded(folder), "orders", 1)
    assert said in str(caught.value)


def test_cells_of_csv_are_the_text_that_they_are(folder: Path) -> None:
    text = '\ufeffcustomer,zip,day,n\na,007,2024-01-01,\n\n"b, c",1e3,"two\nlines",5\n'
    (folder / "orders.csv").write_text(text)
    found = records.of_input(loaded(folder, "orders.jsonl", "orders.csv"), "orders", 1)
    assert [one.value for one in found] == [
        {"customer": "a", "zip": "007", "day": "2024-01-01", "n": ""},
        {"customer": "b, c", "zip": "1e3", "day": "two\nlines", "n": "5"},
    ]
    assert [one.key for one in found] == ["a", "b, c"]


TYPED = 'file = "orders.csv"\ntypes = { n = "integer", eur = "number", paid = "boolean" }'


def test_declared_columns_of_csv_have_their_type_and_empty_cells_are_null(folder: Path) -> None:
    text = "customer,n,eur,paid\n7,-007,1e3,True\nb,98765432109876543210,0.5,false\nc,,,\n"
    (folder / "orders.csv").write_text(text)
    found = records.of_input(loaded(folder, 'file = "orders.jsonl"', TYPED), "orders", 1)
    assert [one.value for one in found] == [
        {"customer": "7", "n": -7, "eur": 1000.0, "paid": True},
        {"customer": "b", "n": 98765432109876543210, "eur": 0.5, "paid": False},
        {"customer": "c", "n": None, "eur": None, "paid": None},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("customer,n,eur,paid\na,1,2,true\nb\n", "line 3: expected 4 cells; got 1"),
        ("customer,n,eur,paid\na,1_000,2,true\n", "line 2, column n: expected integer; got '1_0"),
        ("customer,n,eur,paid\na,1,nan,true\n", "line 2, column eur: expected number; got 'nan'"),
        ("customer,n,eur,paid\na,1,1e999,true\n", "record 1, field 'eur': expected JSON"),
        ("customer,n,eur,paid\na,1,2,yes\n", "line 2, column paid: expected boolean; got 'yes'"),
        (f"customer,n,eur,paid\na,{'9' * 5_000},2,true\n", "line 2, column n: expected integer"),
        ("customer,n,eur,paid\n,1,2,true\n", "record 1: expected a value of the key 'customer'"),
        ("client,n,eur,paid\na,1,2,true\n", "record 1: expected a value of the key 'customer'"),
        ("customer,n,eur\na,1,2\n", "expected the column paid of types"),
        ("customer,n,n,eur,paid\na,1,1,2,true\n", "column n is there twice"),
        ('customer,n,eur,paid\n"a"b,1,2,true\n', "near line 2: expected CSV in UTF-8"),
        ("customer,n,eur,paid\n", "expected records for [inputs.orders]"),
    ],
)
def test_csv_that_cannot_be_sent(folder: Path, text: str, said: str) -> None:
    (folder / "orders.csv").write_text(text)
    with pytest.raises(InvalidFile) as caught:
        records.of_input(loaded(folder, 'file = "orders.jsonl"', TYPED), "orders", 1)
    assert said in str(caught.value) and "orders.csv" in str(caught.value)


def test_parquet_keeps_its_types_and_what_json_has_not_is_text(folder: Path) -> None:
    row = {
        "customer": 7,
        "eur": 0.5,
        "name": None,
        "day": date(2024, 1, 2),
        "at": datetime(2024, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC),
        "clock": time(3, 4),
        "price": Decimal("1.10"),
        "lines": [{"day": date(2024, 1, 2), "price": Decimal("0.0000000010")}],
    }
    pq.write_table(pa.Table.from_pylist([row]), folder / "orders.parquet")
    found = records.of_input(loaded(folder, "orders.jsonl", "orders.parquet"), "orders", 1)
    assert [(one.key, one.value) for one in found] == [
        (
            "7",
            {
                "customer": 7,
                "eur": 0.5,
                "name": None,
                "day": "2024-01-02",
                "at": "2024-01-02T03:04:05.600000+00:00",
                "clock": "03:04:00",
                "price": "1.10",
                "lines": [{"day": "2024-01-02", "price": "0.0000000010"}],
            },
        )
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"customer": None, "n": 1}, "record 1: expected a value of the key 'customer'"),
        ({"customer": "a", "n": b"1"}, "record 1, field 'n': expected JSON"),
        (None, "orders.parquet: Parquet magic bytes not found"),
    ],
)
def test_parquet_that_cannot_be_sent(folder: Path, row: dict | None, said: str) -> None:
    path = folder / "orders.parquet"
    if row is None:
        path.write_text("customer,n,and more\n")
    else:
        pq.write_table(pa.Table.from_pylist([row]), path)
    with pytest.raises(InvalidFile) as caught:
        records.of_input(loaded(folder, "orders.jsonl", path.name), "orders", 1)
    assert said in str(caught.value) and path.name in str(caught.value)


def test_what_a_function_of_the_user_raises_has_its_line(folder: Path) -> None:
    (folder / "make.py").write_text("def orders():\n    yield {'customer': 1 // 0}\n")
    job = loaded(folder, 'file = "orders.jsonl"', 'make = "make.py:orders"')
    with pytest.raises(InvalidFile) as caught:
        records.of_input(job, "orders", 1)
    assert "ZeroDivisionError" in str(caught.value) and "make.py, line 2" in str(caught.value)


def test_an_oracle_that_raises_is_named_with_its_record(folder: Path) -> None:
    (folder / "oracle.py").write_text("def expect(state, record):\n    return record['cents']\n")
    expect = user_code.function(folder, "oracle.py:expect")
    made = records.of_input(loaded(folder), "orders", 1)
    with pytest.raises(InvalidFile) as caught:
        list(oracle.outputs(expect, folder / "oracle.py", made))
    assert 'at record 1 {"customer": "a", "n": 1}: KeyError' in str(caught.value)


def test_the_jobs_of_the_kit_load() -> None:
    for path in sorted((fixtures() / "jobs").glob("*/job.toml")):
        job = declaration.load(path)
        made = sum(len(records.of_input(job, name, 1)) for name in job.inputs)
        assert made in (2_000, 6_000), path


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("", "totals.db"),
        ('url = "sqlite"', "totals.db"),
        ('url = "sqlite:///{state}/a/b.sqlite"', "a/b.sqlite"),
        ('url = "postgresql"', None),
        ('url = "sqlite:////srv/totals.db"', None),
    ],
)
def test_the_file_of_a_sqlite_database_is_below_the_state(
    tmp_path: Path, url: str, file: str | None
) -> None:
    changed = {"[outputs.totals]": f"[outputs.totals]\n{url}"}
    job = copy("totals-sql", tmp_path, replaced=changed)
    assert job.outputs["totals"].sqlite_file("totals") == file
