"""The sink of a topic: what those see who read what is committed, and whether that is all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.kafka.presence import expect_broker
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.sinks import TopicSink, reader
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.kafka.cluster import Cluster, client_library


@pytest.fixture
def cluster() -> Cluster:
    expect_broker()
    return Cluster(shared_broker.address().kit)


@pytest.fixture
def sink(cluster: Cluster, tmp_path: Path) -> Iterator[TopicSink]:
    topic, table = f"totals-{uuid4().hex}", OutputTable(identity=["customer"], partitions=2)
    cluster.create({topic: table.partitions})
    made = TopicSink(table, topic, cluster, reader(table, tmp_path))
    yield made
    made.close()
    cluster.delete([topic])


@pytest.fixture
def begun(cluster: Cluster, sink: TopicSink) -> Callable[[str], Any]:
    """Begin a transaction that writes a row into partition 1; return its producer."""

    def begin(customer: str) -> Any:
        settings = {"bootstrap.servers": cluster.address, "transactional.id": uuid4().hex}
        producer = client_library().Producer(settings)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(sink.where, json.dumps({"customer": customer}), customer, 1)
        producer.flush(30)
        return producer

    return begin


def test_what_an_open_transaction_hides_is_not_all(
    sink: TopicSink, begun: Callable[[str], Any], wait_until: Callable[..., bool]
) -> None:
    def taken() -> list[str]:
        sink.take()
        return [customer for customer, _ in sink.rows()]

    assert wait_until(lambda: taken() == [] and sink.whole())
    abandoned, done = begun("hides"), begun("hidden")
    done.commit_transaction(30)
    assert not wait_until(lambda: taken() != [] or sink.whole(), 2)
    abandoned.abort_transaction(30)
    assert wait_until(lambda: taken() != [] and sink.whole())
    assert taken() == ['["hidden"]']
