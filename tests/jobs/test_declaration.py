"""job.toml, and the user's files that it names: what is wrong is said where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs import declaration, oracle, records, user_code
from tickproof.conformance.resources import fixtures

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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{group}", "{grup}", "[job] env.A: expected one of"),
        ("{group}", "{grup}", "got {grup} (did you mean group?)"),
        ("[job]", "[job]\nworkrs = 2", "workrs: unknown key"),
        ('file = "orders.jsonl"', 'file = "none.jsonl"', "expected a file beside job.toml"),
        ('file = "orders.jsonl"', "", "[inputs.orders]: expected either make or file"),
        ('file = "orders.jsonl"', 'make = "orders.py"', "expected FILE.py:FUNCTION"),
        ("[outputs.totals]", '[outputs.totals]\nsql = "select 1"', "identity: missing"),
        (
            "[outputs.totals]",
            '[outputs.totals]\nsettled = "x"',
            "settled: expected only beside sql",
        ),
        ('state = "exactly-once"', 'state = "once"', "state: expected"),
        ('["{python}", "app.py"]', '["no-such-program"]', "argv[0]: expected a program"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(folder: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        loaded(folder, old, new)
    assert said in str(caught.value)


def test_records_have_numbers_keys_and_the_partitions_of_kafka_s_clients(folder: Path) -> None:
    found = records.of_input(loaded(folder), "orders", 1)
    assert [(one.number, one.key) for one in found] == [(1, "a"), (2, "7")]
    assert all(0 <= one.partition < 4 for one in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"customer": "a"}\n{"n": 1}', "record 2: expected the key 'customer'"),
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
        oracle.outputs(expect, folder / "oracle.py", made)
    assert 'at record 1 {"customer": "a", "n": 1}: KeyError' in str(caught.value)


def test_the_jobs_of_the_kit_load() -> None:
    for path in sorted((fixtures() / "jobs").glob("*/job.toml")):
        job = declaration.load(path)
        for name in job.inputs:
            assert len(records.of_input(job, name, 1)) == 6_000
