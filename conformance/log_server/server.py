"""The log server: serves input partitions and takes output over TCP on loopback, in one thread.

Nothing in it blocks: a connection that has to wait (for its peer, for a publication, for a
fault to end) is looked at again when that may be over. The schedule of the input is published
by the same thread, between any two pieces of work.
"""

from __future__ import annotations

import heapq
import math
import os
import secrets
import select
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from tickproof.conformance.history.event import EventKind
from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.clock import Clock, NoClock
from tickproof.conformance.log_server.connection import A_TIME, A_TURN, Connection
from tickproof.conformance.log_server.connection_faults import Links
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.listener import Listeners, listener
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.serving import Observer
from tickproof.conformance.log_server.sink import Sink

#: The longest sleep: how late a clock that another thread has started may be seen.
NAP_S: Final = 0.02
#: How long no connection is accepted after one could not be, if none ends before.
ACCEPT_AGAIN_S: Final = 0.1
#: Connections that may be open without a good HELLO. One more takes the place of the oldest, and
#: waits in the backlog until that has had a moment to send its own.
STRANGERS: Final = 256
FIRST_S: Final = 0.5
#: How long a connection may be open without a good HELLO.
GREETING_S: Final = 60.0
_IN: Final = select.EPOLLIN
_Result = TypeVar("_Result")


def _new_token() -> bytes:
    """Return random bytes; half of them begin with a 0, which a number would not keep."""
    token = secrets.token_bytes(frames.TOKEN_BYTES)
    return bytes(1) + token[1:] if token[0] & 1 else token


