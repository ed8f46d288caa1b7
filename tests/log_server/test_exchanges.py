"""The exchanges of fixtures/vectors, played byte by byte against the log server."""

import json
import socket
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
EXCHANGES = json.loads((VECTORS / "exchanges.json").read_text("utf-8"))["exchanges"]
MALFORMED = json.loads((VECTORS / "malformed.json").read_text("utf-8"))
FRAMES = json.loads((VECTORS / "frames.json").read_text("utf-8"))["vectors"]
HELLO, GREETING = (
    next(bytes.fromhex(v["hex"]) for v in FRAMES if v["name"] == name)
    for name in ("hello", "hello-reply")
)
NUMBER_BYTES = 8
DEADLINE_S = 10


class Bench:
    """A log server with the given input, and named connections to it."""

    def __init__(self, folder, inputs, outputs):
        self.folder, self.events, self.connections = folder, [], {}
        sources = [self.partition(number, entry) for number, entry in enumerate(inputs)]
        self.log = InputLog(sources, folder, self.note)
        self.recorder = Recorder(folder / "output", dict.fromkeys(outputs, NUMBER_BYTES), self.note)
        self.log.publish([source.records for source in sources])
        if all(entry["ended"] for entry in inputs):
            self.log.end()
        sink = Sink(SinkBehaviour(), self.note)
        self.server = LogServer(self.log, self.recorder, sink, self.note)
        self.server.token = bytes(range(16))

    def note(self, event, *_, **fields):
        self.events.append((event, fields))

    def partition(self, number, entry):
        records = [bytes.fromhex(record) for record in entry["records"]]
        path = self.folder / f"input{number}"
        path.write_bytes(b"".join(struct.pack("<I", len(one)) + one for one in records))
        return SimpleNamespace(
            stream=entry["stream"],
            partition=entry["partition"],
            path=path,
            record_size=NUMBER_BYTES,
            records=len(records),
        )

    def connect(self, name):
        if name not in self.connections:
            address = "127.0.0.1", self.server.port
            self.connections[name] = socket.create_connection(address, DEADLINE_S)
        return self.connections[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections.values():
            connection.close()
        assert self.server.wait_idle(DEADLINE_S)
        self.server.close()
        self.recorder.close()

    def recorded(self, stream):
        """Return (writer, first_seq, payloads) of each arrival, from the files."""
        folder = self.folder / "output"
        arrivals = np.fromfile(folder / f"s{stream}.arrivals", ARRIVAL)
        log = np.fromfile(folder / f"s{stream}.log", [("size", "<u4"), ("x", "V8")])
        return [
            (
                str(row["writer"]),
                str(row["first_seq"]),
                [bytes(log["x"][row["index"] + i]).hex() for i in range(row["count"])],
            )
            for row in arrivals
        ]


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError(f"closed after {len(data)} of {size} bytes")
        data += piece
    return data


def read_frame(connection):
    head = read_exactly(connection, 4)
    return head + read_exactly(connection, struct.unpack("<I", head)[0])


def error_code(frame):
    assert frame[4] == 0xFF, f"expected an error, got {frame.hex()}"
    return struct.unpack_from("<H", frame, 5)[0]


def play(bench, step):
    connection = bench.connect(step["connection"])
    if step.get("close"):
        bench.connections.pop(step["connection"]).close()
        return
    connection.sendall(bytes.fromhex(step["send"]))
    if "error" in step:
        assert error_code(read_frame(connection)) == step["error"]
    else:
        expected = bytes.fromhex(step["reply"])
        assert read_exactly(connection, len(expected)).hex() == expected.hex()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange["name"])
def test_exchange(exchange, tmp_path):
    with Bench(tmp_path, exchange["inputs"], exchange["outputs"]) as bench:
        for number, step in enumerate(exchange["steps"]):
            try:
                play(bench, step)
            except (AssertionError, EOFError, OSError) as error:
                pytest.fail(f"step {number} {step}: {error}")
    expected = [(r["writer"], r["first_seq"], r["records"]) for r in exchange["recorded"]]
    assert bench.recorded(0) == expected


def end_of(connection):
    """Read to the end; a reset is an end too: the kit left bytes unread."""
    try:
        return connection.recv(1)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("vector", MALFORMED["after_hello"], ids=lambda vector: vector["name"])
def test_malformed_frame_is_answered_and_ends_the_connection(vector, tmp_path):
    with Bench(tmp_path, [], [0]) as bench:
        connection = bench.connect("a")
        connection.sendall(HELLO)
        assert read_frame(connection) == GREETING
        connection.sendall(bytes.fromhex(vector["hex"]))
        assert error_code(read_frame(connection)) == vector["error"]
        assert end_of(connection) == b""
    assert bench.recorded(0) == []
    codes = [fields["code"] for event, fields in bench.events if event == "refused"]
    assert codes == [vector["error"]]


@pytest.mark.parametrize("vector", MALFORMED["as_first_frame"], ids=lambda vector: vector["name"])
def test_wrong_first_frame_ends_the_connection_without_an_answer(vector, tmp_path):
    with Bench(tmp_path, [], [0]) as bench:
        connection = bench.connect("a")
        connection.sendall(bytes.fromhex(vector["hex"]))
        connection.shutdown(socket.SHUT_WR)
        assert end_of(connection) == b""
    assert "not-greeted" in [event for event, _ in bench.events]


def test_frame_cut_off_by_the_peer_is_noted(tmp_path):
    append = next(bytes.fromhex(v["hex"]) for v in FRAMES if v["name"] == "append-two-records")
    with Bench(tmp_path, [], [0]) as bench:
        connection = bench.connect("a")
        connection.sendall(HELLO + append[:-1])
        connection.shutdown(socket.SHUT_WR)
        assert read_frame(connection) == GREETING
        assert end_of(connection) == b""
    assert bench.recorded(0) == []
    assert "truncated" in [event for event, _ in bench.events]
    assert (tmp_path / "output" / "s0.log").stat().st_size == 0
