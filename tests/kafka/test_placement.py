"""Input lies where real clients of Kafka put it."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from confluent_kafka import Producer

from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.generators.partitioner import Texts, partitions_of

PARTITIONS = 7


@pytest.mark.parametrize(
    ("partitioner", "setting"),
    [("murmur2", "murmur2_random"), ("crc32", "consistent_random"), ("fnv1a", "fnv1a_random")],
)
def test_keys_lie_where_a_real_client_puts_them(
    broker: Broker, cluster: Cluster, partitioner: str, setting: str
) -> None:
    topic = f"placed-{uuid.uuid4().hex}"
    cluster.create({topic: PARTITIONS})
    keys = [*(b"%d" % key for key in range(300)), *(b"AB", b"BRK.A", b"%d" % (2**64 - 1))]
    found: dict[bytes, int] = {}

    def sent(error: object, message: object) -> None:
        assert error is None
        found[message.key()] = message.partition()  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": broker.address.kit, "partitioner": setting})
    for key in keys:
        producer.produce(topic, b"", key, on_delivery=sent)
    assert producer.flush(30) == 0
    due = partitions_of(partitioner, Texts.of(keys), PARTITIONS)
    assert [found[key] for key in keys] == due.tolist()
    assert np.ptp(np.bincount(due)) < len(keys) / 4
