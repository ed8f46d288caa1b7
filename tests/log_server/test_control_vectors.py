"""The control lines of fixtures/vectors against the kit's own reading of them."""

import json
from pathlib import Path

import pytest

from tickproof.conformance.engines.control_channel import ControlChannel
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.output_streams import LineSplitter

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
CONTROL = json.loads((VECTORS / "control.json").read_text("utf-8"))
#: What the kit calls each kind of malformed line.
CODES = {
    "not-json": {Code.BAD_LINE},
    "not-utf8": {Code.BAD_LINE},
    "not-an-object": {Code.BAD_LINE},
    "too-long": {Code.BAD_LINE},
    "incomplete": {Code.BAD_ANSWER, Code.UNKNOWN_ANSWER},
    "no-such-request": {Code.UNKNOWN_ANSWER},
}


def named(rows):
    return [pytest.param(row, id=row["name"]) for row in rows]


def channel():
    return ControlChannel(lambda: ("last line of stderr",), lambda: "")


def line_of(vector):
    if "repeat" in vector:
        parts = vector["repeat"]
        return (parts["before"] + parts["text"] * parts["times"] + parts["after"]).encode()
    return bytes.fromhex(vector["line_hex"]) if "line_hex" in vector else vector["line"].encode()


def receive(talk, line):
    for piece, overlong in LineSplitter().feed(line + b"\n"):
        talk.receive(piece, overlong, 1)


@pytest.mark.parametrize("vector", named(CONTROL["malformed"]))
def test_a_malformed_line_is_a_protocol_failure(vector):
    talk = channel()
    pending, _ = talk.submit(vector.get("op", "stop"), {})
    for before in vector.get("after", []):
        receive(talk, before.encode())
        assert pending.wait(1)["ok"]
    assert not talk.violations
    receive(talk, line_of(vector))
    found = [*talk.violations, pending.outcome]
    codes = {one.code for one in found if isinstance(one, EngineFailure)}
    assert len(codes) == 1
    assert codes <= CODES[vector["kind"]]


@pytest.mark.parametrize("vector", named(CONTROL["answers"]))
def test_an_answer_reaches_its_request(vector):
    talk = channel()
    pendings = {}
    for number in range(1, vector["to"] + 1):
        op = vector["op"] if number == vector["to"] else "stop"
        pendings[number], _ = talk.submit(op, {})
    receive(talk, vector["line"].encode())
    assert not talk.violations
    pending = pendings.pop(vector["to"])
    assert not any(other.done for other in pendings.values())
    if vector["ok"]:
        assert pending.wait(1) == json.loads(vector["line"])
    else:
        with pytest.raises(EngineFailure) as caught:
            pending.wait(1)
        assert caught.value.code is Code.REFUSED


@pytest.mark.parametrize("vector", named(CONTROL["requests"]))
def test_the_kit_writes_requests_of_this_shape(vector):
    request = json.loads(vector["line"])
    fields = {name: value for name, value in request.items() if name not in ("id", "op")}
    _, line = channel().submit(request["op"], fields)
    assert json.loads(line) == request | {"id": 1}
    assert "\n" not in line
