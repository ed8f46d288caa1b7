"""Answers with an error, against real ones of the same requests."""

from __future__ import annotations

import struct

import pytest

from tests.kafka import messages
from tests.kafka.test_wire import VECTORS, Vector, name, vector
from tickproof.conformance.faults.error_answer import ERRORS_OF
from tickproof.conformance.kafka import refusals, wire
from tickproof.conformance.kafka.exchanges import Conversation, Exchange
from tickproof.conformance.kafka.traffic import Roles, Topics, Traffic
from tickproof.conformance.kafka.transaction_messages import transaction_error
from tickproof.conformance.kafka.wire import Api

ANSWERED = (Api.OFFSET_COMMIT, Api.TXN_OFFSET_COMMIT, Api.ADD_OFFSETS_TO_TXN, Api.END_TXN)


def understood(frame: memoryview) -> Exchange:
    talk = Conversation(Topics(Roles({}, ())), Traffic(), set(range(20_000)))
    return talk.understand(wire.header(frame), frame)


@pytest.mark.parametrize("one", [one for one in VECTORS if one.key in ANSWERED], ids=name)
def test_an_error_has_the_shape_of_a_real_answer(one: Vector) -> None:
    head, asked, answer = one.frames
    exchange = understood(asked)
    assert refusals.request_of(exchange) in ERRORS_OF
    refused = refusals.refusal(exchange, refusals.CODES["UNKNOWN_MEMBER_ID"])
    assert len(refused) == len(answer)
    assert transaction_error(memoryview(refused), head) == 25
    assert wire.correlation(memoryview(refused)) == head.correlation


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_of_every_version_is_answered(version: int) -> None:
    frame = messages.request(Api.HEARTBEAT, version, version >= 4, b"")
    exchange = understood(frame)
    assert refusals.request_of(exchange) == "Heartbeat"
    refused = refusals.refusal(exchange, refusals.CODES["REBALANCE_IN_PROGRESS"])
    throttle, tags = b"\0" * (4 if version else 0), b"\0" * (version >= 4)
    correlation = struct.pack(">i", exchange.head.correlation)
    assert refused == correlation + tags + throttle + b"\0\x1b" + tags


def test_what_is_no_commit_has_no_error() -> None:
    for api in (Api.FETCH, Api.METADATA):
        _, asked, _ = vector("java", api)
        assert refusals.request_of(understood(asked)) == ""


def test_every_error_has_its_number() -> None:
    assert {one for some in ERRORS_OF.values() for one in some} == refusals.CODES.keys()
