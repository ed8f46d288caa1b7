"""What the proxy reads of the Kafka protocol, against messages of real clients and an oracle."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka import messages
from tickproof.conformance.kafka import metadata, transaction_messages, wire
from tickproof.conformance.kafka.fields import Fields, Malformed
from tickproof.conformance.kafka.names import NameKind, names
from tickproof.conformance.kafka.record_batches import batches
from tickproof.conformance.kafka.transaction_messages import GroupAdded, Offsets, TransactionEnd
from tickproof.conformance.kafka.wire import Api, Header, Topic

UUID = bytes(range(16))


@dataclass(frozen=True)
class Vector:
    """A request of a real client to a broker 4.1.0, and its answer."""

    client: str
    key: int
    version: int
    request: str
    answer: str

    @property
    def frames(self) -> tuple[Header, memoryview, memoryview]:
        asked = memoryview(bytes.fromhex(self.request))
        return wire.header(asked), asked, memoryview(bytes.fromhex(self.answer))


VECTORS = [
    Vector(**one) for one in json.loads((Path(__file__).parent / "vectors.json").read_text())
]


def vector(client: str, key: Api) -> tuple[Header, memoryview, memoryview]:
    return next(one.frames for one in VECTORS if (one.client, one.key) == (client, key))


def of(key: Api) -> list[Vector]:
    return [one for one in VECTORS if one.key == key]


def name(one: Vector) -> str:
    return f"{one.client}-{Api(one.key).name}-{one.version}"


LATEST, EARLIEST = struct.pack(">q", -1), struct.pack(">q", -2)


@pytest.mark.parametrize("version", [1, 2, 4, 6, 11])
def test_ends_that_are_asked_for_and_named(version: int) -> None:
    head = Header(Api.LIST_OFFSETS, version, 7)
    flexible = version >= 6
    tags = b"\0" * flexible
    many = (lambda n: bytes([n + 1])) if flexible else (lambda n: struct.pack(">i", n))
    text = (b"\x04" if flexible else b"\0\x03") + b"log"
    epoch = struct.pack(">i", 5) * (version >= 4)
    asked = struct.pack(">hhi", *head) + b"\0\x01c" + tags + struct.pack(">i", -1)
    asked += b"\x01" * (version >= 2) + many(1) + text + many(2)
    for partition, when in ((0, LATEST), (1, EARLIEST)):
        asked += struct.pack(">i", partition) + epoch + when + tags
    asked += tags + struct.pack(">i", 30_000) * (version >= 10) + tags
    assert wire.end_request(memoryview(asked), head).partitions == {("log", 0)}
    answer = struct.pack(">i", 7) + tags + struct.pack(">i", 0) * (version >= 2)
    answer += many(1) + text + many(2)
    for partition, error, offset in ((0, 0, 12), (1, 6, -1)):
        answer += struct.pack(">ihqq", partition, error, -1, offset) + epoch + tags
    answer += tags + tags
    assert wire.offsets(memoryview(answer), head) == {("log", 0): 12}


# -- real clients --------------------------------------------------------------------------------


@pytest.mark.parametrize("one", VECTORS, ids=name)
def test_header_of_a_real_request(one: Vector) -> None:
    head, _, answer = one.frames
    assert (head.key, head.version) == (one.key, one.version)
    assert wire.correlation(answer) == head.correlation


@pytest.mark.parametrize("one", of(Api.FETCH), ids=name)
def test_records_of_a_real_fetch(one: Vector) -> None:
    head, asked, answer = one.frames
    assert {position.offset for position in wire.fetch_request(asked, head).positions} <= {0, 5}
    found = wire.fetched(answer, head)
    ends = [[(b.first, b.end, b.size) for b in one.batches()] for one in found]
    assert ends and all(part == [(0, 5, 5)] for part in ends)
    for fetched in found:
        assert struct.unpack_from(">qq", answer, fetched.watermark) == (5, 5)


@pytest.mark.parametrize("one", of(Api.PRODUCE), ids=name)
def test_records_of_a_real_produce(one: Vector) -> None:
    head, asked, answer = one.frames
    request = wire.produce_request(asked, head)
    assert request.transactional and request.transactional_id and request.acks == -1
    assert all(one.batch.producer_id >= 0 and one.batch.sequence == 0 for one in request.batches)
    parts = {(topic, number) for topic, numbers in request.partitions for number in numbers}
    assert parts == {(one.topic, one.partition) for one in request.batches}
    assert wire.produce_errors(answer, head) == dict.fromkeys(parts, 0)


@pytest.mark.parametrize("one", of(Api.TXN_OFFSET_COMMIT) + of(Api.OFFSET_COMMIT), ids=name)
def test_offsets_of_a_real_commit(one: Vector) -> None:
    head, asked, answer = one.frames
    found = transaction_messages.transaction_request(asked, head)
    assert isinstance(found, Offsets) and found.group
    assert (found.producer_id is not None) == (head.key == Api.TXN_OFFSET_COMMIT)
    assert {(p.partition, p.offset) for p in found.offsets} <= {(0, 5), (1, 5), (0, 3)}
    assert all(str(position.topic).startswith("in-") for position in found.offsets)
    assert transaction_messages.transaction_error(answer, head) == 0


@pytest.mark.parametrize("one", of(Api.END_TXN), ids=name)
def test_end_of_a_real_transaction(one: Vector) -> None:
    head, asked, answer = one.frames
    found = transaction_messages.transaction_request(asked, head)
    assert isinstance(found, TransactionEnd)
    assert found.commit and found.transactional_id and found.producer_id >= 0
    assert transaction_messages.transaction_error(answer, head) == 0


@pytest.mark.parametrize("one", of(Api.ADD_OFFSETS_TO_TXN), ids=name)
def test_group_added_to_a_real_transaction(one: Vector) -> None:
    head, asked, answer = one.frames
    found = transaction_messages.transaction_request(asked, head)
    assert isinstance(found, GroupAdded) and found.group
    assert transaction_messages.transaction_error(answer, head) == 0


@pytest.mark.parametrize("one", of(Api.METADATA) + of(Api.FIND_COORDINATOR), ids=name)
@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1"])
def test_address_of_a_real_answer_is_replaced_in_place(one: Vector, host: str) -> None:
    _, _, answer = one.frames
    at = bytes(answer).index(b"127.0.0.1")
    port = int.from_bytes(answer[at + 9 : at + 13], "big")
    changed = metadata.with_addresses(answer, {port: (host, 4711)})
    assert changed[at : at + 13] == host.encode() + struct.pack(">i", 4711)
    assert len(changed) == len(answer)
    assert metadata.with_addresses(answer, {port + 1: (host, 4711)}) == bytes(answer)
    elsewhere = memoryview(bytes(answer).replace(b"127.0.0.1", b"localhost"))
    assert metadata.with_addresses(elsewhere, {port: (host, 4711)}) == changed


@pytest.mark.parametrize("host", ["127.0.0.", "192.0.2."])
def test_each_broker_of_a_cluster_has_an_address_of_its_own(host: str) -> None:
    doors = metadata.doors([1001, 1002, 1003], (f"{host}1", 4711))
    assert doors == {1001: (f"{host}2", 4711), 1002: (f"{host}3", 4711), 1003: (f"{host}4", 4711)}
    assert metadata.doors([1001, 1002, 1003], doors[1003]) == doors
    assert [metadata.broker_behind(one, 3) for one, _ in doors.values()] == [1, 2, 3]
    assert metadata.broker_behind(f"{host}1", 3) == 0
    assert metadata.doors([1001], (f"{host}1", 4711)) == {1001: (f"{host}1", 4711)}
    assert metadata.broker_behind(f"{host}1", 1) == 1
    named = memoryview(b"".join(b"127.0.0.1" + struct.pack(">i", port) for port in doors))
    found = metadata.with_addresses(named, doors)
    assert found == b"".join(one.encode() + struct.pack(">i", port) for one, port in doors.values())


def test_ids_of_topics_in_real_metadata() -> None:
    # The id that the client produces by is the one that Metadata gave the name.
    head, _, answer = vector("java", Api.METADATA)
    names = metadata.topic_ids(answer, head)
    produce_head, produced, _ = vector("java", Api.PRODUCE)
    topics = {one.topic for one in wire.produce_request(produced, produce_head).batches}
    fetch_head, _, fetched = vector("java", Api.FETCH)
    topics |= {one.topic for one in wire.fetched(fetched, fetch_head)}
    assert names and topics & names.keys()


def test_port_in_an_answer_that_names_a_leader() -> None:
    # Of a broker 4.1.0, to a Produce that came before the topic had a leader (error 6).
    answer = memoryview(
        bytes.fromhex(
            "000000020002116f75742d36663861316238393535646402000000010006ffffffffffffffffffffffffffff"
            "ffffffffffffffffffff0100010009000000010000000000000000000001001502000000010a3132372e302e"
            "302e310000969b0000"
        )
    )
    head = Header(Api.PRODUCE, 10, 2)
    assert wire.produce_errors(answer, head) == {("out-6f8a1b8955dd", 1): 6}
    changed = metadata.with_leaders_addresses(answer, head, {0x969B: ("127.0.0.1", 4711)})
    assert bytes(changed).count(struct.pack(">i", 4711)) == 1
    assert metadata.with_leaders_addresses(changed, head, {4711: ("127.0.0.1", 0x969B)}) == answer


def test_records_that_look_like_a_leader_stay_as_they_are() -> None:
    named = b"\x0a127.0.0.1" + struct.pack(">i", 4711)
    data = messages.batch(0, 1, body=named)
    frame = messages.fetch_answer(16, {UUID: {0: data}}, leaders=named)
    there = {4711: ("127.0.0.1", 4712)}
    changed = bytes(metadata.with_leaders_addresses(frame, Header(Api.FETCH, 16, 7), there))
    assert changed == bytes(frame)[:-4] + struct.pack(">i", 4712)


# -- every version -------------------------------------------------------------------------------


def topic_of(version: int, by_id_from: int = 13) -> Topic:
    return UUID if version >= by_id_from else "t"


FETCH_VERSIONS = pytest.mark.parametrize("version", wire.READ[Api.FETCH])
PRODUCE_VERSIONS = pytest.mark.parametrize("version", wire.READ[Api.PRODUCE])


@FETCH_VERSIONS
def test_fetch_request_of_every_version(version: int) -> None:
    topic = topic_of(version)
    frame = messages.fetch_request(version, {topic: {0: 17, 3: 1 << 40}})
    found = wire.fetch_request(frame, wire.header(frame))
    assert found.max_wait_ms == 321
    assert found.positions == ((topic, 0, 17), (topic, 3, 1 << 40))


@FETCH_VERSIONS
@given(
    counts=st.lists(st.lists(st.integers(1, 1000), max_size=4), min_size=1, max_size=4),
    tags=st.integers(0, 2),
)
def test_fetch_answer_of_every_version(version: int, counts: list[list[int]], tags: int) -> None:
    records: dict[int, bytes] = {}
    expected: dict[int, list[tuple[int, int]]] = {}
    for number, sizes in enumerate(counts):
        at, parts, expected[number] = 40, b"", []
        for size in sizes:
            parts += messages.batch(at, size, body=b"r" * size)
            expected[number].append((at, at + size))
            at += size
        # A mark of the broker is no record, and what is cut off at the end does not count.
        cut_off = messages.batch(at + 1, 5, body=b"r" * 100)[:80]
        records[number] = parts + messages.batch(at, 1, control=True) + cut_off
    topic = topic_of(version)
    frame = messages.fetch_answer(version, {topic: records}, tags if version >= 12 else 0)
    found = wire.fetched(frame, Header(Api.FETCH, version, 7))
    assert [(one.topic, one.partition) for one in found] == [(topic, n) for n in records]
    for one in found:
        inside = list(one.batches())
        assert [(batch.first, batch.end) for batch in inside] == expected[one.partition]
        assert [batch.size for batch in inside] == counts[one.partition]


@FETCH_VERSIONS
def test_hidden_records_leave_an_answer_without_them(version: int) -> None:
    topic, other = topic_of(version), UUID[::-1] if version >= 13 else "other"
    data = messages.batch(5, 10, body=b"records")
    head = Header(Api.FETCH, version, 7)
    frame = messages.fetch_answer(version, {topic: {0: data, 1: data}, other: {0: data}})
    hidden = [(one, 5) for one in wire.fetched(frame, head) if one.topic == topic]
    assert len(hidden) == 2
    silent = memoryview(wire.without_records(frame, head, hidden))
    assert [(one.topic, one.partition) for one in wire.fetched(silent, head)] == [(other, 0)]
    # But for the high watermark and the last stable offset it is what a broker would say.
    empty = bytearray(messages.fetch_answer(version, {topic: {0: b"", 1: b""}, other: {0: data}}))
    assert len(empty) == len(silent)
    assert bytes(silent) == bytes(empty).replace(
        struct.pack(">qq", 100, 99), struct.pack(">qq", 5, 5), 2
    )


@PRODUCE_VERSIONS
@pytest.mark.parametrize("transactional_id", [None, "t-1"])
def test_produce_request_of_every_version(version: int, transactional_id: str | None) -> None:
    topic = topic_of(version)
    data = messages.batch(
        0, 20, producer_id=9, epoch=2, sequence=70, transactional=transactional_id is not None
    )
    frame = messages.produce_request(version, {topic: {4: data, 5: b""}}, transactional_id, 1)
    found = wire.produce_request(frame, wire.header(frame))
    assert (found.transactional_id, found.acks) == (transactional_id, 1)
    assert found.transactional == (transactional_id is not None)
    assert found.partitions == ((topic, (4, 5)),)
    (one,) = found.batches
    assert (one.topic, one.partition, one.batch.size) == (topic, 4, 20)
    assert (one.batch.producer_id, one.batch.epoch, one.batch.sequence) == (9, 2, 70)


@PRODUCE_VERSIONS
def test_refusal_of_every_version_is_read_as_one(version: int) -> None:
    topic = topic_of(version)
    frame = messages.produce_request(version, {topic: {0: b"", 300: b""}})
    head = wire.header(frame)
    refused = memoryview(wire.refusal(head, wire.produce_request(frame, head), 19))
    assert wire.correlation(refused) == head.correlation
    assert wire.produce_errors(refused, head) == {(topic, 0): 19, (topic, 300): 19}


def test_a_refusal_has_the_shape_of_a_real_answer() -> None:
    for client in ("java", "librdkafka"):
        head, asked, answer = vector(client, Api.PRODUCE)
        refused = wire.refusal(head, wire.produce_request(asked, head), 0)
        # Base offset, time and start of the log differ, and nothing else does.
        assert len(refused) == len(answer)
        assert sum(a != b for a, b in zip(refused, answer, strict=True)) <= 24 * 2


def test_the_harmless_request_answers_by_the_same_id() -> None:
    head = wire.header(memoryview(wire.harmless(Header(0, 9, 1234))))
    assert head == Header(Api.API_VERSIONS, 0, 1234)


def test_versions_of_the_future_are_not_read() -> None:
    for key, versions in wire.READ.items():
        assert Header(key, versions[-1], 0).read
        assert not Header(key, versions[-1] + 1, 0).read
    assert not Header(Api.API_VERSIONS, 0, 0).read


NAMING = [
    pytest.param(key, kind, version, version >= flexible, id=f"{key.name}-{version}")
    for key, kind, flexible in (
        (Api.JOIN_GROUP, NameKind.GROUP, 6),
        (Api.OFFSET_COMMIT, NameKind.GROUP, 8),
        (Api.CONSUMER_GROUP_HEARTBEAT, NameKind.GROUP, 0),
        (Api.STREAMS_GROUP_HEARTBEAT, NameKind.GROUP, 0),
        (Api.INIT_PRODUCER_ID, NameKind.TRANSACTIONAL_ID, 2),
    )
    for version in wire.READ[key]
]


@pytest.mark.parametrize(("key", "kind", "version", "flexible"), NAMING)
def test_names_of_every_version(key: Api, kind: NameKind, version: int, flexible: bool) -> None:
    frame = messages.first_text_request(key, version, flexible, "name " + "x" * 300)
    (found,) = names(frame, wire.header(frame))
    assert found == (kind, ("name " + "x" * 300)[:249])
    nameless = messages.first_text_request(key, version, flexible, "")
    assert names(nameless, wire.header(nameless)) == []


def test_a_producer_without_transactions_has_no_name() -> None:
    for version in wire.READ[Api.INIT_PRODUCER_ID]:
        frame = messages.first_text_request(Api.INIT_PRODUCER_ID, version, version >= 2, None)
        assert names(frame, wire.header(frame)) == []
        assert wire.timeout(frame, wire.header(frame)) is None


@pytest.mark.parametrize("version", wire.READ[Api.CREATE_TOPICS])
def test_names_of_topics_of_every_version(version: int) -> None:
    frame = messages.create_topics_request(version, ["one", "two"])
    found = names(frame, wire.header(frame))
    assert found == [(NameKind.TOPIC, "one"), (NameKind.TOPIC, "two")]


def test_other_requests_name_nothing() -> None:
    head, asked, _ = vector("java", Api.FETCH)
    assert names(asked, head) == []


# -- what is no message ----------------------------------------------------------------------------

READERS: dict[Api, list[Callable[[memoryview, Header], object]]] = {
    Api.FETCH: [wire.fetch_request, wire.fetched],
    Api.PRODUCE: [wire.produce_request, wire.produce_errors],
    Api.METADATA: [metadata.topic_ids],
    Api.OFFSET_COMMIT: [
        transaction_messages.transaction_request,
        transaction_messages.transaction_error,
    ],
    Api.TXN_OFFSET_COMMIT: [
        transaction_messages.transaction_request,
        transaction_messages.transaction_error,
    ],
    Api.ADD_OFFSETS_TO_TXN: [
        transaction_messages.transaction_request,
        transaction_messages.transaction_error,
    ],
    Api.END_TXN: [transaction_messages.transaction_request, transaction_messages.transaction_error],
    Api.CREATE_TOPICS: [names],
    Api.JOIN_GROUP: [names],
    Api.INIT_PRODUCER_ID: [names],
}


@given(st.data())
def test_any_bytes_are_read_or_malformed(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(list(READERS)))
    head = Header(key, data.draw(st.sampled_from(wire.READ[key])), 7)
    known = [one for one in VECTORS if one.key == key]
    if known and data.draw(st.booleans()):
        _, asked, answer = data.draw(st.sampled_from(known)).frames
        raw = bytearray(data.draw(st.sampled_from([asked, answer])))
        for _ in range(data.draw(st.integers(0, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    else:
        raw = bytearray(data.draw(st.binary(max_size=200)))
    outcomes = []
    for read in READERS[key]:
        try:
            outcomes.append(read(memoryview(bytes(raw)), head))
        except Malformed as error:
            outcomes.append(error)
    assert len(outcomes) == len(READERS[key])


@given(st.binary(max_size=300))
def test_batches_of_any_bytes_lie_within_them(raw: bytes) -> None:
    assert len(list(batches(memoryview(raw)))) <= len(raw) // 61


@given(st.integers(0, 2**32 - 1))
def test_varints(value: int) -> None:
    assert Fields(memoryview(messages.varint(value)), 0, True).varint() == value


def test_a_huge_array_is_malformed_at_once() -> None:
    with pytest.raises(Malformed, match="2147483647 items in 4 bytes"):
        Fields(memoryview(b"\x7f\xff\xff\xff1234"), 0, False).items()
