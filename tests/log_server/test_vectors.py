"""The vectors against an independent decoder, the kit's codecs and its payload layouts."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log_server import wire
from tickproof.conformance.log_server import frames
from tickproof.generators import layouts

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
REQUEST_CODES = {
    "HELLO": 1, "FETCH": 2, "TAIL": 3, "RELEASE": 4, "APPEND": 5,
    "HAVE": 6, "STAGE": 7, "COMMIT": 8, "ABORT": 9,
}  # fmt: skip
#: Field name and type, as the tables of docs/protocol.md give them. "R" is RECORDS.
FIELDS = {
    0x01: "version H, token 16s",
    0x02: "stream H, partition H, offset Q, max_bytes I, wait_ms I",
    0x03: "stream H, partition H",
    0x04: "stream H, partition H, offset Q",
    0x05: "stream H, writer Q, first_seq Q, records R",
    0x06: "stream H, writer Q",
    0x07: "txn Q, stream H, writer Q, first_seq Q, records R",
    0x08: "txn Q",
    0x09: "txn Q",
    0x81: "version H, max_frame I",
    0x82: "stream H, partition H, base_offset Q, end_offset Q, flags B, records R",
    0x83: "stream H, partition H, start_offset Q, end_offset Q, flags B",
    0x84: "",
    0x85: "writer Q, next_seq Q",
    0x86: "writer Q, next_seq Q",
    0x87: "txn Q",
    0x88: "txn Q, outcome B",
    0x89: "txn Q",
    0xFF: "code H, text T",
}


def load(name, key):
    return json.loads((VECTORS / name).read_text("utf-8"))[key]


def named(rows):
    return [pytest.param(row, id=row["name"]) for row in rows]


def take(data, position, kind):
    size = struct.calcsize("<" + kind)
    if position + size > len(data):
        raise ValueError("too short")
    return struct.unpack_from("<" + kind, data, position)[0], position + size


def take_records(data, position):
    count, position = take(data, position, "I")
    records = []
    for _ in range(count):
        size, position = take(data, position, "I")
        payload, position = take(data, position, f"{size}s")
        records.append(payload.hex())
    return records, position


def decode(data):
    """Return (op, fields) of exactly one frame; ValueError where it is malformed."""
    length, position = take(data, 0, "I")
    if length != len(data) - 4:
        raise ValueError("length does not fit")
    op, position = take(data, position, "B")
    found = {}
    for part in filter(None, FIELDS[op].split(", ")):
        name, kind = part.split()
        if kind == "R":
            found[name], position = take_records(data, position)
        elif kind == "T":
            found[name], position = data[position:].decode("utf-8"), len(data)
        else:
            value, position = take(data, position, kind)
            found[name] = value.hex() if kind == "16s" else str(value) if kind == "Q" else value
    if position != len(data):
        raise ValueError("bytes follow the body")
    return op, found


def payload_region(records):
    parts = [bytes.fromhex(record) for record in records]
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


@pytest.mark.parametrize("vector", named(load("frames.json", "vectors")))
class TestFrames:
    def test_an_independent_decoder_finds_the_fields(self, vector):
        op, found = decode(bytes.fromhex(vector["hex"]))
        assert f"0x{op:02x}" == vector["code"]
        assert found == vector["fields"]

    def test_the_code_is_that_of_op_and_direction(self, vector):
        base = REQUEST_CODES.get(vector["op"], 0xFF)
        reply = 0x80 if vector["direction"] == "from-kit" else 0
        assert int(vector["code"], 16) == base | reply

    def test_the_kit_decodes_and_encodes_the_same(self, vector):
        data = bytes.fromhex(vector["hex"])
        values = [
            int(value) if name not in ("token", "text", "records") else value
            for name, value in vector["fields"].items()
        ]
        if vector["direction"] == "from-kit":
            check_kit_reply(vector, data, values)
            return
        request = frames.decode_request(data[4], memoryview(data)[5:])
        assert wire.encode_request(request) == data
        if isinstance(request, frames.Hello):
            assert list(request) == [1, bytes.fromhex(vector["fields"]["token"])]
        elif "records" in vector["fields"]:
            append = request.append if isinstance(request, frames.Stage) else request
            assert [append.stream, append.writer, append.first_seq] == values[-4:-1]
            assert append.count == len(values[-1])
            assert bytes(append.region) == payload_region(values[-1])
        else:
            assert list(request) == values


def check_kit_reply(vector, data, values):
    reply = wire.decode_reply(data[4], memoryview(data)[5:])
    if vector["op"] == "ERROR":
        assert (list(reply.fields), reply.text) == (values[:1], values[1])
    elif "records" in vector["fields"]:
        assert list(reply.fields) == [*values[:-1], len(values[-1])]
        assert bytes(reply.region) == payload_region(values[-1])
    else:
        assert list(reply.fields) == values


def test_every_op_and_every_error_code_has_a_vector():
    vectors = load("frames.json", "vectors")
    assert {int(vector["code"], 16) for vector in vectors} == set(FIELDS)
    errors = {v["fields"]["code"] for v in vectors if v["op"] == "ERROR"}
    assert errors == {int(code) for code in frames.Code} == set(range(1, 9))
    outcomes = {v["fields"]["outcome"] for v in vectors if "outcome" in v["fields"]}
    assert outcomes == {1, 2, 3}


@pytest.mark.parametrize("file", ["frames.json", "payloads.json"])
def test_names_are_unique(file):
    names = [vector["name"] for vector in load(file, "vectors")]
    assert len(names) == len(set(names)) > 10


@pytest.mark.parametrize("vector", named(load("malformed.json", "after_hello")))
def test_a_malformed_frame_is_refused_by_both_decoders(vector):
    data = bytes.fromhex(vector["hex"])
    if vector["error"] == 5:
        assert struct.unpack_from("<I", data)[0] > frames.MAX_FRAME == 16 * 1024 * 1024
        return
    assert vector["error"] == 1
    in_the_space = vector["name"] != "append-numbers-beyond-the-space"
    if in_the_space:
        with pytest.raises((ValueError, KeyError)):
            op, _ = decode(data)
            if op & 0x80:
                raise ValueError("a reply is no request")
    if len(data) > 4:
        with pytest.raises(frames.BadFrame):
            frames.decode_request(data[4], memoryview(data)[5:])


@pytest.mark.parametrize("vector", named(load("payloads.json", "vectors")))
def test_payloads_fit_the_layouts(vector):
    data = bytes.fromhex(vector["hex"])
    if vector["layout"] == "bytes":
        assert data.hex() == vector["fields"]["bytes"]
        return
    dtype = getattr(layouts, vector["layout"])
    assert len(data) == dtype.itemsize
    record = np.frombuffer(data, dtype)[0]
    assert set(dtype.names) == set(vector["fields"]) | ({"zero"} & set(dtype.names))
    for name, value in vector["fields"].items():
        if name == "symbol":
            assert bytes(record[name]).ljust(8) == value.encode()
        else:
            assert int(record[name]) == int(value), name
    if "zero" in dtype.names:
        assert not np.any(record["zero"])


def test_every_layout_has_payload_vectors():
    assert {vector["layout"] for vector in load("payloads.json", "vectors")} == {
        "bytes",
        "NUMBER",
        "COUNT_IN",
        "COUNT_OUT",
        "QUOTE",
        "ORDER",
        "VERDICT",
    }


def wrap(number):
    return (number + 2**63) % 2**64 - 2**63


def test_rules_by_exact_arithmetic():
    for row in load("rules.json", "double"):
        assert wrap(2 * int(row["x"])) == int(row["out"])
    for row in load("rules.json", "count"):
        seen, points = {}, []
        for key, value in row["input"]:
            n, total = seen.get(key, (0, 0))
            seen[key] = n + 1, wrap(total + int(value))
            points.append([key, *map(str, seen[key])])
        assert points == row["every"], row["name"]
    verdicts = set()
    for row in load("rules.json", "spread"):
        bid, offer = int(row["bid"]), int(row["offer"])
        spread = offer - bid
        assert row["verdict"] == (spread >= 500 or 40 * spread >= bid + offer), row["why"]
        verdicts.add(row["verdict"])
    assert verdicts == {0, 1}


U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
RECORDS = st.lists(st.binary(max_size=9), max_size=6)
#: first_seq is a number with room for its records, or 2^64-1.
FIRST_SEQ = st.one_of(st.just(2**64 - 1), st.integers(0, 2**64 - 8))


@given(U64, U16, U64, FIRST_SEQ, RECORDS, st.booleans())
def test_any_output_frame_means_the_same_to_both_decoders(
    txn, stream, writer, first_seq, records, staged
):
    region = payload_region([record.hex() for record in records])
    sizes = {len(record) for record in records}
    size = sizes.pop() if len(sizes) == 1 else -1
    append = frames.Append(stream, writer, first_seq, len(records), memoryview(region), size)
    request = frames.Stage(txn, append) if staged else append
    data = wire.encode_request(request)
    _, found = decode(data)
    assert found["records"] == [record.hex() for record in records]
    assert [int(found[name]) for name in ("stream", "writer", "first_seq")] == list(append[:3])
    assert not staged or int(found["txn"]) == txn
    assert frames.decode_request(data[4], memoryview(data)[5:]) == request


@given(st.integers(0, 12), st.binary(max_size=60))
def test_any_bytes_are_well_formed_to_both_decoders_or_to_neither(op, body):
    data = struct.pack("<IB", 1 + len(body), op) + body
    try:
        decode(data)
        sound = True
    except (ValueError, KeyError):
        sound = False
    try:
        request = frames.decode_request(op, memoryview(body))
        assert sound
        assert wire.encode_request(request) == data
    except frames.BadFrame as error:
        assert not sound or "number space" in str(error)
