"""A real broker: transactions of both protocols, and an end with the kit, however that ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.kafka.presence import expect_broker
from tests.long import LONG
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.cluster import PASSING, Cluster, Led, patiently
from tickproof.conformance.kafka.jvm import Jvm
from tickproof.conformance.kafka.own_brokers import OwnBrokers
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles
from tickproof.conformance.log_server.connection_use import ConnectionUse

confluent_kafka = pytest.importorskip("confluent_kafka")
ROOT = Path(__file__).parents[2]
KIT = """
from tickproof.conformance.kafka.broker import Broker
with Broker() as broker:
    print(broker.pid, flush=True)
    input()
"""


def nothing(*_: object, **__: object) -> None:
    """Hear of what passes a proxy."""


def features(port: int) -> bytes:
    """Ask what a broker can do (ApiVersions 3), and return its answer."""
    name = b"\x04kit"
    body = struct.pack(">hhih", 18, 3, 1, -1) + b"\0" + name + name + b"\0"
    with socket.create_connection(("127.0.0.1", port), 10) as link:
        link.sendall(struct.pack(">i", len(body)) + body)
        with link.makefile("rb") as answer:
            return answer.read(struct.unpack(">i", answer.read(4))[0])


def send_in_transaction(port: int, topic: str, *, commit: bool) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "transactional.id": uuid.uuid4().hex,
            "log_level": 0,
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"kept" if commit else b"aborted")
    (producer.commit_transaction if commit else producer.abort_transaction)(20)


def committed(address: str, topic: str) -> list[bytes]:
    """Return what one reader of committed records sees up to the end.

    Whoever leads since a moment ago tells a reader of an end too early, until its followers have
    fetched once.
    """
    (end,) = Cluster(address).ends(topic, 1, committed=True)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is None:
            found.append(message.value())
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            if message.offset() >= end:
                break
    consumer.close()
    return found


def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def test_topics_are_there_when_made_and_gone_when_removed(cluster):
    one, two = name(), name()
    cluster.create({one: 4, two: 1})
    there = cluster.partitions()
    assert (there[one], there[two]) == (4, 1)
    ids = cluster.topic_ids([one, two])
    assert {len(found) for found in ids.values()} == {16}
    assert ids[one] != ids[two]
    cluster.delete([one])
    assert one not in cluster.partitions()
    assert two in cluster.partitions()


def test_what_the_cluster_refuses_is_told(cluster):
    made = name()
    cluster.create({made: 1})
    with pytest.raises(KafkaUnavailable, match=f"cannot make topic {made}: .*already exists"):
        cluster.create({made: 1})
    with pytest.raises(KafkaUnavailable, match=r"cannot make topic a b: "):
        cluster.create({"a b": 1})
    cluster.delete(["nowhere"])


def test_a_broker_that_was_killed_comes_back_with_its_data():
    expect_broker()
    away: list[bool] = []
    with Broker() as broker, Proxy(broker.address.engine_ports, Roles({}, ()), nothing) as proxy:
        cluster, topic, pid = Cluster(broker.address.kit), name(), broker.pid
        cluster.create({topic: 1})
        send_in_transaction(proxy.port, topic, commit=True)

        def hear(gone: bool) -> None:
            away.append(gone)
            cluster.forget()

        brokers = OwnBrokers(broker, proxy, hear)
        with pytest.raises(LookupError, match="no other broker could lead"):
            brokers.kill_leader(0, 0.0)
        brokers.restart()
        assert away == [True, False]
        assert broker.pid != pid
        assert committed(broker.address.kit, topic) == [b"kept"]
        # The record and its commit, which a coordinator writes again that died before it knew.
        assert cluster.ends(topic, 1, committed=True)[0] in (2, 3)
        send_in_transaction(proxy.port, topic, commit=True)
        assert committed(broker.address.kit, topic) == [b"kept", b"kept"]
        assert proxy.failure is None


def test_a_broker_that_is_dead_takes_no_client():
    expect_broker()
    with Broker() as broker, Proxy(broker.address.engine_ports, Roles({}, ()), nothing) as proxy:
        proxy.kill_broker(broker, 1)
        with socket.create_connection(("127.0.0.1", proxy.port), 10) as turned_away:
            assert turned_away.recv(1) == b""
        assert proxy.failure is None


def test_a_client_that_knows_no_broker_yet_comes_to_one_that_lives() -> None:
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [one.getsockname()[1] for one in brokers]
        proxy = stack.enter_context(Proxy(ports, Roles({}, ()), nothing))
        assert [proxy.broker_for(f"127.0.0.{digit}") for digit in range(1, 5)] == [1, 1, 2, 3]
        dying: Any = SimpleNamespace(kill=lambda number: brokers[number - 1].close())
        proxy.kill_broker(dying, 1)
        assert proxy.broker_for("127.0.0.1") == 2
        with socket.create_connection(("127.0.0.2", proxy.port), 20) as turned_away:
            assert turned_away.recv(1) == b""
        proxy.broker_is_back(1)
        assert proxy.broker_for("127.0.0.1") == 1
        assert proxy.failure is None


def test_a_broker_that_was_asked_to_end_may_stop_listening() -> None:
    """Clients that come meanwhile are turned away, and the proxy takes it for no failure."""
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [one.getsockname()[1] for one in brokers]
        proxy = stack.enter_context(Proxy(ports, Roles({}, ()), nothing))

        def end(number: int, grace_s: float) -> None:
            assert (number, grace_s) == (1, 10.0)
            brokers[0].close()
            assert proxy.broker_for("127.0.0.1") == 2
            with socket.create_connection(("127.0.0.2", proxy.port), 20) as turned_away:
                assert turned_away.recv(1) == b""

        proxy.kill_broker(SimpleNamespace(end=end, kill=nothing), 1, 10.0)  # type: ignore[arg-type]
        assert proxy.failure is None
        proxy.broker_is_back(1)
        assert proxy.broker_for("127.0.0.1") == 1


@pytest.mark.parametrize(
    ("coordinator", "alone"), [(1, 2), (2, 1), (3, 1)], ids=["first", "second", "third"]
)
def test_a_coordinator_is_not_left_alone(coordinator: int, alone: int) -> None:
    led = [Led("out", one, True) for one in (1, 1, 2)]
    led += [Led("in", 3, True), Led("__consumer_offsets", coordinator, True)]
    broker: Any = SimpleNamespace(led=lambda: led)
    proxy: Any = SimpleNamespace(outputs={"out"})
    assert OwnBrokers(broker, proxy, nothing)._fit_to_be_alone(3) == alone
    led += [Led("__transaction_state", one, True) for one in (1, 2)]
    assert OwnBrokers(broker, proxy, nothing)._fit_to_be_alone(3) == 3


class Acknowledged:
    """Sends to a topic of one partition through a proxy, and knows what was acknowledged."""

    def __init__(self, port: int, topic: str, acks: str) -> None:
        self.answered: list[bytes] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "acks": acks,
                "linger.ms": 0,
                "retries": 1_000,
                "log_level": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )

    def send(self, value: bytes, limit_s: float) -> None:
        self._producer.produce(self._topic, value, on_delivery=self._hear)
        self._producer.flush(limit_s)

    def _hear(self, error: object, message: Any) -> None:
        if error is None:
            self.answered.append(message.value())


@pytest.mark.parametrize("acks", ["1", "all"])
def test_what_a_leader_alone_has_dies_with_it(acks: str) -> None:
    expect_broker()
    topic = name()
    with Broker(nodes=3) as broker:
        cluster = Cluster(broker.address.kit)
        cluster.create({topic: 1})
        use: list[ConnectionUse] = []
        roles = Roles({}, {topic})
        with Proxy(broker.address.engine_ports, roles, nothing) as proxy:
            proxy.greeted = use.append
            brokers = OwnBrokers(broker, proxy, lambda _away: cluster.forget())
            engine = Acknowledged(proxy.port, topic, acks)
            engine.send(b"kept", 30)
            (leads,) = (one.number for one in use if one.sent)
            sends = threading.Timer(1.0, engine.send, (b"alone", 60))
            sends.start()
            died = brokers.kill_leader(leads, 2.5)
            sends.join()
            engine.send(b"after", 60)
            brokers.close()
            assert proxy.failure is None
        assert engine.answered == [b"kept", b"alone", b"after"]
        assert broker.in_sync()
        found = committed(broker.address.kit, topic)
    if acks == "1":
        assert (died, found) == ({"alone": 1, "waiting": 0, "moved": 1}, [b"kept", b"after"])
    else:  # it was sent again, to another leader
        assert (died, found) == (
            {"alone": 0, "waiting": 1, "moved": 1},
            [b"kept", b"alone", b"after"],
        )


def test_a_leader_is_left_alone_again_until_something_comes() -> None:
    expect_broker()
    topic = name()
    with Broker(nodes=3) as broker:
        cluster = Cluster(broker.address.kit)
        cluster.create({topic: 1})
        use: list[ConnectionUse] = []
        with Proxy(broker.address.engine_ports, Roles({}, {topic}), nothing) as proxy:
            proxy.greeted = use.append
            brokers = OwnBrokers(broker, proxy, lambda _away: cluster.forget())
            engine = Acknowledged(proxy.port, topic, acks="1")
            engine.send(b"kept", 30)
            (leads,) = (one.number for one in use if one.sent)
            waits: list[float] = []

            def wait(seconds: float) -> None:
                waits.append(seconds)
                if len(waits) == 3:  # between two times alone: the others get it
                    engine.send(b"too early", 30)
                    assert broker.in_sync()
                if len(waits) == 5:  # the second time alone
                    engine.send(b"alone", 30)

            died = brokers.kill_leader(leads, 0.3, wait=wait)
            assert len(waits) == 5 and died == {"alone": 1, "waiting": 0, "moved": 1}
            brokers.close()
        assert committed(broker.address.kit, topic) == [b"kept", b"too early"]


def elections(address: str, topic: str, partitions: int) -> list[int]:
    """Return how often each partition of a topic has got a new leader."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    latest = confluent_kafka.admin.OffsetSpec.latest()
    asked = [confluent_kafka.TopicPartition(topic, one) for one in range(partitions)]

    def request(left_s: float) -> list[int]:
        answers = admin.list_offsets(dict.fromkeys(asked, latest))
        return [answers[one].result(left_s).leader_epoch for one in asked]

    return patiently(request)


