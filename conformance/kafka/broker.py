"""Apache Kafka of the kit's own: one broker or three, in a temporary folder, on loopback."""

from __future__ import annotations

import base64
import contextlib
import functools
import secrets
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.broker_settings import (
    CONTROLLER,
    HOST,
    Ports,
    User,
    broker_alone,
    combined,
    controller_alone,
)
from tickproof.conformance.kafka.cluster import NOBODY, Cluster, Led, client_library, listens
from tickproof.conformance.kafka.jvm import Jvm
from tickproof.conformance.kafka.replication import Replication
from tickproof.conformance.text import shown

#: Protocols of transactions: 2 is KIP-890, as on every new cluster, 0 the one before it.
TRANSACTION_VERSIONS: Final = (0, 2)
START_S: Final = 90.0
#: For others to lead, of which a broker that is silent has 3 s.
FAILOVER_S: Final = 20.0
HEAP_MB: Final = 512
#: Of engines that log in.
USER: Final = "tickproof"
_CONNECT_S: Final = 1.0
_LOOK_S: Final = 0.02
_FORMATTED: Final = Path(__file__).with_name("formatted")

_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@dataclass(frozen=True)
class BrokerAddress:
    """Addresses of a broker, or of those of a cluster.

    ``kit`` is host:port, with commas between several, for the kit alone. What a broker tells
    clients of its port in ``engine_ports`` about itself is that port of HOST: a proxy stands
    before it, and puts its own address there. transaction_version: of `TRANSACTION_VERSIONS`, None
    where nobody knows. outlives: it was there before, and runs clean up behind themselves.
    pid: of the broker that the kit has started, 0 for another. login_ports: as engine_ports, for
    clients that log in with username and password; empty for another broker than the kit's.
    """

    kit: str
    engine_ports: Sequence[int]
    transaction_version: int | None = 2
    outlives: bool = False
    pid: int = 0
    login_ports: Sequence[int] = ()
    username: str = ""
    password: str = field(default="", repr=False)


@dataclass
class _Node:
    """One process of the cluster."""

    number: int
    program: Callable[[], Jvm]
    jvm: Jvm | None = None

    def start(self) -> None:
        self.jvm = self.program()

    @property
    def running(self) -> Jvm:
        assert self.jvm is not None
        return self.jvm


