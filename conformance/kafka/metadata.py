"""Brokers and topics in answers: their addresses and ids."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from tickproof.conformance.kafka.wire import Api, Header, answer_fields, topics_end

#: How brokers on this machine call it: names of one length, so that none moves what follows it.
LOCAL_NAMES: Final = ("127.0.0.1", "localhost")
#: Host and port. Of the proxy, the host is as long as those of `LOCAL_NAMES`.
Address = tuple[str, int]
_SHORTEST: Final = len(LOCAL_NAMES[0])
#: Answers in which brokers are named.
NAMES_BROKERS: Final = frozenset((Api.METADATA, Api.FIND_COORDINATOR, Api.DESCRIBE_CLUSTER))
#: From which version on an answer with an error may say who leads a partition.
_NAMES_LEADERS: Final = {Api.PRODUCE: 10, Api.FETCH: 16}


def doors(ports: Sequence[int], came_by: Address) -> dict[int, Address]:
    """Return by which address of the proxy a client reaches each broker, by the broker's port.

    came_by: by which it reached one. Of several brokers each has a host of its own, beside the
    one that leads to any of them: 127.0.0.2 is the first broker's.
    """
    host, port = came_by
    if len(ports) == 1:
        return {ports[0]: came_by}
    return {one: (f"{host[:-1]}{digit}", port) for digit, one in enumerate(ports, 2)}


def broker_behind(host: str, brokers: int) -> int:
    """Return the number of the broker, of so many, that a host of `doors` leads to; 0 for any."""
    return int(host[-1]) - 1 if brokers > 1 else 1


def with_addresses(frame: memoryview, instead: Mapping[int, Address]) -> bytes:
    """Return an answer that names other addresses in place of this machine's ports.

    It has as many bytes, and nothing moves.
    """
    answer = bytes(frame)
    for port, here in instead.items():
        for name in LOCAL_NAMES:
            answer = answer.replace(_packed(name, port), _packed(*here))
    return answer


def _packed(host: str, port: int) -> bytes:
    return host.encode() + struct.pack(">i", port)


def with_leaders_addresses(
    frame: memoryview, head: Header, instead: Mapping[int, Address]
) -> memoryview:
    """Return an answer to a Produce or Fetch that names leaders by other addresses, if any.

    A broker says who leads a partition where a client asked too early, say; whoever follows
    that is past the proxy.
    """
    if head.version < _NAMES_LEADERS[Api(head.key)]:
        return frame
    # Records may hold any bytes; what names leaders is behind them.
    end = topics_end(frame, head) if head.key == Api.FETCH else 0
    if len(frame) - end <= _SHORTEST:
        return frame
    return memoryview(bytes(frame[:end]) + with_addresses(frame[end:], instead))


def topic_ids(frame: memoryview, head: Header) -> dict[bytes, str]:
    """Read the names of topics, by their ids, out of an answer to Metadata."""
    found: dict[bytes, str] = {}
    if head.version < 10:
        return found
    fields = answer_fields(frame, head)
    fields.i32()
    for _ in fields.items():
        fields.i32()
        fields.text()
        fields.i32()
        fields.text()
        fields.tags()
    fields.text()
    fields.i32()
    for _ in fields.items():
        fields.i16()
        name, topic_id = fields.text(), fields.uuid()
        fields.i8()
        for _ in fields.items():
            fields.skip(2 + 4 + 4 + 4)
            for _ in range(3):
                fields.skip(4 * len(fields.items()))
            fields.tags()
        fields.i32()
        fields.tags()
        if name:
            found[topic_id] = name
    return found
