"""Input that the broker does not hold is the kit's error, on a real broker."""

from __future__ import annotations

import uuid

import pytest

from tickproof.conformance.errors import KitStopped
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.input_writer import InputWriter

ANSWER_S = 20.0


@pytest.fixture
def topic(cluster: Cluster):
    name = f"written-{uuid.uuid4().hex[:8]}"
    cluster.create({name: 2}, {"max.message.bytes": "1000"})
    yield name
    cluster.delete([name])


@pytest.fixture
def writer(cluster: Cluster) -> InputWriter:
    return InputWriter(cluster, {})


def written(writer: InputWriter, topic: str, *partitions: int) -> None:
    for number in partitions:
        assert writer.send(topic, number, b"key", b"value")
    writer.flush(ANSWER_S)
    assert not len(writer)


def test_what_is_there_is_no_error(writer, topic):
    written(writer, topic, 0, 1, 1)
    writer.check()
    assert writer.close(ANSWER_S)


def test_what_the_broker_has_taken_is_counted_if_asked(cluster, topic):
    writer = InputWriter(cluster, {}, counted=True)
    written(writer, topic, 0, 1, 1)
    assert writer.taken == {(topic, 0): 1, (topic, 1): 2}


def test_a_message_that_is_refused_is_named(writer, topic):
    assert writer.send(topic, 1, b"key", bytes(5_000))
    with pytest.raises(KitStopped, match=f"refused .*, partition 1 of {topic}: .*too large"):
        writer.flush(ANSWER_S)
    with pytest.raises(KitStopped, match="refused"):
        writer.close(ANSWER_S)


def test_a_message_that_was_acknowledged_and_is_not_there_is_named(cluster, writer, topic):
    written(writer, topic, 0, 1, 1)
    cluster.delete([topic])
    cluster.create({topic: 2})
    written(InputWriter(cluster, {}), topic, 0, 1)
    with pytest.raises(KitStopped, match=f"2 records .* partition 1 of {topic}, which holds 1$"):
        writer.check()


def test_no_room_is_told_and_what_was_not_sent_is_left_out(cluster, topic):
    writer = InputWriter(cluster, {"queue.buffering.max.messages": 1, "linger.ms": 1_000})
    assert writer.send(topic, 0, b"key", b"value")
    assert not writer.send(topic, 0, b"key", b"value")
    assert not writer.close(ANSWER_S)