class Broker:
    """A running broker, or a cluster of ``nodes``; use it as a context manager.

    It serves many runs at once. Brokers have the numbers from 1 on. Ports are chosen by the system
    where they are 0. Nothing of it outlives the process that made it, whose death by SIGKILL
    included. Raises KafkaUnavailable: no Java, jars or client library, a port that is taken, no
    answer within ``limit_s``.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        transaction_version: int = 2,
        kit_port: int = 0,
        engine_port: int = 0,
        heap_mb: int = HEAP_MB,
        limit_s: float = START_S,
    ) -> None:
        if transaction_version not in TRANSACTION_VERSIONS:
            raise ValueError(f"transaction_version: expected one of {TRANSACTION_VERSIONS}")
        client_library()  # which may be missing: that is said before a download
        self._java = jars.find_java(), jars.bring(jars.load(jars.BROKER)), f"-Xmx{heap_mb}m"
        began = time.monotonic()
        # Bound for as long as it lives: nobody else gets the ports before it, or after its death.
        self._reserved = _reserve(kit_port, engine_port, *[0] * (4 * nodes - 1))
        *ports, controller = (held.getsockname()[1] for held in self._reserved)
        kit, engine, login, peers = (ports[which::4] for which in range(4))
        self._replication = Replication(peers) if nodes > 1 else None
        named = self._replication.ports if self._replication else peers
        # Hex digits: they look the same in settings, in JSON and in addresses.
        self._user = User(USER, secrets.token_hex(16))
        self.address = BrokerAddress(
            ",".join(f"{HOST}:{port}" for port in kit),
            engine,
            transaction_version,
            login_ports=login,
            username=self._user.name,
            password=self._user.password,
        )
        self._workspace = Workspace()
        self._id = _new_id()
        self._nodes: list[_Node] = []
        try:
            by_broker = zip(kit, engine, login, peers, named, strict=True)
            brokers = [Ports(*of_one) for of_one in by_broker]
            self._nodes += self._lay_out(brokers, controller)
            for node in self._nodes:
                node.start()
            self._await_answer(began + limit_s, limit_s)
        except BaseException:
            self._kill_all()
            self._release()
            raise
        self.address = replace(self.address, pid=self.pid)
        #: How long it took from the jars to the first answer.
        self.start_s = time.monotonic() - began

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process of the broker, or of the first of a cluster."""
        return self._nodes[0].running.pid

    @property
    def returncode(self) -> int | None:
        """Exit status of one that has ended, as subprocess says it; None while all run."""
        ended = (node.running.returncode for node in self._nodes)
        return next((status for status in ended if status is not None), None)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the brokers."""
        return [node.number for node in self._nodes if node.number != CONTROLLER]

    def kill(self, number: int = 1) -> None:
        """End a broker with SIGKILL; its data stay for `start_again`."""
        self._node(number).running.kill()

    def end(self, number: int, grace_s: float) -> None:
        """End a broker as its operators do: it hands over what it leads; then see `kill`."""
        self._node(number).running.end(grace_s)

    @contextlib.contextmanager
    def paused(self, number: int) -> Iterator[None]:
        """Have a broker stand still for a time."""
        jvm = self._node(number).running
        jvm.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            jvm.signal(signal.SIGCONT)

    def start_again(self, *numbers: int, limit_s: float = START_S) -> None:
        """Start brokers that were killed, on their data and ports; raises KafkaUnavailable.

        Returns when each of the cluster answers, and is known again.
        """
        for number in numbers:
            self._node(number).start()
        self._await_answer(time.monotonic() + limit_s, limit_s)

    @contextlib.contextmanager
    def alone(self, number: int) -> Iterator[None]:
        """Keep from all other brokers, for a time, what one of a cluster takes."""
        assert self._replication is not None
        self._replication.hold(number, True)
        try:
            yield
        finally:
            self._replication.hold(number, False)

    def in_sync(self, limit_s: float = FAILOVER_S) -> bool:
        """Wait until every copy of every partition is whole; False if that takes too long."""
        return self._led(lambda led: all(one.whole for one in led), limit_s)

    def led_by_others(self, number: int, limit_s: float = FAILOVER_S) -> bool:
        """Wait until others lead all that a dead broker led; False if that takes too long."""
        return self._led(lambda led: not {number, NOBODY} & {one.leader for one in led}, limit_s)

    def led(self) -> list[Led]:
        """Return who leads each partition of which there are several copies."""
        return Cluster(self.address.kit).led()

    def lead_as_at_first(self, limit_s: float = FAILOVER_S) -> bool:
        """Have the brokers lead again what each led at first; False if that takes too long."""
        return self._comes_true(Cluster(self.address.kit).elect, limit_s)

    def _led(self, wanted: Callable[[list[Led]], bool], limit_s: float) -> bool:
        cluster = Cluster(self.address.kit)
        return self._comes_true(lambda: wanted(cluster.led(limit_s)), limit_s)

    @staticmethod
    def _comes_true(condition: Callable[[], bool], limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def log_tail(self) -> tuple[str, ...]:
        """Return the last lines of the log of each, oldest first, escaped."""
        lines = (line for node in self._nodes for line in node.running.tail())
        return tuple(shown(line, 500) for line in lines)

    def close(self) -> None:
        """End the broker and remove all that it kept; may be called again."""
        try:
            if len(self._nodes) > 1:
                self._kill_all()  # in order it would wait for a majority, which ends too
            for node in self._nodes:
                node.running.close()
        finally:
            self._release()

    def _kill_all(self) -> None:
        for node in self._nodes:
            if node.jvm is not None:
                node.jvm.kill()

    def _release(self) -> None:
        if self._replication is not None:
            self._replication.close()
        self._workspace.remove()
        for held in self._reserved:
            held.close()

    def _node(self, number: int) -> _Node:
        return next(node for node in self._nodes if node.number == number)

    def _lay_out(self, brokers: Sequence[Ports], controller: int) -> Iterator[_Node]:
        """Write settings and folders; one broker is its own controller, several have another."""
        if len(brokers) == 1:
            yield self._made(1, combined(brokers[0], controller, self._user), leads=True)
            return
        yield self._made(CONTROLLER, controller_alone(controller), leads=True)
        for number, ports in enumerate(brokers, 1):
            settings = broker_alone(number, ports, controller, self._user)
            yield self._made(number, settings, leads=False)

    def _made(self, number: int, settings: Mapping[str, str], *, leads: bool) -> _Node:
        """Write the settings of a node, and its folder of data as formatting would leave it."""
        data = self._workspace.states / f"data-{number}"
        data.mkdir()
        written = self._workspace.states / f"server-{number}.properties"
        _write_properties(written, {**settings, "log.dirs": str(data)})
        identity = {"version": "1", "cluster.id": self._id, "node.id": str(number)}
        _write_properties(data / "meta.properties", identity | {"directory.id": _new_id()})
        if leads:
            features = f"transactions-{self.address.transaction_version}.checkpoint"
            (data / "bootstrap.checkpoint").write_bytes((_FORMATTED / features).read_bytes())
        found, folder, heap = self._java
        program = functools.partial(
            Jvm,
            found,
            folder,
            ["kafka.Kafka", str(written)],
            self._workspace,
            self._workspace.states / f"node-{number}.log",
            (heap, *_LOGGING),
        )
        return _Node(number, program)

    def _await_answer(self, deadline: float, limit_s: float) -> None:
        """Wait for an answer about the cluster that names this one, and each of its brokers."""
        while not all(map(listens, self.address.kit.split(","))):
            self._expect_life(deadline, limit_s)
            time.sleep(_LOOK_S)
        cluster, numbers = Cluster(self.address.kit), set(self.numbers)
        while True:
            try:
                if (
                    cluster.id(_CONNECT_S) == self._id
                    and cluster.brokers(_CONNECT_S).keys() == numbers
                ):
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
    path.touch(0o600)  # it may hold a password
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
