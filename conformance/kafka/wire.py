"""The little of the Kafka protocol that the proxy has to know: pure functions over frames.

A frame is given without its size: it begins with the header. Whoever calls has looked up
that the version is one of `READ`; all functions raise Malformed for bytes of another shape.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from tickproof.conformance.kafka.fields import Fields, Malformed
from tickproof.conformance.kafka.record_batches import Batch, batches

#: The name of a topic, or its id of 16 bytes in newer versions.
Topic = str | bytes

#: A request larger than the broker takes by default.
MAX_FRAME: Final = 100 * 1024 * 1024
_HEADER: Final = struct.Struct(">hhi")


class Api(IntEnum):
    """Keys of the requests that mean something here."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    SYNC_GROUP = 14
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    STREAMS_GROUP_HEARTBEAT = 88


#: The versions that are read here. Others are passed on unread.
READ: Final = {
    Api.PRODUCE: range(3, 14),
    Api.FETCH: range(4, 19),
    Api.LIST_OFFSETS: range(1, 12),
    Api.METADATA: range(14),
    Api.OFFSET_COMMIT: range(2, 11),
    Api.JOIN_GROUP: range(2, 10),
    Api.HEARTBEAT: range(5),
    Api.CREATE_TOPICS: range(2, 8),
    Api.INIT_PRODUCER_ID: range(6),
    Api.ADD_OFFSETS_TO_TXN: range(5),
    Api.END_TXN: range(6),
    Api.TXN_OFFSET_COMMIT: range(6),
    Api.CONSUMER_GROUP_HEARTBEAT: range(2),
    Api.STREAMS_GROUP_HEARTBEAT: range(1),
}
#: From which version on messages have tagged fields.
_FLEXIBLE: Final = {
    Api.PRODUCE: 9, Api.FETCH: 12, Api.LIST_OFFSETS: 6, Api.METADATA: 9, Api.OFFSET_COMMIT: 8,
    Api.JOIN_GROUP: 6, Api.HEARTBEAT: 4, Api.CREATE_TOPICS: 5, Api.INIT_PRODUCER_ID: 2,
    Api.ADD_OFFSETS_TO_TXN: 3, Api.END_TXN: 3, Api.TXN_OFFSET_COMMIT: 3,
    Api.CONSUMER_GROUP_HEARTBEAT: 0, Api.STREAMS_GROUP_HEARTBEAT: 0,
}  # fmt: skip
#: Requests that say after which time the broker gives up on a member, or on a transaction.
TIMEOUTS: Final = (Api.JOIN_GROUP, Api.INIT_PRODUCER_ID)
#: From which version on a topic goes by its id.
_BY_ID: Final = {Api.PRODUCE: 13, Api.FETCH: 13, Api.OFFSET_COMMIT: 10}

#: "Not enough replicas": the broker has taken nothing, and the client shall send it again.
NOT_ENOUGH_REPLICAS: Final = 19


class Header(NamedTuple):
    """The fixed part of the header of a request."""

    key: int
    version: int
    correlation: int

    @property
    def read(self) -> bool:
        """True if this is a request of a kind and version that is read here."""
        versions = READ.get(self.key)  # type: ignore[call-overload]
        return versions is not None and self.version in versions

    @property
    def flexible(self) -> bool:
        """True if messages of a request that is read have tagged fields, and lengths as varints."""
        return self.version >= _FLEXIBLE[Api(self.key)]


def header(frame: memoryview) -> Header:
    """Read the fixed part of a request's header; raises Malformed where there is none."""
    if len(frame) < _HEADER.size:
        raise Malformed(f"a request of {len(frame)} bytes")
    return Header(*_HEADER.unpack_from(frame))


def timeout(frame: memoryview, head: Header) -> tuple[int, int] | None:
    """Return offset and value, in ms, of the timeout in one of `TIMEOUTS`.

    None for that of transactions from a producer that has none: it has no transactional id.
    """
    fields = request_fields(frame, head)
    return (fields.at, fields.i32()) if fields.text() is not None else None


def correlation(frame: memoryview) -> int:
    """Return the correlation id of an answer."""
    if len(frame) < 4:
        raise Malformed(f"an answer of {len(frame)} bytes")
    return int.from_bytes(frame[:4], "big", signed=True)


def request_fields(frame: memoryview, head: Header) -> Fields:
    """Return the fields of a request behind its header."""
    fields = Fields(frame, _HEADER.size, flexible=False)
    fields.text()
    fields.flexible = head.flexible
    fields.tags()
    return fields


