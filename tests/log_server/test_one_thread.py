"""The log server is one thread: it must wait for nobody, and bound what it holds."""

from __future__ import annotations

import errno
import os
import resource
import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from tests.log_server import wire
from tests.log_server.logbench import (
    DEADLINE_S,
    SIZE,
    Client,
    LogBench,
    append,
    recorded,
    region,
    until,
)
from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.connection import BURST
from tickproof.conformance.log_server.frame_splitter import FrameReader
from tickproof.conformance.log_server.frames import Fetch, Tail
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.listener import listener
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer, NoClock
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour

LONG_MS = DEADLINE_S * 1000
#: What a process may grow by while replies of hundreds of MiB are asked for.
GROWTH = 64 << 20


@pytest.fixture
def bench(tmp_path):
    with LogBench(tmp_path, records=10_000) as made:
        yield made


class Looped:
    """A loop server over records of any size, with a clock of the test's own."""

    def __init__(self, folder, clock, records=10, size=SIZE, observer=None):
        self.events = []
        path = folder / "input"
        rows = np.zeros(records, [("size", "<u4"), ("payload", f"V{size}")])
        rows["size"] = size
        rows.tofile(path)
        source = SimpleNamespace(
            stream=0, partition=0, path=path, record_size=size, records=records
        )
        self.log = InputLog([source], folder, self.note)
        self.recorder = Recorder(folder / "output", {0: SIZE}, self.note)
        sink = Sink(SinkBehaviour(), self.note)
        self.server = LogServer(
            self.log, self.recorder, sink, self.note, observer=observer, clock=clock
        )

    def note(self, event, *_, **fields):
        self.events.append((event, fields))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()
        self.recorder.close()


class Ticking(NoClock):
    """A clock by which something is always due; notes how far ``seen`` is each time."""

    def __init__(self, seen=()):
        self.seen, self.counts = seen, []

    @property
    def due_ns(self):
        return time.monotonic_ns()

    def publish_due(self):
        self.counts.append(len(self.seen))


class Far(NoClock):
    """A clock by which nothing is due for a minute."""

    def __init__(self):
        self.due_ns = time.monotonic_ns() + 60_000_000_000


# -- many connections, one thread -------------------------------------------------------------


def test_a_fetch_that_waits_holds_up_what_is_behind_it(tmp_path):
    with LogBench(tmp_path, 10) as bench:
        client, other = bench.connect(), bench.connect()
        client.send(Fetch(0, 0, 0, 1 << 20, LONG_MS), append(0, 7), Tail(0, 0))
        bench.await_waiting()
        client.send(append(1, 8))
        assert other.have(5) == 0
        assert bench.recorder.records == 0
        bench.log.publish([2])
        replies = [client.receive() for _ in range(4)]
        assert [reply.op for reply in replies] == [0x82, 0x85, 0x83, 0x85]
        assert bench.recorded() == [(0, 0, [7]), (0, 1, [8])]


def test_frames_may_come_a_byte_at_a_time(tmp_path):
    with LogBench(tmp_path, 10) as bench:
        bench.log.publish([10])
        client = bench.connect()
        data = b"".join(map(wire.encode_request, [append(0, 1, 2), Fetch(0, 0, 3, 12, 0)]))
        for number in range(len(data)):
            client.socket.sendall(data[number : number + 1])
        assert client.receive().fields == (0, 2)
        assert client.receive().region == region(3)


def test_a_peer_that_reads_late_holds_up_nobody_and_costs_no_memory(tmp_path):
    record, records = 1 << 20, 15
    with LogBench(tmp_path, 0) as bench:
        path = tmp_path / "large"
        rows = np.zeros(records, [("size", "<u4"), ("payload", f"V{record - 4}")])
        rows["size"] = record - 4
        rows["payload"][:] = np.random.default_rng(1).bytes(record - 4)
        rows.tofile(path)
        part = bench.log._partitions[0]
        with path.open("rb") as file:
            os.dup2(file.fileno(), part.fd)
        part.stride, part.records = record, records
        bench.log.publish([records])
        slow, other = bench.connect(), bench.connect()
        before = psutil.Process().memory_info().rss
        asked = 20
        slow.send(*[Fetch(0, 0, 0, frames.MAX_FRAME, 0)] * asked)
        until(lambda: bench.log.fetched)
        for number in range(50):
            other.call(append(number, number))
        assert bench.recorder.records == 50
        assert psutil.Process().memory_info().rss - before < GROWTH
        expected = rows.tobytes()
        for _ in range(asked):
            assert slow.receive().region == expected
        assert slow.call(append(0, 1, writer=1)).fields == (1, 1)


