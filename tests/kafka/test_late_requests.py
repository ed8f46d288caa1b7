"""What a request does that reaches the broker late, by another connection (decision 0080)."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType
from typing import Any

import pytest

from tests.kafka.presence import expect_broker
from tests.kafka.test_broker import committed, name, nothing
from tests.long import LONG
from tickproof.conformance.kafka.broker import TRANSACTION_VERSIONS, Broker
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles
from tickproof.conformance.kafka.wire import Api

confluent_kafka = pytest.importorskip("confluent_kafka")
_SIZE = struct.Struct(">i")
_RESET = struct.pack("ii", 1, 0)


class Detour:
    """Passes requests on to a port of 127.0.0.1, but for one of ``api`` once it is armed.

    That one is kept, and the client's connection reset.
    """

    def __init__(self, to: int, api: Api) -> None:
        self._to, self._api = to, api
        self.armed = threading.Event()
        self.kept = b""
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]

    def __enter__(self) -> Detour:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def send_late(self) -> bytes:
        """Send what was kept by a connection of its own; return the answer."""
        with self._connected() as late:
            late.sendall(self.kept)
            return late.recv(1 << 16)

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._to), 30)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            broker = self._connected()
            for work, ends in ((self._requests, (client, broker)), (_answers, (broker, client))):
                threading.Thread(target=work, args=ends, daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with client, broker, client.makefile("rb") as requests:
            while size := requests.read(_SIZE.size):
                request = size + requests.read(*_SIZE.unpack(size))
                if self.armed.is_set() and request[4:6] == self._api.to_bytes(2, "big"):
                    self.armed.clear()
                    self.kept = request
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    return
                broker.sendall(request)


def _answers(broker: socket.socket, client: socket.socket) -> None:
    try:
        while chunk := broker.recv(1 << 16):
            client.sendall(chunk)
    except OSError:
        pass  # either end has gone


@pytest.mark.parametrize("version", TRANSACTION_VERSIONS)
@pytest.mark.parametrize("api", [Api.END_TXN, Api.PRODUCE])
@LONG
def test_a_late_end_commits_what_comes_after_it_and_late_output_changes_nothing(
    version: int, api: Api
) -> None:
    expect_broker()
    topic = name()
    with Broker(transaction_version=version) as broker:
        Cluster(broker.address.kit).create({topic: 1})
        engine_ports = broker.address.engine_ports

        class Around(Proxy):
            """Reaches the broker by the detour."""

            async def connect(self, sock: socket.socket, broker: int) -> bool:
                sock.setblocking(False)
                await self._loop.sock_connect(sock, ("127.0.0.1", detour.port))
                return True

        with (
            Detour(engine_ports[0], api) as detour,
            Around(engine_ports, Roles({}, {topic}), nothing) as proxy,
        ):
            producer: Any = confluent_kafka.Producer(
                {
                    "bootstrap.servers": f"127.0.0.1:{proxy.port}",
                    "transactional.id": topic,
                    "log_level": 0,
                }
            )
            producer.init_transactions(30)
            producer.begin_transaction()
            detour.armed.set()
            producer.produce(topic, b"first")
            producer.commit_transaction(30)  # the client asks again, by a new connection
            assert detour.kept
            producer.begin_transaction()
            producer.produce(topic, b"second")
            assert producer.flush(30) == 0
            assert committed(broker.address.kit, topic) == [b"first"]
            assert detour.send_late()
            found = committed(broker.address.kit, topic)
            assert proxy.failure is None
    # librdkafka speaks the protocol from before KIP-890 with any broker: nothing in it tells one
    # transaction of a producer from the next.
    assert found == ([b"first", b"second"] if api is Api.END_TXN else [b"first"])