def test_leaders_move_and_move_back(wait_until: Callable[..., bool]) -> None:
    expect_broker()
    topic = name()
    with Broker(nodes=3) as broker:
        cluster = Cluster(broker.address.kit)
        cluster.create({topic: 6})
        first = broker.led()
        with Proxy(broker.address.engine_ports, Roles({}, {topic}), nothing) as proxy:
            brokers = OwnBrokers(broker, proxy, lambda _away: cluster.forget())
            mine = sum(one.leader == 1 for one in first)
            moving = [one.leader == 1 for one in first if one.topic == topic]

            def strike(deed: Callable[..., dict[str, int]], *given: float) -> dict[str, int]:
                facts = deed(0, *given)  # which meets broker 1
                brokers._await_return()
                assert wait_until(lambda: broker.led() == first)
                return facts

            begun = time.monotonic()
            assert strike(brokers.kill_leader, 0.0, 30.0)["moved"] == mine
            assert time.monotonic() - begun < 30  # nobody waited for the end of its grace
            assert elections(broker.address.kit, topic, 6) == [2 * one for one in moving]
            assert strike(brokers.pause_leader, 6.0) == {"waiting": 0, "moved": mine}
            assert elections(broker.address.kit, topic, 6) == [4 * one for one in moving]
            with pytest.raises(LookupError, match="no other broker led"):
                brokers.pause_leader(0, 0.1)
            brokers.close()
            assert proxy.failure is None