def test_replies_that_are_not_read_stop_the_reading_of_requests(tmp_path):
    with LogBench(tmp_path, 5_000) as bench:
        bench.log.publish([5_000])
        client = bench.connect()
        client.socket.settimeout(0.3)
        one = wire.encode_request(Fetch(0, 0, 0, 1 << 20, 0))
        sent = 0
        before = psutil.Process().memory_info().rss
        with pytest.raises(TimeoutError):
            while sent < 1 << 30:
                sent += client.socket.send(one * 4096)
        assert psutil.Process().memory_info().rss - before < GROWTH
        client.close()
        assert bench.server.wait_idle(DEADLINE_S)


def test_all_replies_reach_a_peer_that_has_sent_its_last(tmp_path):
    with LogBench(tmp_path, 5_000) as bench:
        bench.log.publish([5_000])
        client = bench.connect()
        client.send(*[Fetch(0, 0, 0, 1 << 20, 0)] * 200, append(0, 1))
        client.socket.shutdown(socket.SHUT_WR)
        assert {client.receive().op for _ in range(200)} == {0x82}
        assert client.receive().fields == (0, 1)
        assert client.reader.next() is None


def test_a_frame_that_is_too_large_is_refused_behind_others(tmp_path):
    with LogBench(tmp_path, 1) as bench:
        client = bench.connect()
        large = (frames.MAX_FRAME + 1).to_bytes(4, "little")
        client.socket.sendall(wire.encode_request(append(0, 1)) + large)
        assert client.receive().fields == (0, 1)
        assert client.receive().fields == (frames.Code.TOO_LARGE,)
        until(lambda: bench.server.live == 0)


def test_a_dead_engine_is_read_to_its_end_while_its_fetches_wait(tmp_path):
    with LogBench(tmp_path, 10) as bench:
        clients = [bench.connect() for _ in range(5)]
        for number, client in enumerate(clients):
            client.send(Fetch(0, 0, 0, 1 << 20, LONG_MS), append(0, number, writer=number))
        until(lambda: bench.recorder.records == 0 and bench.server.live == 5)
        bench.await_waiting()
        for client in clients:
            client.close()
        bench.server.release_waits(True)
        assert bench.server.wait_idle(DEADLINE_S / 2)
        assert sorted(bench.recorded()) == [(n, 0, [n]) for n in range(5)]
        bench.server.release_waits(False)
        # The next life waits again.
        client = bench.connect()
        client.send(Fetch(0, 0, 0, 1 << 20, LONG_MS))
        bench.await_waiting()
        bench.log.publish([1])
        assert client.receive().region == region(0)


def test_close_ends_connections_that_are_open(tmp_path):
    bench = LogBench(tmp_path, 10)
    clients = [Client(bench.server) for _ in range(3)]
    clients[0].send(Fetch(0, 0, 0, 1 << 20, LONG_MS))
    bench.await_waiting()
    bench.server.close()
    assert clients[1].reader.next() is None
    assert clients[2].reader.next() is None
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", bench.server.port), 1)
    bench.recorder.close()
    for client in clients:
        client.close()


def test_a_connection_that_says_nothing_is_no_event(tmp_path):
    with LogBench(tmp_path, 1) as bench:
        socket.create_connection(("127.0.0.1", bench.server.port), DEADLINE_S).close()
        until(lambda: bench.server.connections == 1 and bench.server.live == 0)
        assert bench.events == []


# -- the schedule comes between ----------------------------------------------------------------


def test_a_wait_ends_in_time_before_the_first_tick(tmp_path):
    with Looped(tmp_path, Far()) as looped:
        client = Client(looped.server)
        began = time.monotonic()
        assert client.fetch(0, wait_ms=30).fields == (0, 0, 0, 0, 0, 0)
        assert 0.03 <= time.monotonic() - began < DEADLINE_S
        client.close()


def test_a_wait_ends_though_another_connection_never_rests(tmp_path):
    with Looped(tmp_path, Far()) as looped:
        busy, client = Client(looped.server), Client(looped.server)
        stop = threading.Event()

        def flood():
            while not stop.is_set():
                busy.call(Tail(0, 0))

        thread = threading.Thread(target=flood)
        thread.start()
        assert client.fetch(0, wait_ms=30).fields == (0, 0, 0, 0, 0, 0)
        stop.set()
        thread.join(DEADLINE_S)
        busy.close()
        client.close()


