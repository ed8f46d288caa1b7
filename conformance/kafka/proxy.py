"""The proxy of a run: between the engine's Kafka clients and the broker, in one thread.

It sees what is fetched and produced, and when; it holds connections at the moments at which
faults aim, and carries out faults of connections. It stands where the log server stands in
other runs, and looks the same to the runner.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from tickproof.conformance.history.event import EventKind
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.frame_stream import Budget
from tickproof.conformance.kafka.metadata import broker_behind, doors
from tickproof.conformance.kafka.proxy_connection import Connection
from tickproof.conformance.kafka.traffic import Roles, Topics, Traffic
from tickproof.conformance.kafka.wire import Api
from tickproof.conformance.log_server.connection_faults import Links
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.log_server.listener import listener
from tickproof.conformance.log_server.obstacle import Obstacle
from tickproof.conformance.log_server.serving import Observer
from tickproof.conformance.log_server.sink import Input, Sink

#: So many connections are served at once; more wait in the backlog.
MOST_CONNECTIONS: Final = 1024
#: How long no connection is accepted after one could not be.
ACCEPT_AGAIN_S: Final = 0.1
#: The loop may call a little before a time; what looks at the clock must not find it early.
_LATER_S: Final = 0.001
#: What comes late is turned away by producer epoch and sequence: that tries the broker alone.
_NEVER_LATE: Final = "over Kafka, late output meets the broker's fencing, not the engine"
_Result = TypeVar("_Result")


class Proxy:
    """Listens on 127.0.0.1 and leads to the broker's listener for engines.

    ``upstream_ports`` has that of each broker of a cluster, in the order of their numbers; each is
    reached by an address of its own, and any by the first, see `metadata.doors`. In all answers
    that name a listener, its address is replaced by one of those: of the log's host, where the
    engine runs on hosts. ``observer`` is called as by
    `log_server.server.LogServer`, which says of what: records of input topics are fetched; a
    Produce to an output topic is staged where it is part of a transaction, else appended; an
    EndTxn that commits something is a commit.
    Further moments: "stage-received"; "offsets-received", "-taken" and "-acked" of offsets
    committed by themselves; "join-received", "joined" and "join-acked" of those in a transaction;
    "group-received", "-added" and "-acked" of AddOffsetsToTxn. ``fetched(stream, partition, first,
    end)`` is called before records of input leave. Both are called in the thread of the proxy and
    must not block. ``sink`` delays the answers to output, by how far the input is fetched.
    ``tls``: the server's side of TLS, which ends here; None: clients speak plain text.

    Raises OSError with the port in its text where the port is taken.
    """

    def __init__(
        self,
        upstream_ports: Sequence[int],
        roles: Roles,
        on_event: Callable[..., None],
        observer: Observer | None = None,
        port: int = 0,
        fetched: Callable[[int, int, int, int], None] | None = None,
        sink: tuple[Sink, Input] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.upstream_ports, self.event, self.tls = upstream_ports, on_event, tls
        self.observer: Observer = observer or (lambda _kind, _connection: None)
        self.fetched = fetched or (lambda _stream, _partition, _first, _end: None)
        self.sink = sink
        #: Hears of each connection with a first good request; it must not block.
        self.greeted: Callable[[ConnectionUse], None] = lambda _use: None
        #: Kafka's clients say nothing of it; it is here because a run has one.
        self.token = secrets.token_bytes(32)
        self.outputs = roles.outputs
        self.topics, self.traffic, self.budget = Topics(roles), Traffic(), Budget()
        #: Longest timeout in ms, of a session and of a transaction, that the broker is told.
        self.longest_ms: dict[Api, int] = {}
        self.open_transactions: set[int] = set()
        self.connections = 0
        #: What clients meet while a fault lasts that is not of their links.
        self.obstacle = Obstacle()
        #: Brokers that were killed, and are not back.
        self._dead: set[int] = set()
        #: Those that were asked to end: some time soon they take no connection.
        self._ending: set[int] = set()
        #: What ended the thread though it should not have, or the death of the broker.
        self.failure: BaseException | None = None
        self._on_withheld: Callable[[], None] | None = None
        self.links = Links(self, on_event, self, _NEVER_LATE, never_errs="")
        own = [listener(port)]
        self.port: int = own[0].getsockname()[1]
        others = doors(self.upstream_ports, own[0].getsockname()).values()
        own += [listener(self.port, host) for host, _ in others if len(others) > 1]
        self._open: dict[int, tuple[Connection, asyncio.Task[None]]] = {}
        self._idle = threading.Condition()
        #: Set, and replaced, when faults have changed.
        self._changed = asyncio.Event()
        self._stop, self._room = asyncio.Event(), asyncio.Event()
        self._ended = False
        self._cpu_s = 0.0
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(own,), name="kafka-proxy", daemon=True
        )
        self._thread.start()
        self._started.wait()

    @property
    def live(self) -> int:
        """Connections that are open now."""
        return len(self._open)

    @property
    def cpu_s(self) -> float:
        """Processor time that the thread has used so far, in seconds."""
        if self._thread.ident is None or self._ended:
            return self._cpu_s
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def listen_on(self, sock: socket.socket) -> None:
        """Accept on one more socket: where an engine in a sandbox, or on hosts, reaches the kit.

        It takes the place of the one before, whose engine is dead. The proxy closes it.
        """

        def listen() -> None:
            for task in self._accepting[self._own :]:
                task.cancel()
            del self._accepting[self._own :]
            self._accepting.append(self._loop.create_task(self._accept(sock)))
            self.port = sock.getsockname()[1]

        self.call(listen)

    def release_waits(self, on: bool) -> None:
        """End (or allow again) all that makes the engine wait: it is dead, read what it left."""

        def release() -> None:
            self.links.release_waits(on)
            if self.sink:
                self.sink[0].release_waits(on)

        self.call(release)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every connection was read to its end; False at the deadline."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._open, timeout_s)

    def reset_all(self, broker: int | None = None) -> int:
        """Reset every connection of the engine, or those to one broker; return how many."""

        def reset() -> int:
            found = [
                connection
                for connection, _ in self._open.values()
                if broker in (None, connection.broker)
            ]
            for connection in found:
                connection.reset()
            return len(found)

        return self.call(reset)

    def broker_of(self, connection: int) -> int:
        """Return the number of the broker that a connection leads to.

        For one that is over, and for 0, it is the broker that took most output.
        """

        def find() -> int:
            if connection in self._open:
                return self._open[connection][0].broker
            return max(self.traffic.by_broker, key=self.traffic.by_broker.__getitem__, default=1)

        return self.call(find)

    def unanswered(self, broker: int) -> int:
        """Return how many requests that change something a broker has not answered yet."""

        def count() -> int:
            found = (connection for connection, _ in self._open.values())
            return sum(one.owes_effects for one in found if one.broker == broker)

        return self.call(count)

    def kill_broker(self, broker: Broker, number: int, grace_s: float = 0.0) -> None:
        """End a broker; clients that come for it are turned away until `broker_is_back`.

        grace_s: how long it may serve them until then, asked to end; 0 for a death at once.
        """
        if grace_s:
            self.call(lambda: self._ending.add(number))
            broker.end(number, grace_s)
        self.call(lambda: self._dead.add(number))
        broker.kill(number)
        self.reset_all(number)  # also a connection that is held: nobody will answer

    def broker_is_back(self, number: int) -> None:
        """Let clients come to a broker that was killed."""
        self.call(lambda: self._dead.discard(number))
        self.call(lambda: self._ending.discard(number))

    def close(self) -> None:
        """Stop listening, end every connection, wait for the thread."""
        self.call(self.links.close)
        self.call(self._stop.set)
        self._thread.join(10)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- from other threads ------------------------------------------------------------------

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Do something in the thread of the proxy; returns, or raises, what it does."""
        done: Future[_Result] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
            self.look_again()

        with self._idle:
            direct = self._ended or threading.current_thread() is self._thread
            if not direct:
                self._loop.call_soon_threadsafe(run)
        return work() if direct else done.result()

    # -- for faults, in the thread of the proxy ------------------------------------------------

    def at(self, due: float, work: Callable[[], None]) -> None:
        """Call ``work`` at a time (time.monotonic)."""

        def run() -> None:
            work()
            self.look_again()

        if not self._ended:
            self._loop.call_at(due + _LATER_S, run)

    def look_again(self) -> None:
        """Have those that wait look at what has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def end_broken(self) -> None:
        """End the connections whose links were broken, except one that carries out a cut."""
        for connection, task in list(self._open.values()):
            if connection.link.broken and not connection.breaking:
                task.cancel()

    def withhold_records(self, on_withheld: Callable[[], None] | None) -> None:
        """Answer each Fetch as if nothing new existed; None: tell all again."""
        self._on_withheld = on_withheld
        self.look_again()

    # -- for connections -----------------------------------------------------------------------

    @property
    def silent(self) -> bool:
        """True if answers hide the records of input now."""
        return self._on_withheld is not None

    def hid(self) -> None:
        """Hear that an answer hides records."""
        if self._on_withheld:
            self._on_withheld()

    async def changed(self, until: float) -> None:
        """Wait until a time (time.monotonic), or until faults have changed."""
        left_s = None if until == math.inf else max(until - time.monotonic(), 0.0)
        try:
            await asyncio.wait_for(self._changed.wait(), left_s)
        except TimeoutError:
            return

    def broker_for(self, host: str) -> int:
        """Return the number of the broker that a client meant who came by a host of the proxy.

        One that lives, where any will do.
        """
        brokers = len(self.upstream_ports)
        gone = self._dead | self._ending
        living = (one for one in range(1, brokers + 1) if one not in gone)
        return broker_behind(host, brokers) or next(living, 1)

    async def connect(self, sock: socket.socket, broker: int) -> bool:
        """Connect to a broker; False if it takes none, which ends the run but for a fault."""
        if broker in self._dead or self.obstacle.turns_away():
            return False
        sock.setblocking(False)
        port = self.upstream_ports[broker - 1]
        try:
            await self._loop.sock_connect(sock, ("127.0.0.1", port))
        except OSError as error:
            if broker in self._dead | self._ending or self.obstacle.away:
                return False
            text = f"the broker at 127.0.0.1:{port} takes no connection"
            self.failure = self.failure or ConnectionError(error.errno, f"{text}: {error.strerror}")
            return False
        return True

    async def look_for_broker(self, broker: int) -> None:
        """See whether a broker still listens: it ended a connection.

        A client may take long to come back, or never do.
        """
        if not self.obstacle.away:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
                await self.connect(sock, broker)

    # -- the thread ----------------------------------------------------------------------------

    def _run(self, own: Sequence[socket.socket]) -> None:
        try:
            asyncio.run(self._serve(own))
        except BaseException as error:
            self._fail(error)
        finally:
            self._cpu_s = time.thread_time()
            self._started.set()

    async def _serve(self, own: Sequence[socket.socket]) -> None:
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self._fail(context.get("exception")))
        self._accepting = [asyncio.create_task(self._accept(one)) for one in own]
        self._own = len(own)
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            with self._idle:
                self._ended = True
            tasks = [*self._accepting, *(task for _, task in self._open.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        listening.setblocking(False)
        with listening:
            while True:
                while len(self._open) >= MOST_CONNECTIONS:
                    self._room.clear()
                    await self._room.wait()
                try:
                    sock, (_, port) = await self._loop.sock_accept(listening)
                    connection = Connection(self, sock, ConnectionUse(self.connections + 1, port))
                except OSError as error:
                    # No descriptor left, say: the client waits in the backlog until one is free.
                    self.event(EventKind.ACCEPT_FAILED, text=str(error))
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                self.connections += 1
                number = self.connections
                task = asyncio.create_task(connection.run())
                self._open[number] = connection, task
                task.add_done_callback(partial(self._forget, number))

    def _forget(self, number: int, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._fail(error)
        with self._idle:
            del self._open[number]
            self._idle.notify_all()
        self._room.set()

    def _fail(self, error: BaseException | None) -> None:
        """Take note of an error of the kit."""
        if self.failure is None:
            self.failure = error or RuntimeError("the proxy's loop failed")
            text = "".join(traceback.format_exception(self.failure))
            self.event(EventKind.LOOP_FAILED, text=text)
