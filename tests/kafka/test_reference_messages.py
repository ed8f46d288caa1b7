"""What the reference reads of messages, and writes, against the vectors."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.kafka.test_message_vectors import BYTES, MESSAGES, named
from tickproof.conformance.resources import fixtures

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from tickproof.reference import apps
from tickproof.reference.api.layouts import one_by_one, view

PARAMS = {"count": {"emit": "every"}, "market-spread": {"inputs": "merged", "emit": "verdicts"}}


@pytest.fixture(scope="module")
def engine():
    path = fixtures() / "engines" / "spark-transactions" / "app.py"
    spec = importlib.util.spec_from_file_location("spark_transactions_app", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(vector, layout):
    data = BYTES[vector["name"]]
    (one,) = one_by_one(view(len(data).to_bytes(4, "little") + data, layout))
    return one


def of(way: str):
    return [one for one in MESSAGES["vectors"] if one["way"] != way and one["app"] != "passthrough"]


@pytest.mark.parametrize("vector", named(of("out")))
def test_an_input_message_has_the_fields_of_its_record(engine, vector):
    app = vector["app"]
    application = apps.make(app, PARAMS.get(app, {}))
    fields = tuple(map(int, record(vector, application.pipelines[0].source.decoder)))
    decode, _ = engine.FORMS[app]
    made = decode(vector["value"].encode())
    if app == "market-spread" and made[0] == engine.market_spread.ORDER_KIND:
        fields, made = fields[:4], made[:4]  # bid and offer are a quote's
    assert made == fields


@pytest.mark.parametrize("vector", named(of("in")))
def test_an_output_becomes_its_message(engine, vector):
    app = vector["app"]
    application = apps.make(app, PARAMS.get(app, {}))
    _, encode = engine.FORMS[app]
    key, value = encode(record(vector, application.sinks[0].encoder))
    due = json.loads(vector["value"])
    assert json.loads(value) == due
    owner = due.get("k", due.get("symbol"))
    assert key == (None if owner is None else str(owner).encode())