class LogServer:
    """Listens on 127.0.0.1; ``port`` 0 lets the system choose.

    ``observer(kind, connection)`` is called at the moments at which faults aim: "fetched",
    "fetched-nothing", "append-received", "appended", "append-acked", "staged", "stage-acked",
    "commit-received", "committed", "commit-acked". It must not block. Where it returns a
    future, the connection is held until that is done. "Received" comes before a frame has any
    effect: where its future gives True, the frame and all that follows on its connection
    count as never sent.
    Raises OSError with the port in its text where the port is taken, and what
    ``clock.prepare`` raises.
    """

    def __init__(
        self,
        log: InputLog,
        recorder: Recorder,
        sink: Sink,
        on_event: Callable[..., None],
        port: int = 0,
        observer: Observer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.log, self.recorder, self.sink, self.event = log, recorder, sink, on_event
        self.observer: Observer = observer or (lambda _kind, _connection: None)
        self._clock: Clock = clock or NoClock()
        #: Hears of each greeted connection, in the server's thread; it must not block.
        self.greeted: Callable[[ConnectionUse], None] = lambda _use: None
        #: How much time has passed since a moment of time.monotonic, where a verdict may depend on
        #: it; the runner gives its fair clock.
        self.passed_s: Callable[[float], float] = lambda since: time.monotonic() - since
        self.token = _new_token()
        self.connections = 0
        own = listener(port)
        self.port: int = own.getsockname()[1]
        # Only select() wakes in less than a millisecond; it watches over the epoll object, which
        # knows all connections however many they are.
        self._epoll = select.epoll()
        self._listeners = Listeners(self._epoll, own)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll.register(self._wake_fd, _IN)
        self._open: dict[int, Connection] = {}
        #: Connections without a good HELLO, the oldest first.
        self._strangers: dict[Connection, None] = {}
        #: Connections that wait for something else than their peer.
        self._waiting: set[Connection] = set()
        #: Connections with more requests than were answered at once.
        self._more: set[Connection] = set()
        #: When those that wait are looked at next, though nothing was published.
        self._look_at = 0.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_count = 0
        self._calls: deque[Callable[[], None]] = deque()
        self._idle = threading.Condition()
        self._closing = self._ended = False
        self._prepared = threading.Event()
        #: What ended the thread though it should not have, None while all is well.
        self.failure: BaseException | None = None
        self.links = Links(log, on_event, self)
        log.changed = self.wake
        self._thread = threading.Thread(target=self._run, name="log-server", daemon=True)
        self._start()

    def _start(self) -> None:
        self._thread.start()
        self._prepared.wait()
        if self.failure is not None:
            self.close()
            raise self.failure

    @property
    def live(self) -> int:
        """Connections that are open now."""
        return len(self._open)

    def renew_token(self) -> str:
        """Let nobody in any more by the token before; return the new one, as hexadecimal digits."""
        self.token = _new_token()
        return self.token.hex()

    def listen_on(self, sock: socket.socket) -> None:
        """Accept on one more socket: where an engine in a sandbox reaches the kit.

        It takes the place of the one before, whose engine is dead. The server closes it.
        """

        def listen() -> None:
            self._listeners.add(sock)
            self.port = sock.getsockname()[1]

        self.call(listen)

    def release_waits(self, on: bool) -> None:
        """End (or allow again) all that makes the engine wait: it is dead, read what it left."""

        def release() -> None:
            self.sink.release_waits(on)
            self.log.interrupt(on)
            self.links.release_waits(on)

        self.call(release)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every connection was read to its end; False at the deadline."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._open, timeout_s)

    def close(self) -> None:
        """Stop listening, end every connection, wait for the thread."""
        self.call(self.links.close)
        self._closing = True
        self.wake()
        self._thread.join(10)
        self._listeners.close()
        if not self._thread.is_alive():
            with self._idle:
                if self._wake_fd >= 0:
                    os.close(self._wake_fd)
                    self._wake_fd = -1
            self._epoll.close()
            self.log.close()

    def __enter__(self) -> LogServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- from other threads --------------------------------------------------------------

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Do something in the thread of the server; returns, or raises, what it does."""
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
                self._calls.append(run)
        if direct:
            return work()
        self.wake()
        return done.result()

    def wake(self) -> None:
        """Have those that wait looked at now."""
        if threading.get_ident() == self._thread.ident:
            self._look_at = 0.0
            return
        with self._idle:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)

    # -- for faults, in the thread of the server ---------------------------------------------

    def at(self, due: float, work: Callable[[], None]) -> None:
        """Call ``work`` at a time (time.monotonic)."""
        self._timer_count += 1
        heapq.heappush(self._timers, (due, self._timer_count, work))

    def look_again(self) -> None:
        """Have those that wait looked at before anything else is waited for."""
        self._look_at = 0.0

    def end_broken(self) -> None:
        """End the connections whose links were broken, except one that is at work now."""
        for connection in list(self._open.values()):
            if connection.link.broken and not connection.working:
                connection.close()
                self._settle(connection)

    # -- the thread ------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._clock.prepare()
            self._prepared.set()
            while not self._closing:
                self._turn()
        except BaseException as error:
            self.failure = error
            if self._prepared.is_set():
                self.event(EventKind.LOOP_FAILED, text=traceback.format_exc())
        finally:
            with self._idle:
                self._ended = True
            self._do_calls()
            for connection in list(self._open.values()):
                connection.close()
                self._forget(connection)
            self._prepared.set()

    def _turn(self) -> None:
        """Answer what has come; what is due is published before, and between any two."""
        ready = self._ready()
        if self._calls:
            self._do_calls()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
            self.look_again()
        if not self._publish() and time.monotonic() >= self._look_at:
            self._serve_waiting()
        for connection in list(self._more):
            if connection in self._more:
                self._work(connection)
                self._publish()
        for fd, _ in ready:
            if reached := self._open.get(fd):
                self._served(reached)
            elif sock := self._listeners.by_descriptor(fd):
                self._accept(sock)
            elif fd == self._wake_fd:
                os.eventfd_read(fd)
                self.look_again()
            self._publish()

    def _do_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()

    def _ready(self) -> list[tuple[int, int]]:
        """Wait until something comes, falls due or is over; return descriptors and events."""
        now = time.monotonic()
        self._listeners.look()
        ready = self._epoll.poll(0)
        if ready or self._more:
            return ready
        left_s = self._look_at - now
        if (due_ns := self._clock.due_ns) is not None:
            left_s = min(left_s, due_ns / 1e9 - now)
        if self._timers:
            left_s = min(left_s, self._timers[0][0] - now)
        if left_s > 0 and select.select([self._epoll], (), (), left_s)[0]:
            return self._epoll.poll(0)
        return []

    def _publish(self) -> bool:
        """Publish what is due, and answer those that wait for it; False where nothing is."""
        due_ns = self._clock.due_ns
        if due_ns is None or time.monotonic_ns() < due_ns:
            return False
        self._clock.publish_due()
        self._serve_waiting()
        return True

    def _serve_waiting(self) -> None:
        """Let each connection that waits see whether its wait is over."""
        self._look_at = math.inf
        if self._strangers:
            self._dismiss_strangers()
        for connection in list(self._waiting):
            if connection in self._waiting:
                self._work(connection)
        self._look_at = min(self._look_at, time.monotonic() + NAP_S)

    def _served(self, connection: Connection) -> None:
        if connection.waits_for == A_TIME:
            # Nothing is read meanwhile; whether its peer lives shows when the wait ends.
            self._watch(connection, 0)
        elif connection.waits_for != A_TURN:
            self._work(connection)

    def _work(self, connection: Connection) -> None:
        connection.work()
        self._settle(connection)

    def _settle(self, connection: Connection) -> None:
        """See what a connection waits for now; forget it where it has ended."""
        if connection.over:
            self._forget(connection)
            return
        if connection.greeted and connection in self._strangers:
            self._welcome(connection)
        waits_for = connection.waits_for
        if waits_for == A_TIME:
            self._waiting.add(connection)
            self._look_at = min(self._look_at, connection.until)
        else:
            self._waiting.discard(connection)
        if waits_for == A_TURN:
            self._more.add(connection)
        else:
            self._more.discard(connection)
        if waits_for > 0:
            self._watch(connection, waits_for)

    def _watch(self, connection: Connection, events: int) -> None:
        """Wait for some events of a connection; with 0 its end is not seen either."""
        if events == connection.watched:
            return
        if not events:
            self._epoll.unregister(connection.sock)
        elif connection.watched:
            self._epoll.modify(connection.sock, events)
        else:
            self._epoll.register(connection.sock, events)
        connection.watched = events

    def _welcome(self, connection: Connection) -> None:
        """A connection is no stranger any more: where they were too many, one more may come."""
        self._strangers.pop(connection, None)
        self._listeners.resume()

    def _dismiss_strangers(self) -> None:
        """End the connections whose HELLO did not come in time."""
        for stranger in list(self._strangers):
            if self.passed_s(stranger.opened_at) < GREETING_S:
                return
            stranger.give_up()
            self._settle(stranger)

    def _accept(self, listening: socket.socket) -> None:
        if len(self._strangers) >= STRANGERS:
            oldest = next(iter(self._strangers))
            if self.passed_s(oldest.opened_at) < FIRST_S:
                self._listeners.hold_off(FIRST_S)
                return
            oldest.give_up()
            self._settle(oldest)
        try:
            sock, (_, port) = listening.accept()
            connection = Connection(self, sock, ConnectionUse(self.connections + 1, port))
        except OSError as error:
            # No descriptor left, say: the peer waits in the backlog until one is free.
            self.event(EventKind.ACCEPT_FAILED, text=str(error))
            self._listeners.hold_off(ACCEPT_AGAIN_S)
            return
        self.connections += 1
        self._open[sock.fileno()] = connection
        self._strangers[connection] = None
        self._work(connection)

    def _forget(self, connection: Connection) -> None:
        self._waiting.discard(connection)
        self._more.discard(connection)
        self.links.closed(connection.link)
        with self._idle:
            del self._open[connection.sock.fileno()]
            connection.sock.close()
            self._idle.notify_all()
        self._welcome(connection)
