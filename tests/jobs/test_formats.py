"""Messages that are no JSON, their time, and files of settings: what a job is given, and gives."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.kafka.presence import expect_broker
from tickproof.conformance.engines import isolation
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs import declaration, records, sinks, trial
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.workers import JobSpec

JOB = """
[job]
argv = ["{python}", "app.py", "{rendered}/conf/app.ini"]
render = ["conf/app.ini"]
[inputs.orders]
file = "orders.jsonl"
key = "customer"
encode = "codec.py:encode"
time = "placed.at"
rate = 100000
[outputs.times]
decode = "codec.py:decode"
[claims]
state = "at-least-once"
delivery = "at-least-once"
survives = ["worker"]
"""
INI = """
[kafka]
brokers = {bootstrap}
orders = {inputs.orders}
times = {outputs.times}
group = {group}
; {this} is the file's own
"""
CODEC = """
def encode(record):
    return f"{record['customer']};{record['cents']}".encode("latin-1")

def decode(message):
    customer, cents, time = message.decode("latin-1").split(";")
    return {"customer": customer, "cents": int(cents), "time": int(time)}
"""
APP = """
import configparser
import sys

from confluent_kafka import Consumer, Producer

settings = configparser.ConfigParser()
assert settings.read(sys.argv[1])
kafka = settings["kafka"]
consumer = Consumer(
    {"bootstrap.servers": kafka["brokers"], "group.id": kafka["group"],
     "auto.offset.reset": "earliest", "enable.auto.commit": False}
)
producer = Producer({"bootstrap.servers": kafka["brokers"]})
consumer.subscribe([kafka["orders"]])
while True:
    for message in consumer.consume(100, 0.2):
        if message.error():
            continue
        value = message.value() + b";%d" % message.timestamp()[1]
        producer.produce(kafka["times"], value, message.key())
        producer.flush()
        consumer.commit(message, asynchronous=False)
