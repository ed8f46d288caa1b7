"""The stub of a schema registry, with the client that its users have."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.twins import copy, judged
from tests.kafka.presence import expect_broker
from tickproof.conformance.jobs import declaration
from tickproof.conformance.jobs.registry import Registry
from tickproof.conformance.verdicts import Verdict

pytest.importorskip("confluent_kafka.schema_registry.avro")
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

FIELDS = [{"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}
NEWER = ORDER | {"fields": [*FIELDS, {"name": "id", "type": "long", "default": 0}]}
RECORD = {"customer": "a", "cents": 7}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry({"orders-value": json.dumps(ORDER, indent=1)}) as made:
        yield made


@pytest.fixture
def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def test_a_record_comes_back_through_the_wire_format(client: SchemaRegistryClient) -> None:
    at = SerializationContext("totals", MessageField.VALUE)
    message = AvroSerializer(client, json.dumps(NEWER))(RECORD | {"id": 3}, at)
    assert message[:5] == b"\0\0\0\0\2"  # a zero byte, and the id in four
    assert AvroDeserializer(client)(message, at) == RECORD | {"id": 3}
    assert client.get_subjects() == ["orders-value", "totals-value"]


def test_ids_belong_to_schemas_and_versions_to_subjects(client: SchemaRegistryClient) -> None:
    def register(subject: str, schema: dict) -> int:
        return client.register_schema(subject, Schema(json.dumps(schema), "AVRO"))

    assert [register("a", NEWER), register("a", ORDER), register("a", NEWER)] == [2, 1, 2]
    assert client.get_versions("a") == [1, 2]
    latest = client.get_latest_version("a")
    assert (latest.schema_id, latest.version) == (1, 2)
    assert json.loads(client.get_version("a", 1).schema.schema_str) == NEWER
    found = client.lookup_schema("orders-value", Schema(json.dumps(ORDER), "AVRO"))
    assert (found.schema_id, found.version) == (1, 1)


def test_what_is_not_there_has_the_codes_of_the_registry(client: SchemaRegistryClient) -> None:
    newer = Schema(json.dumps(NEWER), "AVRO")
    for ask, status, code in (
        (lambda: client.get_schema(9), 404, 40403),
        (lambda: client.get_latest_version("none"), 404, 40401),
        (lambda: client.get_version("orders-value", 5), 404, 40402),
        (lambda: client.lookup_schema("orders-value", newer), 404, 40403),
        (lambda: client.register_schema("a", Schema("no JSON", "AVRO")), 422, 42201),
        (lambda: client.test_compatibility("orders-value", newer), 404, 404),
    ):
        with pytest.raises(SchemaRegistryError) as caught:
            ask()
        assert (caught.value.http_status_code, caught.value.error_code) == (status, code)


def test_it_says_that_it_is_a_stub(registry: Registry) -> None:
    with urllib.request.urlopen(registry.url) as answer:
        assert json.load(answer) == {"registry": "a stub of Tickproof"}
        assert answer.headers["Server"] == "a stub of Tickproof"
    for body in (b"[", b"[1]"):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{registry.url}/subjects/a", body)


CODEC = """
import io, json, pathlib, fastavro
SCHEMA = json.loads(pathlib.Path(__file__).with_name("order.avsc").read_text())
def encode(record):
    made = io.BytesIO()
    fastavro.schemaless_writer(made, SCHEMA, record)
    return b"\\0\\0\\0\\0\\1" + made.getvalue()
"""
DECODE = """
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
decode = AvroDeserializer(SchemaRegistryClient({"url": os.environ["REGISTRY"]}))
consumer = Consumer("""
DECLARED = """schemas = { "orders-value" = "order.avsc" }
env = { REGISTRY = "{registry}", """


def edit(path: Path, **edits: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in edits.values():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text)


def test_a_job_reads_avro_by_the_ids_of_job_toml(tmp_path: Path) -> None:
    expect_broker()
    folder = copy("totals-sql", tmp_path).folder
    (folder / "order.avsc").write_text(json.dumps(NEWER))
    (folder / "codec.py").write_text(CODEC)
    edit(
        folder / "app.py",
        client=("\nconsumer = Consumer(", DECODE),
        read=("json.loads(message.value())", "decode(message.value(), None)"),
    )
    edit(
        folder / "job.toml",
        registry=("env = { ", DECLARED),
        encode=("[inputs.orders]\n", '[inputs.orders]\nencode = "codec.py:encode"\n'),
    )
    found = judged(declaration.load(folder), tmp_path, only=["JB-CALM"])
    assert found["JB-CALM"].verdict is Verdict.PASS, found["JB-CALM"].actual
