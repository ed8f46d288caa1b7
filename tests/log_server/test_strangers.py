"""Connections without the token: they cost next to nothing, and hold nobody up for long."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys

import pytest

from tests.log_server.logbench import DEADLINE_S, LogBench, until
from tickproof.conformance.log_server import frames, server

#: The start of a frame of 16 MiB: its length and its op.
_HUGE = struct.pack("<IB", frames.MAX_FRAME, frames.Op.APPEND)
#: Prints by how many bytes the log server grew while strangers were connected.
_MEASURED = """
import socket, sys, pathlib, psutil
from tests.log_server.logbench import DEADLINE_S, LogBench, until
said, many = bytes.fromhex(sys.argv[2]), int(sys.argv[3])
with LogBench(pathlib.Path(sys.argv[1]), 1) as bench:
    bench.connect()
    before = psutil.Process().memory_info().rss
    peers = []
    for number in range(1, many + 1):
        peers.append(socket.create_connection(("127.0.0.1", bench.server.port), DEADLINE_S))
        peers[-1].sendall(said)
        until(lambda: bench.server.connections > number)
    if said:
        until(lambda: bench.server.live == 1)
    print(psutil.Process().memory_info().rss - before)
    for peer in peers:
        peer.close()
"""


def _growth(folder, said: bytes, many: int) -> int:
    folder.mkdir()
    words = [sys.executable, "-c", _MEASURED, str(folder), said.hex(), str(many)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout)


def test_five_bytes_before_the_token_cost_no_more_than_none(tmp_path):
    silent = _growth(tmp_path / "silent", b"", 200)
    huge = _growth(tmp_path / "huge", _HUGE, 200)
    assert huge < 2 * silent + (4 << 20)


def _stranger(bench: LogBench, said: bytes = b"") -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", bench.server.port), DEADLINE_S)
    peer.sendall(said)
    return peer


def test_a_first_frame_that_no_hello_can_be_ends_the_connection(tmp_path):
    with LogBench(tmp_path, 1) as bench, _stranger(bench, _HUGE) as peer:
        assert peer.recv(1) == b""
        ((event, fields),) = bench.events
        assert (event, fields["text"]) == (
            "not-greeted",
            "before HELLO: a frame of 16,777,216 bytes, at most 64 are allowed",
        )


def test_a_hello_may_come_a_byte_at_a_time_with_a_long_frame_behind_it(tmp_path):
    with LogBench(tmp_path, 1) as bench:
        body = struct.pack("<HQQI", 0, 0, 0, 1) + struct.pack("<I", 1 << 20) + bytes(1 << 20)
        with _stranger(bench) as peer:
            hello = struct.pack("<IBH16s", 19, frames.Op.HELLO, 1, bench.server.token)
            for byte in hello:
                peer.sendall(bytes([byte]))
            peer.sendall(frames.frame(frames.Op.APPEND, body))
            until(lambda: bench.recorder.records == 1)


def test_too_many_strangers_wait_for_room_and_hold_up_no_greeted_connection(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "STRANGERS", 3)
    # They are all so young that their HELLO may be on its way.
    with LogBench(tmp_path, 1) as bench:
        bench.server.passed_s = lambda _: 0.0
        client = bench.connect()
        strangers = [_stranger(bench) for _ in range(5)]
        until(lambda: bench.server.connections == 4)
        assert client.have() == 0
        assert bench.server.connections == 4
        strangers.pop(0).close()
        until(lambda: bench.server.connections == 5)
        for stranger in strangers:
            stranger.close()


def test_the_oldest_stranger_makes_room_for_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "STRANGERS", 3)
    with LogBench(tmp_path, 1) as bench:
        bench.server.passed_s = lambda _: server.FIRST_S
        greeted = bench.connect()
        strangers = [_stranger(bench) for _ in range(50)]
        # Behind all of them, with nobody gone: before, it waited for a minute.
        assert bench.connect().have() == 0
        assert strangers[0].recv(1) == b""
        assert greeted.have() == 0
        assert bench.server.live <= 3 + 2
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize("said", [b"", _HUGE[:3]])
def test_a_hello_has_to_come_in_time(tmp_path, monkeypatch, said):
    monkeypatch.setattr(server, "GREETING_S", 0.2)
    with LogBench(tmp_path, 1) as bench:
        client = bench.connect()
        with _stranger(bench, said) as peer:
            assert peer.recv(1) == b""
        noted = [fields["text"] for event, fields in bench.events if event == "not-greeted"]
        assert noted == (["HELLO began, and did not come whole in time"] if said else [])
        assert client.have() == 0
