"""Messages of the Kafka protocol, written by the published schema: an oracle for `wire`."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tickproof.conformance.kafka.wire import Topic


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


@dataclass
class Writer:
    """Writes fields of a message of one version."""

    flexible: bool
    by_id: bool = False

    def text(self, value: str | None) -> bytes:
        raw = (value or "").encode()
        if self.flexible:
            return varint(0 if value is None else len(raw) + 1) + raw
        return struct.pack(">h", -1 if value is None else len(raw)) + raw

    def topic(self, topic: Topic) -> bytes:
        assert isinstance(topic, bytes) == self.by_id
        return topic if isinstance(topic, bytes) else self.text(topic)

    def blob(self, value: bytes) -> bytes:
        return self.size(len(value)) + value

    def size(self, items: int) -> bytes:
        return varint(items + 1) if self.flexible else struct.pack(">i", items)

    def array(self, items: Sequence[bytes]) -> bytes:
        return self.size(len(items)) + b"".join(items)

    def tags(self, number: int = 0) -> bytes:
        if not self.flexible:
            return b""
        return varint(number) + b"".join(varint(n) + varint(3) + b"tag" for n in range(number))


def batch(
    first: int,
    records: int,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    body: bytes = b"",
) -> bytes:
    attributes = 0x10 * transactional | 0x20 * control
    fields = struct.pack(
        ">ibIhiqqqhii",
        0,
        2,
        0,
        attributes,
        records - 1,
        0,
        0,
        producer_id,
        epoch,
        sequence,
        records,
    )
    return struct.pack(">qi", first, len(fields) + len(body)) + fields + body


def request(key: int, version: int, flexible: bool, body: bytes, client: str = "c") -> memoryview:
    name = client.encode()
    head = struct.pack(">hhih", key, version, 7, len(name)) + name
    return memoryview(head + (b"\0" if flexible else b"") + body)


Partitions = Mapping[Topic, Mapping[int, bytes]]


def fetch_answer(
    version: int, records: Partitions, tags: int = 0, leaders: bytes = b""
) -> memoryview:
    w = Writer(version >= 12, version >= 13)
    topics = []
    for topic, partitions in records.items():
        found = []
        for number, data in partitions.items():
            aborted = w.array([struct.pack(">qq", 5, 6) + w.tags(tags)])
            found.append(
                struct.pack(">ihqq", number, 0, 100, 99)
                + (struct.pack(">q", 0) if version >= 5 else b"")
                + aborted
                + (struct.pack(">i", -1) if version >= 11 else b"")
                + w.blob(data)
                + w.tags(tags)
            )
        topics.append(w.topic(topic) + w.array(found) + w.tags(tags))
    head = struct.pack(">i", 7) + w.tags(tags) + struct.pack(">i", 0)
    session = struct.pack(">hi", 0, 9) if version >= 7 else b""
    return memoryview(head + session + w.array(topics) + w.tags(tags) + leaders)


def fetch_request(version: int, positions: Mapping[Topic, Mapping[int, int]]) -> memoryview:
    w = Writer(version >= 12, version >= 13)
    body = struct.pack(">i", -1) if version < 15 else b""
    body += struct.pack(">iiib", 321, 1, 1 << 20, 1)
    body += struct.pack(">ii", 9, 1) if version >= 7 else b""
    topics = []
    for topic, partitions in positions.items():
        found = [
            struct.pack(">i", number)
            + (struct.pack(">i", 0) if version >= 9 else b"")
            + struct.pack(">q", offset)
            + (struct.pack(">i", 0) if version >= 12 else b"")
            + (struct.pack(">q", 0) if version >= 5 else b"")
            + struct.pack(">i", 1 << 20)
            + w.tags()
            for number, offset in partitions.items()
        ]
        topics.append(w.topic(topic) + w.array(found) + w.tags())
    body += w.array(topics) + (w.array([]) if version >= 7 else b"")
    body += (w.text("") if version >= 11 else b"") + w.tags()
    return request(1, version, w.flexible, body)


def produce_request(
    version: int, records: Partitions, transactional_id: str | None = None, acks: int = -1
) -> memoryview:
    w = Writer(version >= 9, version >= 13)
    topics = [
        w.topic(topic)
        + w.array([struct.pack(">i", n) + w.blob(data) + w.tags() for n, data in parts.items()])
        + w.tags()
        for topic, parts in records.items()
    ]
    body = w.text(transactional_id) + struct.pack(">hi", acks, 1000) + w.array(topics) + w.tags()
    return request(0, version, w.flexible, body)


def create_topics_request(version: int, topics: Sequence[str]) -> memoryview:
    """Ask for topics with one partition placed by hand, and one setting."""
    w = Writer(version >= 5)
    placed = w.array([struct.pack(">i", 0) + w.array([struct.pack(">i", 1)] * 2) + w.tags()])
    setting = w.array([w.text("cleanup.policy") + w.text("compact") + w.tags(2 * w.flexible)])
    made = [
        w.text(name) + struct.pack(">ih", 3, 1) + placed + setting + w.tags() for name in topics
    ]
    return request(19, version, w.flexible, w.array(made) + struct.pack(">ib", 5, 0) + w.tags())


def first_text_request(key: int, version: int, flexible: bool, text: str | None) -> memoryview:
    """Make a request of which no more matters than that it begins with a text."""
    return request(key, version, flexible, Writer(flexible).text(text) + b"rest")