"""
ORDERS = """
{"customer": "Zoë", "cents": 1, "placed": {"at": "2024-01-02T03:04:05.678Z"}}
{"customer": "Bo", "cents": 2, "placed": {"at": 1}}
{"customer": "Bo", "cents": 3, "placed": {"at": 253402300799999}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "times"
    (made / "conf").mkdir(parents=True)
    files = {"job.toml": JOB, "conf/app.ini": INI, "codec.py": CODEC, "app.py": APP}
    for name, text in (files | {"orders.jsonl": ORDERS.lstrip()}).items():
        (made / name).write_text(text, "utf-8")
    return made


def edited(folder: Path, file: str, old: str, new: str) -> declaration.Job:
    text = (folder / file).read_text("utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), "utf-8")
    return declaration.load(folder)


def test_a_job_reads_bytes_their_time_and_its_settings(folder: Path, tmp_path: Path) -> None:
    expect_broker()
    job = declaration.load(folder)
    inputs = {"orders": records.of_input(job, "orders", 1)}
    level = isolation.best(JobSpec(job, {}))
    plan, stopped = trial.Plan("calm"), threading.Event()
    run = trial.Trial(job, inputs, plan, tmp_path / "run", level, stopped).play()
    assert not run.failure and sorted(run.rows["times"], key=str) == [
        ("Bo", {"customer": "Bo", "cents": 2, "time": 1}),
        ("Bo", {"customer": "Bo", "cents": 3, "time": 253402300799999}),
        ("Zoë", {"customer": "Zoë", "cents": 1, "time": 1704164645678}),
    ]


@pytest.mark.parametrize(
    ("found", "time_ms"),
    [
        (1_700_000_000_000, 1_700_000_000_000),
        (1.6, 2),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T01:00:00.001+01:00", 1),
    ],
)
def test_a_time_is_milliseconds_or_iso_8601(folder: Path, found: object, time_ms: int) -> None:
    text = f'{{"customer": "a", "cents": 1, "placed": {{"at": {found!r}}}}}'
    (folder / "orders.jsonl").write_text(text.replace("'", '"'))
    (one,) = records.of_input(declaration.load(folder), "orders", 1)
    assert (one.time_ms, one.message) == (time_ms, b"a;1")


@pytest.mark.parametrize(
    "found", ["null", "0", "-5", "1e300", "true", '"noon"', "{}", '"0001-01-01"']
)
def test_a_time_that_is_none_is_named_with_its_record(folder: Path, found: str) -> None:
    text = '{"customer": "a", "cents": 1, "placed": {"at": FOUND}}'
    (folder / "orders.jsonl").write_text(text.replace("FOUND", found))
    with pytest.raises(InvalidFile, match=r"orders.jsonl: record 1 .*, time 'placed.at': expected"):
        records.of_input(declaration.load(folder), "orders", 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{record['cents']}", "{record['euro']}", r"KeyError: 'euro' \(codec.py, line 3: return f"),
        ('.encode("latin-1")', "", "expected bytes; got 'Zoë;1'"),
        ('"latin-1")\n\ndef', '"ascii")\n\ndef', r"UnicodeEncodeError.*codec.py, line 3"),
    ],
)
def test_an_encode_that_fails_is_named_with_its_record(
    folder: Path, old: str, new: str, said: str
) -> None:
    job = edited(folder, "codec.py", old, new)
    where = r'codec.py: codec.py:encode, at record 1 {"customer": "Zoë", .*: '
    with pytest.raises(InvalidFile, match=where + said):
        records.of_input(job, "orders", 1)


@pytest.mark.parametrize(
    ("old", "new", "message", "said"),
    [
        ("", "", b"a;1;2", ""),
        ("", "", b"a;1", r"ValueError: .*codec.py, line 6: customer.*; the message is b'a;1'"),
        ("    return {", "    return 5, {", b"a;1;2", r"expected a JSON object; got \(5, .* from "),
    ],
)
def test_a_decode_that_fails_is_named_with_the_message(
    folder: Path, old: str, new: str, message: bytes, said: str
) -> None:
    job = edited(folder, "codec.py", old, new)
    read = sinks.reader(job.outputs["times"], job.folder)
    if not said:
        assert read(message, "here") == {"customer": "a", "cents": 1, "time": 2}
        return
    with pytest.raises(sinks.BadOutput, match=f"here: .*{said}"):
        read(message, "here")


@pytest.mark.parametrize(("message", "left"), [(b"", True), (None, True), (b"a;1;2", False)])
def test_a_decode_leaves_out_what_is_no_output(
    folder: Path, message: bytes | None, left: bool
) -> None:
    """A heartbeat; the null by which a compacted topic removes a key."""
    start = "def decode(message):\n"
    job = edited(folder, "codec.py", start, f"{start}    if not message:\n        return None\n")
    assert (sinks.reader(job.outputs["times"], job.folder)(message, "here") is None) == left


@pytest.mark.parametrize("message", [None, b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_message_without_a_decode_is_a_json_object(tmp_path: Path, message: bytes | None) -> None:
    read = sinks.reader(OutputTable(), tmp_path)
    assert read(b'{"n": 1}', "here") == {"n": 1}
    with pytest.raises(sinks.BadOutput, match="here: expected a JSON object; got"):
        read(message, "here")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{bootstrap}", "{boostrap}", r"app.ini: line 3: .*got {boostrap} \(did you mean boot"),
        ("{group}", "{workers}", r"app.ini: line 6: expected one of .*got {workers}"),
        ("{outputs.times}", "{outputs.totals}", r"app.ini: line 5: .*got {outputs.totals}"),
    ],
)
def test_a_placeholder_of_a_file_is_named_with_its_line(
    folder: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(InvalidFile, match=said):
        edited(folder, "conf/app.ini", old, new)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{rendered}/", "", r"\[job\] render: expected {rendered}"),
        ('render = ["conf/app.ini"]', "", r"argv\[2\]: expected one of .*got {rendered}"),
        ('render = ["conf/app.ini"]', 'render = ["no.ini"]', r"render\[0\]: expected a file"),
        ('render = ["conf/app.ini"]', 'render = ["app.py"]', "app.py: expected a placeholder"),
        ('["conf/app.ini"]', '["../app.ini"]', r"render\[0\]: expected a path below"),
        ('["conf/app.ini"]', '["/app.ini"]', r"render\[0\]: expected a path below"),
        ('decode = "', 'sql = "select 1"\nidentity = ["x"]\ndecode = "', "decode: expected only"),
        ("codec.py:encode", "codecs.py:encode", r"\[inputs.orders\] encode: expected a file"),
    ],
)
def test_what_cannot_be_rendered_or_encoded_is_said_with_its_key(
    folder: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(InvalidFile, match=said):
        edited(folder, "job.toml", old, new)


def test_a_rendered_file_may_differ_by_worker(folder: Path) -> None:
    edited(folder, "conf/app.ini", "{group}", "{group}-{worker}")
    text = declaration.load(folder).rendered({"group": "g", "worker": "3"})["conf/app.ini"]
    assert "group = g-3\n" in text


def test_a_rendered_file_keeps_what_is_its_own(folder: Path) -> None:
    job = declaration.load(folder)
    values = {"bootstrap": "b", "inputs.orders": "i", "outputs.times": "o", "group": "g"}
    text = job.rendered(values)["conf/app.ini"]
    assert "brokers = b\norders = i\ntimes = o\ngroup = g\n; {this} is" in text