def answer_fields(frame: memoryview, head: Header) -> Fields:
    """Return the fields of the answer to a request behind its header."""
    fields = Fields(frame, 4, head.flexible)
    fields.tags()
    return fields


def topic_field(fields: Fields, head: Header) -> Topic:
    """Read a topic: its name, or its id."""
    by_id = _BY_ID.get(Api(head.key))
    return fields.uuid() if by_id and head.version >= by_id else fields.text() or ""


# -- Fetch -------------------------------------------------------------------------------------


class Position(NamedTuple):
    """From which offset on a partition is asked for."""

    topic: Topic
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A Fetch; in a session, only what has changed since the one before.

    max_wait_ms: how long the broker may wait for records.
    """

    max_wait_ms: int
    positions: tuple[Position, ...]


class Fetched(NamedTuple):
    """Records of one partition in the answer to a Fetch.

    watermark: where the high watermark stands in the frame; the last stable offset, of the
    same size, is behind it. field: where the records stand, with their length before them.
    """

    topic: Topic
    partition: int
    watermark: int
    field: slice
    records: memoryview

    def batches(self) -> Iterator[Batch]:
        """Return the batches that bring records, not those that end a transaction."""
        return (batch for batch in batches(self.records) if not batch.control)


def fetch_request(frame: memoryview, head: Header) -> FetchRequest:
    """Read a Fetch."""
    fields, version = request_fields(frame, head), head.version
    if version < 15:
        fields.i32()
    max_wait_ms = fields.i32()
    fields.skip(4 + 4 + 1 + (8 if version >= 7 else 0))
    positions = []
    for _ in fields.items():
        topic = topic_field(fields, head)
        for _ in fields.items():
            partition = fields.i32()
            if version >= 9:
                fields.i32()
            positions.append(Position(topic, partition, fields.i64()))
            fields.skip((4 if version >= 12 else 0) + (8 if version >= 5 else 0) + 4)
            fields.tags()
        fields.tags()
    return FetchRequest(max_wait_ms, tuple(positions))


def fetched(frame: memoryview, head: Header) -> list[Fetched]:
    """Read the answer to a Fetch: the partitions for which it brings something."""
    return _fetched(frame, head)[0]


def topics_end(frame: memoryview, head: Header) -> int:
    """Return where the topics, and with them all records, end in the answer to a Fetch."""
    return _fetched(frame, head)[1]


def _fetched(frame: memoryview, head: Header) -> tuple[list[Fetched], int]:
    """Read the answer to a Fetch; return with what it brings where the topics end."""
    fields, version = answer_fields(frame, head), head.version
    fields.skip(4 + (6 if version >= 7 else 0))
    found = []
    for _ in fields.items():
        topic = topic_field(fields, head)
        for _ in fields.items():
            partition = fields.i32()
            fields.i16()
            watermark = fields.at
            fields.skip(16 + (8 if version >= 5 else 0))
            for _ in fields.items():
                fields.skip(16)
                fields.tags()
            if version >= 11:
                fields.i32()
            begin = fields.at
            records = fields.blob()
            if len(records):
                field = slice(begin, fields.at)
                found.append(Fetched(topic, partition, watermark, field, records))
            fields.tags()
        fields.tags()
    return found, fields.at


def without_records(
    frame: memoryview, head: Header, hidden: Collection[tuple[Fetched, int]]
) -> bytes:
    """Return the answer to a Fetch as if some partitions ended at an offset, each its own."""
    parts: list[bytes | memoryview] = []
    at = 0
    empty = b"\x01" if head.flexible else b"\0\0\0\0"
    for one, end in sorted(hidden, key=lambda pair: pair[0].watermark):
        parts += [frame[at : one.watermark], struct.pack(">qq", end, end)]
        parts += [frame[one.watermark + 16 : one.field.start], empty]
        at = one.field.stop
    return b"".join([*parts, frame[at:]])


# -- ListOffsets -------------------------------------------------------------------------------

#: Stands for a time, in a request: the end of a partition.
_LATEST: Final = -1


@dataclass(frozen=True, slots=True)
class EndRequest:
    """A ListOffsets that asks where some partitions end; others it may ask for something else."""

    partitions: frozenset[tuple[str, int]]


def end_request(frame: memoryview, head: Header) -> EndRequest:
    """Read a ListOffsets."""
    fields, version = request_fields(frame, head), head.version
    fields.skip(4 + (1 if version >= 2 else 0))
    found = set()
    for _ in fields.items():
        topic = fields.text() or ""
        for _ in fields.items():
            partition = fields.i32()
            fields.skip(4 if version >= 4 else 0)
            if fields.i64() == _LATEST:
                found.add((topic, partition))
            fields.tags()
        fields.tags()
    return EndRequest(frozenset(found))


def offsets(frame: memoryview, head: Header) -> dict[tuple[str, int], int]:
    """Read the answer to a ListOffsets: the offset of each partition that has no error."""
    fields, version = answer_fields(frame, head), head.version
    fields.skip(4 if version >= 2 else 0)
    found = {}
    for _ in fields.items():
        topic = fields.text() or ""
        for _ in fields.items():
            partition, error = fields.i32(), fields.i16()
            fields.skip(8)
            offset = fields.i64()
            fields.skip(4 if version >= 4 else 0)
            if not error:
                found[topic, partition] = offset
            fields.tags()
        fields.tags()
    return found


# -- Produce -----------------------------------------------------------------------------------


class Produced(NamedTuple):
    """Records for one partition in a Produce."""

    topic: Topic
    partition: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """A Produce; acks 0: nobody waits for an answer, and none comes."""

    transactional_id: str | None
    acks: int
    batches: tuple[Produced, ...]
    #: All partitions of the request, also those without records.
    partitions: tuple[tuple[Topic, tuple[int, ...]], ...]

    @property
    def transactional(self) -> bool:
        """True if its records are part of a transaction."""
        return any(one.batch.transactional for one in self.batches)


def produce_request(frame: memoryview, head: Header) -> ProduceRequest:
    """Read a Produce."""
    fields = request_fields(frame, head)
    transactional_id, acks = fields.text(), fields.i16()
    fields.i32()
    produced, partitions = [], []
    for _ in fields.items():
        topic, numbers = topic_field(fields, head), []
        for _ in fields.items():
            numbers.append(partition := fields.i32())
            produced += [Produced(topic, partition, one) for one in batches(fields.blob())]
            fields.tags()
        fields.tags()
        partitions.append((topic, tuple(numbers)))
    return ProduceRequest(transactional_id, acks, tuple(produced), tuple(partitions))


def produce_errors(frame: memoryview, head: Header) -> dict[tuple[Topic, int], int]:
    """Read the answer to a Produce: the error of each partition, 0 for none."""
    fields, version = answer_fields(frame, head), head.version
    found = {}
    for _ in fields.items():
        topic = topic_field(fields, head)
        for _ in fields.items():
            partition = fields.i32()
            found[topic, partition] = fields.i16()
            fields.skip(16 + (8 if version >= 5 else 0))
            if version >= 8:
                for _ in fields.items():
                    fields.i32()
                    fields.text()
                    fields.tags()
                fields.text()
            fields.tags()
        fields.tags()
    return found


def refusal(head: Header, request: ProduceRequest, error: int) -> bytes:
    """Return an answer to a Produce that gives each partition an error."""
    flexible, version = head.flexible, head.version
    one = struct.pack(">hqq", error, -1, -1) + (struct.pack(">q", -1) if version >= 5 else b"")
    if version >= 8:
        one += _size(0, flexible) + (b"\0" if flexible else b"\xff\xff")
    topics = of_topics(request.partitions, one, flexible)
    return answer(head, topics + struct.pack(">i", 0))


def answer(head: Header, body: bytes) -> bytes:
    """Return an answer with its header, and no tagged fields in either."""
    tags = b"\0" if head.flexible else b""
    return b"".join((struct.pack(">i", head.correlation), tags, body, tags))


def of_topics(
    topics: Collection[tuple[Topic, Collection[int]]], each: bytes, flexible: bool
) -> bytes:
    """Return an array of topics with their partitions, and the same fields for each of these."""
    tags = b"\0" if flexible else b""
    parts = [_size(len(topics), flexible)]
    for topic, numbers in topics:
        if isinstance(topic, bytes):
            parts.append(topic)
        else:
            name = topic.encode()
            parts += [_varint(len(name) + 1) if flexible else struct.pack(">h", len(name)), name]
        parts.append(_size(len(numbers), flexible))
        parts += [struct.pack(">i", number) + each + tags for number in numbers]
        parts.append(tags)
    return b"".join(parts)


def _size(items: int, flexible: bool) -> bytes:
    return _varint(items + 1) if flexible else struct.pack(">i", items)


def harmless(head: Header) -> bytes:
    """Return a request with the same correlation id that changes nothing: ApiVersions."""
    return _HEADER.pack(Api.API_VERSIONS, 0, head.correlation) + b"\xff\xff"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
