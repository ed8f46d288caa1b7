"""A topic that is made anew is empty, and a group has the offsets that it had."""

from __future__ import annotations

import uuid

import pytest

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka.cluster import Cluster, client_library
from tickproof.conformance.kafka.input_writer import InputWriter


def test_a_group_keeps_its_offsets(cluster: Cluster) -> None:
    kafka, name = client_library(), f"again-{uuid.uuid4().hex[:8]}"
    cluster.create({name: 2})
    writer = InputWriter(cluster, {})
    for partition in (0, 1, 1):
        assert writer.send(name, partition, None, b"value")
    writer.flush(20)
    settings = {"bootstrap.servers": cluster.address, "group.id": name}
    consumer = kafka.Consumer(settings | {"enable.auto.commit": False})
    try:
        consumer.commit(offsets=[kafka.TopicPartition(name, 1, 2)], asynchronous=False)
        cluster.remake(name, 2, {}, name)
        assert cluster.ends(name, 2, committed=False) == [0, 0]
        places = [kafka.TopicPartition(name, at) for at in (0, 1)]
        assert [one.offset for one in consumer.committed(places, 20)] == [-1001, 2]
        consumer.subscribe([name])
        consumer.poll(10)
        with pytest.raises(KafkaUnavailable, match="cannot keep the offsets of group"):
            cluster.remake(name, 2, {}, name, 2)  # it has a member
    finally:
        consumer.close()
        cluster.delete([name])