def test_a_leader_that_comes_back_is_found_again():
    """The client library asks nobody for a leader that it knows to be missing."""
    expect_broker()
    topic = name()
    with Broker(nodes=3) as broker:
        alone = [confluent_kafka.admin.NewTopic(topic, 1, replica_assignment=[[2]])]
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.address.kit})
        admin.create_topics(alone)[topic].result(30)
        cluster = Cluster(broker.address.kit)
        assert cluster.ends(topic, 1, committed=False) == [0]
        broker.kill(2)
        deadline = time.monotonic() + 30
        while cluster.partitions()[topic]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with pytest.raises(KafkaUnavailable, match="No leaders found"):
            cluster.ends(topic, 1, committed=False, limit_s=0.1)
        broker.start_again(2)
        assert cluster.ends(topic, 1, committed=False) == [0]


def failing(*codes: str):
    """Give a request that fails with these codes, one after the other, and then succeeds."""
    left = list(codes)

    def request(_left_s: float) -> str:
        if left:
            code = getattr(confluent_kafka.KafkaError, left.pop(0))
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(code))
        return "done"

    return request


@pytest.mark.parametrize("code", PASSING)
def test_errors_of_a_young_broker_pass(code):
    assert patiently(failing(code, "NOT_LEADER_FOR_PARTITION", code)) == "done"


