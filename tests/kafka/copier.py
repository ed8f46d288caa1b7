"""A copier over Kafka, as engines are: consume, produce and commit offsets in transactions."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tickproof.conformance.engines.security import PLAINTEXT, Security
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.entrance import entrance
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles
from tickproof.conformance.log_server.serving import Observer
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.scenario import SinkBehaviour

PARTITIONS = 2
WAIT_S = 20.0


def wait_until(condition: Callable[[], object], what: str = "") -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}"
        time.sleep(0.01)


def client(address: str, **settings: Any) -> dict[str, Any]:
    quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
    # librdkafka 2.16 forgets offsets under way to a transaction when it bootstraps again.
    quick |= {"retry.backoff.ms": 20, "metadata.recovery.strategy": "none"}
    return {"bootstrap.servers": address, **quick, **settings}


def producer(address: str, **settings: Any) -> Producer:
    return Producer(client(address, **{"linger.ms": 1, **settings}))


#: Settings of librdkafka by the names of what an engine is told.
SETTINGS = {
    "security": "security.protocol",
    "ca": "ssl.ca.pem",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.username": "sasl.username",
    "sasl.password": "sasl.password",
}


class Endless:
    """An input whose end is never fetched."""

    fetched, total = 0, 1


@dataclass
class Stage:
    """Topics of a run on a broker, the proxy before it, and what was seen."""

    broker: Broker
    name: str = field(default_factory=lambda: uuid4().hex[:12])
    observer: Observer = lambda _moment, _connection: None
    moments: list[tuple[str, int]] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    fetches: list[tuple[int, int, int, int]] = field(default_factory=list)
    slow: SinkBehaviour = field(default_factory=SinkBehaviour)
    security: Security = PLAINTEXT
    fed: int = 0

    def __post_init__(self) -> None:
        self.entrance = entrance(self.broker.address, self.security)
        self.input, self.output = f"in-{self.name}", f"out-{self.name}"
        Cluster(self.kit).create({self.input: PARTITIONS, self.output: PARTITIONS})
        self._feeder = producer(self.kit)
        self.sink = Sink(self.slow, self._note)
        self.proxy = Proxy(
            self.entrance.ports,
            Roles({self.input: 0}, {self.output}),
            self._note,
            self._observe,
            fetched=lambda *fetch: self.fetches.append(fetch),
            sink=(self.sink, Endless()),
            tls=self.entrance.tls,
        )

    def _note(self, kind: Any, **fields: Any) -> None:
        self.events.append((str(kind), fields))

    def _observe(self, moment: str, connection: int) -> Any:
        self.moments.append((moment, connection))
        return self.observer(moment, connection)

    @property
    def kit(self) -> str:
        return self.broker.address.kit

    @property
    def engine(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"

    @property
    def secured(self) -> dict[str, str]:
        """Return what clients at the proxy set beside its address."""
        if (access := self.entrance.access) is None:
            return {}
        values = access.values(Path())
        if access.ca:
            values["ca"] = access.ca
        return {SETTINGS[name]: value for name, value in values.items()}

    def seen(self, kind: str) -> list[dict[str, Any]]:
        return [fields for one, fields in self.events if one == kind]

    def feed(self, records: int) -> None:
        for number in range(self.fed, self.fed + records):
            self._feeder.produce(self.input, b"%d" % number, partition=number % PARTITIONS)
        assert self._feeder.flush(WAIT_S) == 0
        self.fed += records

    def consumer(self, address: str, **settings: Any) -> Consumer:
        usual = {
            "group.id": f"g-{self.name}",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "enable.auto.commit": False,
        }
        if address == self.engine:
            usual |= self.secured
        return Consumer(client(address, **usual | settings))


@contextmanager
def staged(broker: Broker, **fields: Any) -> Iterator[Stage]:
    stage = Stage(broker, **fields)
    with stage.proxy:
        yield stage


class Copier:
    """Copies in a thread, each batch in a transaction, until it is closed."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._over = stage, threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Copier:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(WAIT_S)
        assert self.failure is None

    def _run(self) -> None:
        stage = self._stage
        source = stage.consumer(stage.engine)
        sink = producer(stage.engine, **stage.secured, **{"transactional.id": f"t-{stage.name}"})
        try:
            sink.init_transactions(WAIT_S)
            source.subscribe([stage.input])
            while not self._over.is_set():
                batch = [one for one in source.consume(100, 0.05) if not one.error()]
                if batch:
                    self._copy(source, sink, batch)
        except BaseException as error:
            self.failure = error
        finally:
            source.close()

    def _copy(self, source: Consumer, sink: Producer, batch: list[Any]) -> None:
        try:
            sink.begin_transaction()
            for one in batch:
                sink.produce(self._stage.output, one.value(), partition=one.partition())
            held = source.assignment()
            sink.send_offsets_to_transaction(
                source.position(held), source.consumer_group_metadata(), WAIT_S
            )
            sink.commit_transaction(WAIT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            sink.abort_transaction(WAIT_S)
            for place in source.committed(source.assignment(), WAIT_S):
                source.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


class Reader:
    """What a user sees of the output, past the proxy."""

    def __init__(self, stage: Stage, isolation: str = "read_committed") -> None:
        self._consumer = stage.consumer(
            stage.kit, **{"group.id": f"r-{uuid4().hex}", "isolation.level": isolation}
        )
        self._consumer.assign([TopicPartition(stage.output, p, 0) for p in range(PARTITIONS)])
        self.values: Counter[bytes] = Counter()

    def read(self) -> int:
        """Read what has come; return how many records were seen so far."""
        for one in self._consumer.consume(1000, 0.05):
            if not one.error():
                self.values[one.value()] += 1
        return self.values.total()

    def wait_for(self, records: int) -> None:
        """Wait until each number below was seen, and say that none was seen twice."""
        wait_until(lambda: self.read() >= records, f"{records} records of output")
        self.read()
        assert self.values == Counter(b"%d" % number for number in range(records))

    def close(self) -> None:
        self._consumer.close()
