"""A log server with an input log and a recorder, and clients that speak frames to it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np

from tests.log_server import wire
from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.frame_splitter import FrameReader
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour

DEADLINE_S = 20
SIZE = 8


def region(*numbers: int) -> bytes:
    """Return framed records of 8 bytes."""
    return b"".join(struct.pack("<IQ", SIZE, number) for number in numbers)


def append(first_seq: int, *numbers: int, writer: int = 0, stream: int = 0) -> frames.Append:
    """Return an APPEND of 8-byte records."""
    return frames.Append(
        stream, writer, first_seq, len(numbers), memoryview(region(*numbers)), SIZE
    )


def until(condition) -> None:
    """Wait for a condition; fails at the deadline."""
    tick, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        tick.wait(0.001)


class Client:
    """One greeted connection."""

    def __init__(self, server: LogServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), DEADLINE_S)
        self.reader = FrameReader(self.socket)
        assert self.call(frames.Hello(1, server.token)).fields == (1, frames.MAX_FRAME)

    def send(self, *requests) -> None:
        self.socket.sendall(b"".join(map(wire.encode_request, requests)))

    def receive(self) -> wire.Reply:
        found = self.reader.next()
        assert found is not None, "the server closed the connection"
        reply = wire.decode_reply(*found)
        return reply._replace(region=None if reply.region is None else bytes(reply.region))

    def call(self, request) -> wire.Reply:
        self.send(request)
        return self.receive()

    def code(self, request) -> int:
        """Send a request that must be refused; return the code."""
        reply = self.call(request)
        assert reply.op == 0xFF, reply
        return reply.fields[0]

    def fetch(self, offset: int, max_bytes: int = 1 << 20, wait_ms: int = 0) -> wire.Reply:
        return self.call(frames.Fetch(0, 0, offset, max_bytes, wait_ms))

    def have(self, writer: int = 0) -> int:
        return self.call(frames.Have(0, writer)).fields[1]

    def close(self) -> None:
        self.socket.close()


def lost() -> Future[bool]:
    """Return what an observer answers where a frame is to count as never sent."""
    found: Future[bool] = Future()
    found.set_result(True)
    return found


class LogBench:
    """Everything of a run's data plane; input partition 0 holds 0, 1, 2, ... as u64."""

    def __init__(self, folder, records=0, behaviour=None, observer=None) -> None:
        self.folder, self.events = folder, []
        path = folder / "input"
        path.write_bytes(region(*range(records)))
        source = SimpleNamespace(
            stream=0, partition=0, path=path, record_size=SIZE, records=records
        )
        self.log = InputLog([source], folder, self.note)
        self.recorder = Recorder(folder / "output", {0: SIZE}, self.note)
        self.sink = Sink(behaviour or SinkBehaviour(), self.note)
        self.server = LogServer(self.log, self.recorder, self.sink, self.note, observer=observer)
        self._stack = ExitStack()

    def note(self, event, *_, **fields) -> None:
        self.events.append((event, fields))

    def connect(self) -> Client:
        client = Client(self.server)
        self._stack.callback(client.close)
        return client

    def await_waiting(self) -> None:
        """Wait until a FETCH waits."""
        until(lambda: self.server._waiting)

    def recorded(self) -> list[tuple[int, int, list[int]]]:
        """Return (writer, first_seq, numbers) of each arrival, from the files."""
        return recorded(self.folder / "output", closed=False)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self._stack.close()
        assert self.server.wait_idle(DEADLINE_S)
        self.server.close()
        self.recorder.close()


def recorded(folder, closed=True) -> list[tuple[int, int, list[int]]]:
    """Return (writer, first_seq, numbers) of each arrival of stream 0.

    Behind them staged records may lie, until the recorder is closed.
    """
    arrivals = np.fromfile(folder / "s0.arrivals", ARRIVAL)
    log = np.fromfile(folder / "s0.log", [("size", "<u4"), ("x", "<u8")])
    assert (log["size"] == SIZE).all()
    arrived = arrivals["count"].sum()
    assert len(log) == arrived if closed else len(log) >= arrived
    return [
        (
            int(row["writer"]),
            int(row["first_seq"]),
            log["x"][int(row["index"]) : int(row["index"] + row["count"])].tolist(),
        )
        for row in arrivals
    ]