def test_ticks_come_between_the_requests_of_a_flood(tmp_path):
    seen = []
    clock = Ticking(seen)
    with Looped(tmp_path, clock, observer=lambda moment, _: seen.append(moment)) as looped:
        looped.log.publish([10])
        client = Client(looped.server)
        flood = [Fetch(0, 0, 0, 1, 0)] * 2_000
        threading.Thread(target=client.send, args=flood, daemon=True).start()
        for _ in flood:
            assert client.receive().fields[5] == 1
        client.close()
    assert len(seen) == len(flood)
    assert np.diff(clock.counts).max() <= BURST


def test_ticks_come_between_the_pieces_of_a_large_reply(tmp_path):
    clock = Ticking()
    with Looped(tmp_path, clock, records=8, size=(1 << 21) - 8) as looped:
        looped.log.publish([8])
        client = Client(looped.server)
        before = len(clock.counts)
        client.send(Fetch(0, 0, 0, frames.MAX_FRAME, 0))
        reader = FrameReader(client.socket, frames.MAX_FRAME)
        assert len(reader.next()[1]) > 14 << 20
        assert len(clock.counts) - before > 14 * 4
        client.close()


# -- limits of the system --------------------------------------------------------------------


def test_more_connections_than_select_knows(tmp_path):
    many = 1_030
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3 * many:
        pytest.skip(f"at most {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * many), hard))
    try:
        with LogBench(tmp_path, 10) as bench:
            hello = wire.encode_request(frames.Hello(1, bench.server.token))
            fetch = wire.encode_request(Fetch(0, 0, 0, 1 << 20, LONG_MS))
            socks = []
            for _ in range(many):
                sock = socket.create_connection(("127.0.0.1", bench.server.port), DEADLINE_S)
                sock.sendall(hello + fetch)
                socks.append(sock)
            until(lambda: len(bench.server._waiting) == many)
            bench.log.publish([1])
            tail = region(0)
            for sock in socks:
                data = b""
                while not data.endswith(tail):
                    data += sock.recv(1 << 10)
                sock.close()
            assert bench.server.wait_idle(DEADLINE_S)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_connection_that_cannot_be_accepted_is_accepted_later(bench, monkeypatch):
    real, failures = bench.server._listeners._sockets[0], []

    class Full:
        def __getattr__(self, name):
            return getattr(real, name)

        def accept(self):
            if len(failures) < 2:
                failures.append(1)
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real.accept()

    monkeypatch.setattr(bench.server._listeners, "_sockets", [Full()])
    client = bench.connect()
    assert client.call(append(0, 1)).fields == (0, 1)
    failed = [fields["text"] for event, fields in bench.events if event == "accept-failed"]
    assert len(failed) == 2
    assert "open files" in failed[0]


def test_what_prepare_raises_is_raised_and_the_server_is_closed(tmp_path, monkeypatch):
    opened = []

    def noted(port):
        opened.append(listener(port))
        return opened[-1]

    class Refused(NoClock):
        def prepare(self):
            raise PermissionError(errno.EPERM, "no priority for you")

    monkeypatch.setattr("tickproof.conformance.log_server.server.listener", noted)
    with pytest.raises(PermissionError, match="no priority for you"):
        Looped(tmp_path, Refused())
    assert opened[0].fileno() == -1  # closed


def test_a_failure_in_the_loop_is_kept_and_ends_all_connections(tmp_path):
    class Broken(NoClock):
        def publish_due(self):
            raise RuntimeError("the clock is broken")

    clock = Broken()
    with Looped(tmp_path, clock) as looped:
        client = Client(looped.server)
        clock.due_ns = 0
        assert client.reader.next() is None
        until(lambda: looped.server.live == 0)
        assert str(looped.server.failure) == "the clock is broken"
        (said,) = [fields["text"] for event, fields in looped.events if event == "loop-failed"]
        assert "RuntimeError: the clock is broken" in said
        client.close()


def test_output_that_cannot_be_written_ends_the_connection_not_the_loop(bench, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    client, other = bench.connect(), bench.connect()
    client.call(append(0, 1))
    monkeypatch.setattr("tickproof.conformance.log_server.recorder._write_all", full)
    client.send(append(1, 2))
    assert client.reader.next() is None
    assert other.call(Tail(0, 0)).op == 0x83
    assert bench.recorder.failure.errno == errno.ENOSPC
    assert recorded(bench.folder / "output") == [(0, 0, [1])]
