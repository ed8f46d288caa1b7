"""The client of the log against the kit's own log server, and against one that lies."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.reference.served import (
    DEADLINE_S,
    RECORDS,
    Served,
    chunk,
    numbers,
    partition,
    refused,
    serving_numbers,
)
from tickproof.reference.apps.double import NUMBER
from tickproof.reference.connectors import sink, source, wire
from tickproof.reference.connectors.wire import Log, LogError


@pytest.fixture
def served(tmp_path):
    with serving_numbers(tmp_path) as made:
        yield made


# -- reading ------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_reading_over_the_borders_of_chunks(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("log")
    part = partition(folder / "in", 0, 0, numbers(RECORDS))
    with Served(folder, [part], 8) as made, pytest.MonkeyPatch.context() as patch:
        made.publish()
        client = made.connect()
        for _ in range(5):  # one connection serves many reads
            patch.setattr(wire, "CHUNK_BYTES", data.draw(st.integers(1, 600)))
            start = data.draw(st.integers(0, RECORDS - 1))
            end = data.draw(st.integers(start + 1, RECORDS))
            chunks = list(client.read(0, 0, start, end))
            at = start
            for base, count, records in chunks:
                assert (base, len(records)) == (at, count * NUMBER.itemsize)
                at += count
            assert at == end
            read = np.frombuffer(b"".join(c.records for c in chunks), NUMBER)
            assert read["x"].tolist() == list(range(start, end))


def test_a_read_may_end_in_the_middle_of_a_fetch(served):
    client = served.connect()
    (only,) = client.read(0, 1, 10, 15)
    assert (only.base, only.count) == (10, 5)
    assert np.frombuffer(only.records, NUMBER)["x"].tolist() == [1010, 1011, 1012, 1013, 1014]


def test_tail_and_release(served):
    client = served.connect()
    assert client.tail(0, 1) == (0, RECORDS, False)
    client.release(0, 1, 7)
    served.log.end()
    assert client.tail(0, 1) == (7, RECORDS, True)
    assert client.tail(0, 0) == (0, RECORDS, True)


# -- refusals -----------------------------------------------------------------------


def test_a_released_offset(served):
    client = served.connect()
    client.release(0, 1, 7)
    with refused("FETCH of stream 0, partition 1 at offset 6 was refused (code 3): offset 6 "):
        list(client.read(0, 1, 6, 10))
    assert [c.count for c in client.read(0, 1, 7, 10)] == [3]


def test_a_release_between_two_fetches(served, monkeypatch):
    monkeypatch.setattr(wire, "CHUNK_BYTES", 4 * NUMBER.itemsize)
    client, other = served.connect(), served.connect()
    chunks = client.read(0, 0, 0, 20)
    assert next(chunks).count == 4
    assert next(chunks).base == 4
    other.release(0, 0, 20)
    with pytest.raises(LogError, match=r"at offset 8 was refused \(code 3\): "):
        list(chunks)


def test_an_offset_beyond_the_end(served):
    client = served.connect()
    with refused("FETCH of stream 0, partition 0 at offset 41 was refused (code 4): offset 41 "):
        list(client.read(0, 0, RECORDS + 1, 50))
    with refused("stream 0, partition 0: expected records at offset 40, got 0 at 40"):
        list(served.connect().read(0, 0, RECORDS, 50))
    with refused("RELEASE of 0/0 at 41 was refused (code 4): RELEASE to 41"):
        served.connect().release(0, 0, RECORDS + 1)


def test_an_unknown_partition(served):
    client = served.connect()
    with refused("TAIL of 0/2 was refused (code 2): there is no input stream 0, partition 2"):
        client.tail(0, 2)
    with refused("FETCH of stream 3, partition 0 at offset 0 was refused (code 2): "):
        list(client.read(3, 0, 0, 1))
    with refused("HAVE of writer 1 was refused (code 2): there is no output stream 9"):
        client.have(9, 1)


def test_a_fenced_writer(served):
    old, young = served.connect(), served.connect()
    assert old.have(0, 3) == 0
    old.stage(5, 0, 3, 0, chunk(1))
    assert young.have(0, 3) == 0
    with refused("STAGE of transaction 5 was refused (code 7): writer 3 "):
        old.stage(5, 0, 3, 0, chunk(2))
    assert old.commit(5) == sink.COMMITTED  # which is not fenced
    assert served.outputs(NUMBER)["x"].tolist() == [1]
    assert young.have(0, 3) == 1


def test_a_gap_in_the_numbers(served):
    client = served.connect()
    client.have(0, 3)
    client.stage(5, 0, 3, 2, chunk(1, 2))
    with refused("COMMIT of transaction 5 was refused (code 6): writer 3: first_seq 2"):
        client.commit(5)
    assert len(served.outputs(NUMBER)) == 0
    client.stage(5, 0, 3, 0, chunk(7))
    assert client.commit(5) == sink.COMMITTED


def test_the_life_of_a_transaction(served):
    client = served.connect()
    assert client.commit(8) == sink.UNKNOWN
    for values in ([1, 2], [3]):  # a second STAGE of the writer replaces the first
        client.stage(8, 0, 1, client.have(0, 1), chunk(*values))
    client.stage(8, 0, 2, client.have(0, 2), chunk(4))
    assert client.commit(8) == sink.COMMITTED
    assert client.commit(8) == sink.ALREADY
    assert sorted(served.outputs(NUMBER)["x"].tolist()) == [3, 4]
    assert client.have(0, 1) == 1


# -- connections --------------------------------------------------------------------


def test_a_wrong_token(served):
    address = f"127.0.0.1:{served.server.port}"
    with refused(f"HELLO to {address}, with the token: the log closed the connection"):
        Log("127.0.0.1", served.server.port, "00" * 16)


def test_a_log_that_is_gone(served):
    client = served.connect()
    assert client.tail(0, 0).end == RECORDS
    served.stop()
    # It may show as an orderly end, as a reset, or as a broken pipe.
    with pytest.raises((LogError, ConnectionError), match=r"closed|reset|pipe"):
        client.tail(0, 0)
    port = served.server.port
    with pytest.raises(LogError, match=rf"connection to 127\.0\.0\.1:{port}: .*refused"):
        Log("127.0.0.1", port, "00" * 16)


HELLO = struct.pack("<IBHI", 7, 0x81, 1, wire.MAX_FRAME)


@contextmanager
def lying(*replies: bytes):
    """A log that greets, answers a request with each of these, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(DEADLINE_S)

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(DEADLINE_S)
        with connection, suppress(ConnectionError):  # the client may be gone first
            connection.recv(1 << 16)
            connection.sendall(HELLO)
            for reply in replies:
                connection.recv(1 << 16)
                connection.sendall(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    client = Log("127.0.0.1", listener.getsockname()[1], "00" * 16)
    try:
        yield client
    finally:
        client.close()
        thread.join(DEADLINE_S)
        listener.close()
    assert not thread.is_alive()


def fetched(base: int, sizes: list[int], count: int | None = None) -> bytes:
    """Return a FETCH reply with records of these sizes."""
    region = b"".join(struct.pack("<I", size) + bytes(size) for size in sizes)
    count = len(sizes) if count is None else count
    body = struct.pack("<BHHQQBI", 0x82, 0, 0, base, 99, 0, count) + region
    return struct.pack("<I", len(body)) + body


CLOSED = "FETCH of stream 0, partition 0 at offset 5: the log closed the connection"
LIES = {
    "another op": (
        struct.pack("<IB", 1, 0x84),
        "FETCH of stream 0, partition 0 at offset 5: expected reply 0x82, got op 0x84 of 1 bytes",
    ),
    "too long": (
        struct.pack("<IB", wire.MAX_FRAME + 1, 0x82),
        "FETCH of stream 0, partition 0 at offset 5: expected reply 0x82, got op 0x82 of 16777217 ",
    ),
    "another offset": (
        fetched(4, [8, 8]),
        "stream 0, partition 0: expected records at offset 5, got 2 at 4",
    ),
    "no record": (
        fetched(5, []),
        "stream 0, partition 0: expected records at offset 5, got 0 at 5",
    ),
    "a record of another size": (
        fetched(5, [8, 8, 7, 9]),
        "stream 0, partition 0, offset 7: expected a record of 8 bytes",
    ),
    "fewer bytes than records": (
        fetched(5, [8, 8], count=3),
        "stream 0, partition 0, offset 5: expected 3 records of 8 bytes, got 24 bytes in all",
    ),
    "an end in the middle": (fetched(5, [8, 8])[:-3], CLOSED),
    "an end in the head": (fetched(5, [8, 8])[:3], CLOSED),
    "an end": (b"", CLOSED),
    "an error that is not text": (
        struct.pack("<IBH", 5, 0xFF, 4) + b"\xff!",
        r"FETCH of stream 0, partition 0 at offset 5 was refused (code 4): \xff!",
    ),
}


@pytest.mark.parametrize(("reply", "text"), LIES.values(), ids=LIES.keys())
def test_a_log_that_lies(reply, text):
    with lying(reply) as client:
        with refused(text):
            list(client.read(0, 0, 5, 8))
        whole = reply == fetched(5, [8, 8, 7, 9]) or "expected 3 records" in text or "code" in text
        assert client.lost is not whole


def test_a_log_that_falls_silent_is_asked_again_on_another_connection(served, monkeypatch):
    monkeypatch.setattr(wire, "SILENT_S", 2)
    with lying(b"\0", b"") as silent:
        clients = [silent, served.connect()]
        monkeypatch.setattr(source, "connected", lambda _: clients[clients[0].lost])
        patient = {"persist_s": "1"}  # less than the silence takes
        tail = source.persistently(patient, lambda log: log.tail(0, 0))
    assert silent.lost
    assert tail.end == RECORDS


def test_a_later_reply_with_records_of_another_size():
    with lying(fetched(5, [8]), fetched(5, [8, 8]), fetched(7, [20])) as client:
        with refused("stream 0, partition 0, offset 7: expected a record of 8 bytes"):
            list(client.read(0, 0, 5, 8))


# -- offsets -----------------------------------------------------------------------

LIMIT = ReadMaxRows(10)


@pytest.fixture
def reader(served, tmp_path):
    """The source of the log, in a checkpoint that app double began."""
    options = {**served.options, "stream": "0", "partitions": "2", "checkpoint": "hdfs://a/b"}
    options["planned"] = str(tmp_path / "planned")
    return source.LogReader(options, lambda number, chunks: iter(()), {"application": "double"})


def test_what_the_next_batch_begins_at_is_released(served, reader):
    start = reader.initialOffset()
    assert start == {"application": "double", "0/0": 0, "0/1": 0}
    end = reader.latestOffset(start, LIMIT)
    assert end == {"application": "double", "0/0": 5, "0/1": 5}
    assert [part.value for part in reader.partitions(start, end)] == [(0, 0, 5), (1, 0, 5)]
    assert served.released == {"0/0": 0, "0/1": 0}
    for _ in range(2):  # as often as Spark asks
        assert reader.latestOffset(end | {"0/1": RECORDS}, LIMIT) == end | {
            "0/0": 15,
            "0/1": RECORDS,
        }
        assert served.released == {"0/0": 5, "0/1": RECORDS}
    assert reader.latestOffset(end, ReadAllAvailable()) == {**end, **served.ends}


def test_a_log_that_ends_before_what_was_read(served, reader):
    with refused("0/1 ends at 40, but was read to 41: another log?"):
        reader.latestOffset(reader.initialOffset() | {"0/1": 41}, LIMIT)
    assert served.released == {"0/0": 0, "0/1": 0}


@pytest.mark.parametrize("other", [{"application": "count"}, {}])
def test_offsets_of_another_checkpoint(served, reader, other):
    offset = {**other, "0/0": 8, "0/1": 8}
    text = f"hdfs://a/b: application: expected 'double', got {other.get('application')!r}"
    for refuse in (reader.latestOffset, reader.partitions):
        with pytest.raises(source.CheckpointError, match=f"^{text}$"):
            refuse(offset, offset)
    assert served.released == {"0/0": 0, "0/1": 0}
