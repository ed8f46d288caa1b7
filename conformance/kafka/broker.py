"""An Apache Kafka broker of the kit's own: one node, in a temporary folder, on loopback."""

from __future__ import annotations

import base64
import functools
import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.cluster import Cluster, client_library, listens
from tickproof.conformance.kafka.jvm import Jvm
from tickproof.conformance.text import shown

HOST: Final = "127.0.0.1"
#: Protocols of transactions: 2 is KIP-890, as on every new cluster, 0 the one before it.
TRANSACTION_VERSIONS: Final = (0, 2)
START_S: Final = 90.0
HEAP_MB: Final = 512
_CONNECT_S: Final = 1.0
_LOOK_S: Final = 0.02
_FORMATTED: Final = Path(__file__).with_name("formatted")

SHORTEST_SESSION_MS: Final = 1000
SHORTEST_HEARTBEAT_MS: Final = 300
#: What differs from Kafka's own defaults, beside names, ports and folders.
SETTINGS: Final = {
    # One node.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "auto.leader.rebalance.enable": "false",
    # The kit reads the time line of commits from these two, and all of it.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    # Engines say how long a dead member or transaction may hold up others; a test should not
    # wait longer than that, nor be told that it may not say so.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SHORTEST_SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SHORTEST_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(SHORTEST_HEARTBEAT_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.max.timeout.ms": "3600000",
    # A topic that nobody made is a mistake of the engine, not a topic.
    "auto.create.topics.enable": "false",
    # Runs come and go.
    "log.segment.delete.delay.ms": "1000",
    # Two cores are shared with the engine and the kit.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}

_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@dataclass(frozen=True)
class BrokerAddress:
    """Addresses of a broker: ``kit`` is host:port, for the kit alone.

    What the broker tells clients of ``engine_port`` about itself is that port of HOST: a proxy
    stands before it, and puts its own there. transaction_version: of `TRANSACTION_VERSIONS`,
    None where nobody knows. outlives: it was there before, and runs clean up behind themselves.
    """

    kit: str
    engine_port: int
    transaction_version: int | None = 2
    outlives: bool = False


class Broker:
    """A running broker; use it as a context manager. It serves many runs at once.

    Ports are chosen by the system where they are 0. Nothing of it outlives the process that made
    it, whose death by SIGKILL included. Raises KafkaUnavailable: no Java, jars or client library,
    a port that is taken, no answer within ``limit_s``.
    """

    def __init__(
        self,
        *,
        transaction_version: int = 2,
        kit_port: int = 0,
        engine_port: int = 0,
        heap_mb: int = HEAP_MB,
        limit_s: float = START_S,
    ) -> None:
        if transaction_version not in TRANSACTION_VERSIONS:
            raise ValueError(f"transaction_version: expected one of {TRANSACTION_VERSIONS}")
        client_library()  # which may be missing: that is said before a download
        found = jars.find_java()
        folder = jars.bring(jars.load(jars.BROKER))
        began = time.monotonic()
        # Bound for as long as it lives: nobody else gets the ports before it, or after its death.
        self._reserved = _reserve(kit_port, engine_port, 0)
        kit, engine, controller = (held.getsockname()[1] for held in self._reserved)
        self.address = BrokerAddress(f"{HOST}:{kit}", engine, transaction_version)
        self._workspace = Workspace()
        self._id = _new_id()
        try:
            self._lay_out(kit, engine, controller)
            self._program = functools.partial(
                Jvm,
                found,
                folder,
                ["kafka.Kafka", str(self._file("server.properties"))],
                self._workspace,
                self._file("broker.log"),
                (f"-Xmx{heap_mb}m", *_LOGGING),
            )
            self._jvm = self._program()
        except BaseException:
            self._release()
            raise
        try:
            self._await_answer(began + limit_s, limit_s)
        except BaseException:
            self._jvm.kill()
            self._release()
            raise
        #: How long it took from the jars to the first answer.
        self.start_s = time.monotonic() - began

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process of the broker."""
        return self._jvm.pid

    @property
    def returncode(self) -> int | None:
        """The broker's exit status, as subprocess says it; None while it runs."""
        return self._jvm.returncode

    def kill(self) -> None:
        """End the broker with SIGKILL; its data stay for `start_again`."""
        self._jvm.kill()

    def start_again(self, limit_s: float = START_S) -> None:
        """Start the broker that was killed, on its data and ports; raises KafkaUnavailable."""
        self._jvm = self._program()
        self._await_answer(time.monotonic() + limit_s, limit_s)

    def log_tail(self) -> tuple[str, ...]:
        """Return the last lines of the broker's log, oldest first, escaped."""
        return tuple(shown(line, 500) for line in self._jvm.tail())

    def close(self) -> None:
        """End the broker and remove all that it kept; may be called again."""
        try:
            self._jvm.close()
        finally:
            self._release()

    def _release(self) -> None:
        self._workspace.remove()
        for held in self._reserved:
            held.close()

    def _file(self, name: str) -> Path:
        return self._workspace.states / name

    def _lay_out(self, kit: int, engine: int, controller: int) -> None:
        """Write the settings, and the folder of data as formatting would leave it."""
        data = self._file("data")
        data.mkdir()
        listeners = f"KIT://{HOST}:{kit},ENGINE://{HOST}:{engine}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "KIT",
            "listeners": f"{listeners},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "KIT:PLAINTEXT,ENGINE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(data),
            **SETTINGS,
        }
        _write_properties(self._file("server.properties"), settings)
        identity = {"version": "1", "cluster.id": self._id, "node.id": "1"}
        _write_properties(data / "meta.properties", identity | {"directory.id": _new_id()})
        features = f"transactions-{self.address.transaction_version}.checkpoint"
        (data / "bootstrap.checkpoint").write_bytes((_FORMATTED / features).read_bytes())

    def _await_answer(self, deadline: float, limit_s: float) -> None:
        """Wait for an answer about the cluster that names this one."""
        while not listens(self.address.kit):
            self._expect_life(deadline, limit_s)
            time.sleep(_LOOK_S)
        cluster = Cluster(self.address.kit)
        while True:
            try:
                if cluster.id(_CONNECT_S) == self._id:
                    return
            except KafkaUnavailable:
                pass  # it is not so far yet
            self._expect_life(deadline, limit_s)

    def _expect_life(self, deadline: float, limit_s: float) -> None:
        """Raise KafkaUnavailable for a broker that has ended, or takes too long."""
        if (status := self.returncode) is not None:
            why = f"it ended with status {status}"
        elif time.monotonic() > deadline:
            why = f"no answer after {limit_s:g} s"
        else:
            return
        log = "; ".join(self.log_tail()[-3:])
        raise KafkaUnavailable(f"the Kafka broker did not come up: {why}; its log: {log or '-'}")


def _reserve(*ports: int) -> list[socket.socket]:
    """Bind sockets that never listen, so that others may, who ask for a port by its number."""
    held: list[socket.socket] = []
    for port in ports:
        held.append(one := socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError as error:
            for other in held:
                other.close()
            raise KafkaUnavailable(
                f"the Kafka broker cannot have port {port} of {HOST}: {error.strerror}; "
                "expected one that is free"
            ) from error
    return held


def _new_id() -> str:
    """Return an id in the form of Kafka: 16 random bytes in base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _write_properties(path: Path, settings: dict[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
