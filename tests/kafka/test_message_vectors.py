"""Messages of Kafka against the vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tickproof.conformance import apps
from tickproof.conformance.kafka import payloads

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
MESSAGES = json.loads((VECTORS / "messages.json").read_text("utf-8"))
BYTES = {
    one["name"]: bytes.fromhex(one["hex"])
    for one in json.loads((VECTORS / "payloads.json").read_text("utf-8"))["vectors"]
}


def named(rows):
    return [pytest.param(row, id=row["name"]) for row in rows]


def test_every_payload_has_its_message():
    assert {one["name"] for one in MESSAGES["vectors"]} == BYTES.keys()


@pytest.mark.parametrize("vector", named(one for one in MESSAGES["vectors"] if one["way"] != "out"))
def test_an_input_record_becomes_its_message(vector):
    data = BYTES[vector["name"]]
    app = apps.APPS[vector["app"]]({"inputs": "merged"})
    (layout,) = app.input_layouts(len(data))
    made = app.messages(np.frombuffer(data, layout))
    assert list(made.values) == [vector["value"].encode()]
    assert list(made.keys) == [vector["key"] and vector["key"].encode()]


@pytest.mark.parametrize(
    "vector",
    named([one for one in MESSAGES["vectors"] if one["way"] != "in"] + MESSAGES["the_same"]),
)
def test_an_output_message_becomes_its_record(vector):
    data = BYTES[vector.get("as", vector["name"])]
    found = payloads.outputs(apps.APPS[vector["app"]]({}), len(data), [vector["value"].encode()])
    assert found.odd == ()
    assert found.payloads["payload"].tobytes() == data
    assert found.payloads["size"].tolist() == [len(data)]


@pytest.mark.parametrize("vector", named(MESSAGES["no_output"]))
def test_what_is_no_output_is_kept_apart(vector):
    size = {"count": 24, "double": 8, "market-spread": 48, "passthrough": 1}[vector["app"]]
    value = vector["value"].encode()
    found = payloads.outputs(apps.APPS[vector["app"]]({}), size, [value])
    assert (len(found.payloads), found.odd) == (0, (value,))
