"""Answers with an error code, which the proxy gives in place of the broker."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from tickproof.conformance.fault_steps import Error, Request
from tickproof.conformance.kafka import wire
from tickproof.conformance.kafka.exchanges import Exchange
from tickproof.conformance.kafka.transaction_messages import Offsets
from tickproof.conformance.kafka.wire import Api, ProduceRequest

#: The numbers of the errors, as the protocol of Kafka has them.
CODES: Final[Mapping[Error, int]] = {
    "NOT_LEADER_OR_FOLLOWER": 6, "REQUEST_TIMED_OUT": 7, "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "NOT_COORDINATOR": 16, "ILLEGAL_GENERATION": 22, "UNKNOWN_MEMBER_ID": 25,
    "REBALANCE_IN_PROGRESS": 27, "INVALID_PRODUCER_EPOCH": 47, "CONCURRENT_TRANSACTIONS": 51,
    "PRODUCER_FENCED": 90,
}  # fmt: skip
#: What requests of a user's own job are answered with: their transaction has to be aborted, as
#: after a rebalance; the output was not written, and its client does not send it again.
OF_JOBS: Final[Mapping[Request, int]] = {
    "TxnOffsetCommit": CODES["ILLEGAL_GENERATION"],
    "Produce": -1,  # UNKNOWN_SERVER_ERROR
}
#: Errors of requests that the broker may have carried out.
UNCERTAIN: Final = frozenset(("REQUEST_TIMED_OUT",))
_NAMES: Final[Mapping[int, Request]] = {
    Api.PRODUCE: "Produce", Api.OFFSET_COMMIT: "OffsetCommit", Api.HEARTBEAT: "Heartbeat",
    Api.TXN_OFFSET_COMMIT: "TxnOffsetCommit", Api.ADD_OFFSETS_TO_TXN: "AddOffsetsToTxn",
    Api.END_TXN: "EndTxn",
}  # fmt: skip


def request_of(exchange: Exchange) -> Request:
    """Return what a request that may be answered with an error is called; "" for any other.

    Produce of output alone, and the end of a transaction by commit.
    """
    head = exchange.head
    always = head.key == Api.HEARTBEAT or isinstance(exchange.meaning, Offsets)
    if not head.read or not (exchange.moments or always):
        return ""
    return _NAMES.get(head.key, "") if exchange.answered else ""


def refusal(exchange: Exchange, code: int) -> bytes:
    """Return the answer to such a request that says nothing but the code of an error."""
    head, meaning = exchange.head, exchange.meaning
    said = struct.pack(">h", code)
    if isinstance(meaning, ProduceRequest):
        return wire.refusal(head, meaning, code)
    throttled = head.version >= {Api.OFFSET_COMMIT: 3, Api.HEARTBEAT: 1}.get(Api(head.key), 0)
    body = struct.pack(">i", 0) if throttled else b""
    if isinstance(meaning, Offsets):
        return wire.answer(head, body + wire.of_topics(_topics(meaning), said, head.flexible))
    if head.key == Api.END_TXN and head.version >= 5:
        said += struct.pack(">qh", -1, -1)  # the producer keeps its id and epoch
    return wire.answer(head, body + said)


def _topics(meaning: Offsets) -> list[tuple[wire.Topic, list[int]]]:
    found: dict[wire.Topic, list[int]] = {}
    for one in meaning.offsets:
        found.setdefault(one.topic, []).append(one.partition)
    return list(found.items())