def test_an_error_that_does_not_pass_is_raised_at_once():
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        patiently(failing("NOT_LEADER_FOR_PARTITION", "TOPIC_AUTHORIZATION_FAILED"))


def test_an_error_that_stays_is_raised_in_the_end():
    with pytest.raises(confluent_kafka.KafkaException, match="NOT_LEADER_FOR_PARTITION"):
        patiently(failing(*["NOT_LEADER_FOR_PARTITION"] * 1_000), 0.1)


def test_a_cluster_that_is_not_there_is_told():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(KafkaUnavailable, match=f"Kafka at {address}: "):
            Cluster(address).id(0.5)
    with pytest.raises(KafkaUnavailable, match=r"settings of the Kafka client: .*no\.such"):
        Cluster(address, {"no.such": "setting"})


def test_committed_records_are_seen_and_aborted_ones_are_not(broker, cluster):
    topic = name()
    cluster.create({topic: 1})
    send_in_transaction(broker.address.engine_ports[0], topic, commit=False)
    send_in_transaction(broker.address.engine_ports[0], topic, commit=True)
    assert committed(broker.address.kit, topic) == [b"kept"]
    assert broker.returncode is None


def test_a_new_broker_has_the_protocol_of_new_clusters(broker):
    # Finalized features: the name, then the highest and the lowest level.
    assert b"transaction.version\0\2\0\2" in features(broker.address.engine_ports[0])


@LONG
def test_the_older_protocol_works_and_a_death_is_seen(kafka, tmp_path, monkeypatch, wait_until):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Broker(transaction_version=0) as older:
        assert b"transaction.version\0\2\0\2" not in features(older.address.engine_ports[0])
        assert b"group.version\0\1\0\1" in features(older.address.engine_ports[0])
        Cluster(older.address.kit).create({"topic": 1})
        send_in_transaction(older.address.engine_ports[0], "topic", commit=True)
        assert committed(older.address.kit, "topic") == [b"kept"]
        os.kill(older.pid, signal.SIGKILL)
        assert wait_until(lambda: older.returncode is not None)
        assert older.returncode == -signal.SIGKILL
        assert any("controller activation" in line for line in older.log_tail())
        # Nobody else gets its ports while its clients still know them.
        with socket.socket() as other, pytest.raises(OSError, match="already in use"):
            other.bind(("127.0.0.1", older.address.engine_ports[0]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=LONG)])
def test_nothing_outlives_the_kit(kafka, tmp_path, wait_until, end):
    kit = subprocess.Popen(
        [sys.executable, "-c", KIT],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    with kit:
        java = psutil.Process(int(kit.stdout.readline()))
        reaper = java.parent()
        assert "kafka.Kafka" in java.cmdline()
        assert len(list(tmp_path.iterdir())) == 1
        kit.send_signal(end)
    assert wait_until(lambda: not reaper.is_running())
    assert not java.is_running()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heap_mb": 4}, r"did not come up: it ended with status 1; its log: .*heap"),
        ({"limit_s": 0.1}, r"did not come up: no answer after 0\.1 s"),
    ],
)
def test_a_broker_that_does_not_come_up_is_told_and_leaves_nothing(
    kafka, tmp_path, monkeypatch, options, words
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = psutil.Process().children(recursive=True)
    with pytest.raises(KafkaUnavailable, match=words):
        Broker(**options)
    assert list(tmp_path.iterdir()) == []
    assert set(psutil.Process().children(recursive=True)) <= set(before)


def test_a_port_that_is_taken_is_told(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(KafkaUnavailable, match=rf"port {port} of 127\.0\.0\.1: Address"):
            Broker(engine_port=port)
    assert list(tmp_path.iterdir()) == []


def test_without_java_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(KafkaUnavailable, match=r"JAVA_HOME=/nowhere: .*tickproof\[kafka\]"):
        Broker()


def test_without_the_client_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka.admin", None)
    with pytest.raises(KafkaUnavailable, match=r"confluent-kafka .*pip install 'tickproof\["):
        Broker()


def test_its_log_may_be_gone(tmp_path):
    jvm = Jvm.__new__(Jvm)
    jvm.log = tmp_path / "nowhere"
    assert jvm.tail() == ()
