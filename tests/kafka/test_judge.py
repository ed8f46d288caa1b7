"""Two topics of a cluster that is there, judged: what is committed of them, read once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest

from tickproof.conformance.kafka.cluster import Cluster, client_library

ORDERS = [{"id": n, "customer": f"c{n % 3}"} for n in range(30)]
RULES = ("--identity", "id", "--key", "customer")


@pytest.fixture
def topics(cluster: Cluster) -> tuple[str, str]:
    """Give the names of two topics, which are there."""
    name = uuid4().hex
    cluster.create({f"in-{name}": 2, f"out-{name}": 2})
    return f"in-{name}", f"out-{name}"


def written(cluster: Cluster, topic: str, values: Sequence[Any], *, abort: bool = False) -> None:
    """Write messages in one transaction, partition by key, and commit or abort it."""
    name = uuid4().hex
    producer = client_library().Producer(
        {"bootstrap.servers": cluster.address, "transactional.id": name}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        key = value["customer"] if isinstance(value, dict) else "c0"
        body = json.dumps(value, indent=1) if isinstance(value, dict) else value
        producer.produce(topic, body, key, int(key[1:]) % 2)
    producer.flush(30)
    (producer.abort_transaction if abort else producer.commit_transaction)(30)


def judge(cluster: Cluster, topics: tuple[str, str], *options: str) -> tuple[int, str]:
    names = [f"kafka://{cluster.address}/{one}" for one in topics]
    return called(*names, *(options or RULES))


def called(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tickproof", "judge", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_topics_are_judged_as_far_as_they_are_committed(
    cluster: Cluster, topics: tuple[str, str]
) -> None:
    given, output = topics
    written(cluster, given, ORDERS)
    written(cluster, output, ORDERS[:10])
    written(cluster, output, ORDERS[10:12], abort=True)
    assert judge(cluster, topics)[0] == 3
    written(cluster, output, [*ORDERS[10:20], *ORDERS[21:], ORDERS[9]])
    status, said = judge(cluster, topics)
    assert status == 1 and "2 fail, 2 pass" in said
    assert '20: IN partition 0, offset 13: {"id": 20, "customer": "c2"} has no output' in said
    assert '9: OUT partition 0, offset 6: {"id": 9, "customer": "c0"} and OUT partition 0' in said


def test_the_key_of_a_message_can_be_an_identity(cluster: Cluster, topics: tuple[str, str]) -> None:
    for one in topics:
        written(cluster, one, ORDERS)
    status, said = judge(cluster, topics, "--identity", "@key,id", "--key", "@key")
    assert status == 0 and "4 pass" in said


def test_what_retention_took_is_not_held_against_the_output(
    cluster: Cluster, topics: tuple[str, str]
) -> None:
    kafka = client_library()
    for one in topics:
        written(cluster, one, ORDERS)
    admin = kafka.admin.AdminClient({"bootstrap.servers": cluster.address})
    gone = kafka.TopicPartition(topics[0], 0, 5)
    admin.delete_records([gone])[gone].result(30)
    status, said = judge(cluster, topics)
    assert status == 3 and "partition 0 begins at offset 5" in said


def test_what_is_no_pair_of_topics_is_said(cluster: Cluster, topics: tuple[str, str]) -> None:
    written(cluster, topics[0], [ORDERS[0], "7"])
    status, said = judge(cluster, topics)
    assert status == 2 and "partition 0, offset 1: expected a JSON object; got b'7'" in said
    for names, expected in {
        (topics[0], topics[0]): "OUT: expected another recording than IN",
        (topics[0], "nothing-there"): "expected the topic nothing-there; it is not there",
        (topics[0], "a/b"): "expected kafka://HOST:PORT/TOPIC; got kafka:",
    }.items():
        status, said = judge(cluster, names)
        assert status == 2 and expected in said


def test_a_broker_that_is_not_there_is_named() -> None:
    status, said = called("kafka://127.0.0.1:1/in", "kafka://127.0.0.1:1/out", *RULES)
    assert status == 2 and "Kafka at 127.0.0.1:1: " in said
