"""The proxy between a real broker and real clients: what it sees, and how it holds them."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.copier import WAIT_S, Copier, Reader, Stage, client, producer, staged, wait_until
from tests.long import LONG
from tickproof.conformance.history.event import StateRead
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.names import Name, NameKind
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles


@contextmanager
def reading(stage: Stage, isolation: str = "read_committed") -> Iterator[Reader]:
    reader = Reader(stage, isolation)
    try:
        yield reader
    finally:
        reader.close()


def test_every_moment_of_a_transaction_is_seen_in_order(broker: Broker) -> None:
    with staged(broker) as stage, reading(stage) as reader:
        stage.feed(500)
        with Copier(stage):
            reader.wait_for(500)
        seen = [moment for moment, _ in stage.moments]
        first = [seen.index(one) for one in ("fetched", "stage-received", "staged", "stage-acked")]
        first += [seen.index(one) for one in ("commit-received", "committed", "commit-acked")]
        assert first == sorted(first)
        times = Counter(seen)
        assert times["commit-received"] == times["committed"] == stage.proxy.traffic.commits
        assert times["staged"] == times["stage-acked"] and not times["appended"]
        # Offsets may come before the output of their transaction, on a connection of their own.
        assert times["join-received"] == times["joined"] == times["join-acked"]
        assert times["joined"] <= times["committed"] and not times["offsets-taken"]
        traffic = stage.proxy.traffic
        assert (traffic.transactional, traffic.plain, traffic.fetched) == (500, 0, 500)
        assert traffic.askers.keys() == {(0, 0), (0, 1)}
        wait_until(lambda: all(one.fetched and one.over for one in traffic.askers.values()))
        # Each record once, and each fetch goes on where the one before ended.
        for partition in range(2):
            parts = [(a, b) for _, one, a, b in stage.fetches if one == partition]
            assert parts[0][0] == 0 and parts[-1][1] == 250
            assert all(a[1] == b[0] for a, b in pairwise(parts))
        assert stage.proxy.failure is None and not traffic.malformed and not traffic.unread


def test_offsets_of_a_transaction_that_holds_nothing_are_no_moment(broker: Broker) -> None:
    with staged(broker) as stage:
        stage.feed(2)
        source = stage.consumer(stage.engine)
        source.subscribe([stage.input])
        wait_until(lambda: source.poll(0.05))
        sink = producer(stage.engine, **{"transactional.id": f"t-{stage.name}"})
        sink.init_transactions(WAIT_S)
        for records in ([], [b"0"]):
            sink.begin_transaction()
            for record in records:
                sink.produce(stage.output, record)
            assert sink.flush(WAIT_S) == 0
            places = source.position(source.assignment())
            sink.send_offsets_to_transaction(places, source.consumer_group_metadata(), WAIT_S)
            assert bool(records) == ("joined" in [moment for moment, _ in stage.moments])
            sink.commit_transaction(WAIT_S)
        source.close()


def test_every_moment_of_plain_output_is_seen_in_order(broker: Broker) -> None:
    with staged(broker) as stage:
        sink = producer(stage.engine)
        sink.produce(stage.output, b"0")
        assert sink.flush(WAIT_S) == 0
        wait_until(lambda: "append-acked" in (moment for moment, _ in stage.moments))
        # A broker that knows of a new topic only just then has it sent again.
        assert list(dict.fromkeys(moment for moment, _ in stage.moments)) == [
            "append-received",
            "appended",
            "append-acked",
        ]
        assert stage.proxy.traffic.plain == 1


def test_topics_of_the_engine_alone_are_no_output(broker: Broker) -> None:
    with staged(broker) as stage:
        sink = producer(stage.engine, **{"transactional.id": f"t-{stage.name}"})
        sink.init_transactions(WAIT_S)
        sink.begin_transaction()
        # The input stands for any topic that is not the output.
        sink.produce(stage.input, b"state")
        sink.commit_transaction(WAIT_S)
        wait_until(lambda: stage.proxy.traffic.commits)
        seen = {moment for moment, _ in stage.moments}
        # What holds state is a commit, and no output.
        assert "commit-received" in seen and not seen & {"staged", "appended"}
        assert stage.proxy.traffic.transactional == 0


def test_it_is_known_how_far_an_engine_may_read_a_topic_of_its_own(broker: Broker) -> None:
    with staged(broker) as stage:
        log = f"changelog-{stage.name}"
        admin = AdminClient({"bootstrap.servers": broker.address.kit})
        admin.create_topics([NewTopic(log, 1)])[log].result(WAIT_S)
        whole, left = (producer(stage.engine, **{"transactional.id": f"{n}-{log}"}) for n in "ab")
        for sink in (whole, left):
            sink.init_transactions(WAIT_S)
        for sink, records in ((whole, 3), (left, 2), (whole, 4)):
            sink.begin_transaction()
            for number in range(records):
                sink.produce(log, b"%d" % number, partition=0)
            assert sink.flush(WAIT_S) == 0
            if sink is whole:
                sink.commit_transaction(WAIT_S)
        place = TopicPartition(log, 0, 0)
        source = Consumer(client(stage.engine) | {"group.id": log, "auto.offset.reset": "earliest"})
        # The last stable offset: behind three records and the mark that ends their transaction.
        assert source.get_watermark_offsets(place, WAIT_S)[1] == 4
        source.assign([place])
        wait_until(lambda: source.poll(0.05))
        (known,) = merged(stage.proxy.traffic.state_reads.values())
        assert known == (log, 0, 4, 3, 9)
        left.abort_transaction(WAIT_S)
        source.close()


def merged(reads: Iterable[StateRead]) -> set[tuple[str, int, int, int, int]]:
    """Return (topic, partition, told, sent, written), whatever connections they came by."""
    rows = [*reads]
    return {
        (
            one.topic,
            one.partition,
            max(row.told for row in rows),
            max(row.sent for row in rows),
            max(row.written for row in rows),
        )
        for one in rows
    }


def test_offsets_of_a_transaction_are_answered_with_an_error_once(broker: Broker) -> None:
    with staged(broker) as stage:
        sink = producer(stage.engine, **{"transactional.id": f"t-{stage.name}"})
        sink.init_transactions(WAIT_S)
        source = Consumer(client(stage.engine) | {"group.id": f"g-{stage.name}"})
        place = TopicPartition(stage.input, 0, 1)

        def given() -> None:
            sink.begin_transaction()
            sink.produce(stage.output, b"one")
            sink.flush(WAIT_S)
            metadata = source.consumer_group_metadata()
            sink.send_offsets_to_transaction([place], metadata, WAIT_S)

        try:
            source.subscribe([stage.input])
            wait_until(lambda: source.poll(0.1) or source.assignment())
            stage.proxy.obstacle.set(errs="TxnOffsetCommit")
            with pytest.raises(KafkaException) as failed:
                given()
            error = failed.value.args[0]
            assert error.code() == KafkaError.ILLEGAL_GENERATION and error.txn_requires_abort()
            sink.abort_transaction(WAIT_S)
            assert source.committed([place], WAIT_S)[0].offset < 0
            given()  # its membership is what it was
            sink.commit_transaction(WAIT_S)
            assert source.committed([place], WAIT_S)[0].offset == 1
            assert stage.proxy.obstacle.met == 1
        finally:
            source.close()


def test_output_is_answered_with_an_error_once(broker: Broker) -> None:
    with staged(broker) as stage:
        sink = producer(stage.engine)
        stage.proxy.obstacle.set(errs="Produce")
        told: list[KafkaError | None] = []
        for value in (b"one", b"two"):
            sink.produce(stage.output, value, on_delivery=lambda error, _: told.append(error))
            assert sink.flush(WAIT_S) == 0
        refused, taken = told
        assert refused is not None and taken is None
        assert refused.code() == KafkaError.UNKNOWN
        assert (stage.proxy.obstacle.met, stage.proxy.traffic.plain) == (1, 1)


def test_what_an_engine_calls_its_own_is_seen(broker: Broker) -> None:
    with staged(broker) as stage:
        producer(stage.engine).flush(WAIT_S)
        sink = producer(stage.engine, **{"transactional.id": f"t-{stage.name}"})
        sink.init_transactions(WAIT_S)
        admin = AdminClient(client(stage.engine))
        admin.create_topics([NewTopic(f"state-{stage.name}", 1)])[f"state-{stage.name}"].result()
        source = Consumer(client(stage.engine) | {"group.id": f"g-{stage.name}"})
        try:
            source.subscribe([stage.input])
            wait_until(lambda: source.poll(0.1) or source.assignment())
        finally:
            source.close()
        assert stage.proxy.traffic.names == {
            Name(NameKind.TRANSACTIONAL_ID, f"t-{stage.name}"),
            Name(NameKind.TOPIC, f"state-{stage.name}"),
            Name(NameKind.GROUP, f"g-{stage.name}"),
        }
        assert not stage.proxy.traffic.malformed and not stage.proxy.traffic.unread


def test_a_commit_that_is_lost_leaves_its_transaction_open(broker: Broker) -> None:
    lost: list[int] = []

    def observer(moment: str, connection: int) -> Future[bool] | None:
        if moment != "commit-received" or lost:
            return None
        lost.append(connection)
        done: Future[bool] = Future()
        done.set_result(True)
        return done

    with staged(broker, observer=observer) as stage:
        sink = producer(
            stage.engine,
            **{
                "transactional.id": f"t-{stage.name}",
                "reconnect.backoff.ms": 60_000,
                "reconnect.backoff.max.ms": 60_000,
                "transaction.timeout.ms": 60_000,
            },
        )
        sink.init_transactions(WAIT_S)
        sink.begin_transaction()
        sink.produce(stage.output, b"0", partition=0)
        with pytest.raises(KafkaException):
            sink.commit_transaction(2)
        assert lost and stage.seen("frame-lost") == [{"connection": lost[0]}]
        assert stage.proxy.traffic.commits == 0 and stage.proxy.traffic.transactional == 1
        with reading(stage, "read_uncommitted") as dirty, reading(stage) as clean:
            wait_until(lambda: dirty.read() == 1)
            assert clean.read() == 0


def test_a_connection_is_held_until_the_observer_is_done(broker: Broker) -> None:
    done: Future[bool] = Future()

    def observer(moment: str, _: int) -> Future[bool] | None:
        return done if moment == "appended" else None

    with staged(broker, observer=observer) as stage, reading(stage) as reader:
        sink = producer(stage.engine)
        sink.produce(stage.output, b"0")
        wait_until(lambda: (stage.moments and stage.moments[-1][0] == "appended") or sink.poll(0))
        # The broker has it, and the client does not know.
        reader.wait_for(1)
        left = sink.flush(0.2)
        assert left == 1 and stage.moments[-1][0] == "appended"
        done.set_result(False)
        assert sink.flush(WAIT_S) == 0
        wait_until(lambda: stage.moments[-1][0] == "append-acked")


def test_clients_are_led_to_the_port_that_they_came_by(broker: Broker) -> None:
    with staged(broker) as stage:
        with socket.create_server(("127.0.0.1", 0)) as second:
            stage.proxy.listen_on(second.dup())
            ports = {stage.proxy.port, int(second.getsockname()[1])}
            assert len(ports) == 1
        found = AdminClient(client(stage.engine)).list_topics(timeout=WAIT_S).brokers
        assert [f"{one.host}:{one.port}" for one in found.values()] == [stage.engine]


def test_what_is_no_kafka_is_turned_away(broker: Broker) -> None:
    with staged(broker) as stage:
        for raw in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\x7f\x00\0\0\0\0\0\1", b"\0\0\0\0"):
            with socket.create_connection(("127.0.0.1", stage.proxy.port), WAIT_S) as sock:
                sock.sendall(raw)
                with contextlib.suppress(ConnectionResetError):
                    assert sock.recv(1) == b""
        wait_until(lambda: len(stage.seen("not-greeted")) == 3)
        assert stage.proxy.wait_idle(WAIT_S) and stage.proxy.failure is None


def test_what_a_dead_client_has_sent_is_handled(broker: Broker) -> None:
    """A Produce of which nobody reads the answer has its effect, and is over before idle."""
    with staged(broker) as stage, reading(stage) as reader:
        kept: list[Future[bool]] = []

        def hold(moment: str, _: int) -> Future[bool] | None:
            if moment == "append-received" and not kept:
                kept.append(Future())
                return kept[0]
            return None

        stage.observer = hold
        program = (
            "from confluent_kafka import Producer\n"
            f"sink = Producer({{'bootstrap.servers': '{stage.engine}'}})\n"
            f"sink.produce('{stage.output}', b'0', partition=0)\n"
            "sink.flush()\n"
        )
        with subprocess.Popen([sys.executable, "-c", program]) as killed:
            wait_until(lambda: kept)
            killed.kill()
        kept[0].set_result(False)
        assert stage.proxy.wait_idle(WAIT_S)
        reader.wait_for(1)


def test_without_a_broker_the_kit_has_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with Proxy([port], Roles({}, ()), lambda *_, **__: None) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), WAIT_S) as sock:
            assert sock.recv(1) == b""
        assert isinstance(proxy.failure, ConnectionError)
        assert str(port) in str(proxy.failure)


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=str(port)):
            Proxy([1], Roles({}, ()), lambda *_, **__: None, port=port)


@LONG
def test_a_broker_that_dies_is_the_kit_s_failure() -> None:
    with Broker() as own, staged(own) as stage:
        stage.feed(10)
        with reading(stage) as reader, contextlib.suppress(AssertionError):
            with Copier(stage):
                reader.wait_for(10)
                own.close()
                wait_until(lambda: stage.proxy.failure)
        assert isinstance(stage.proxy.failure, ConnectionError)
        assert stage.proxy.wait_idle(WAIT_S)
