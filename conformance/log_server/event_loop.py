"""The log server in one thread, for runs in which time is measured.

The same requests get the same replies as from `threaded`. There a thread
for each connection may wait and be held up by faults; here nothing waits for a lock or for
the interpreter, and the schedule is published by the same thread that answers.
"""

from __future__ import annotations

import math
import secrets
import select
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final, Protocol

from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.connection import Conversation
from tickproof.conformance.log_server.connection_faults import Links
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.listener import listener
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.threaded import Observer

#: The longest wait: how late a request of another thread (hurry, close) may be seen.
NAP_S: Final = 0.02
#: How long no connection is accepted after one could not be, if none ends before.
ACCEPT_AGAIN_S: Final = 0.1
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT


class Clock(Protocol):
    """What publishes by time; open_loop.OpenLoop is one."""

    @property
    def due_ns(self) -> int | None:
        """When something is due next (monotonic), None while nothing is."""

    def publish_due(self) -> None:
        """Publish what is due now."""


class LoopServer:
    """Listens on 127.0.0.1; ``port`` 0 lets the system choose. All work is done in one thread.

    ``observer`` as for `server.LogServer`; it must not wait for anything. Faults of connections
    are not carried out here. Raises OSError with the port in its text where the port is taken.
    """

    def __init__(
        self, log: InputLog, recorder: Recorder, on_event: Callable[..., None],
        observer: Observer, port: int = 0,
    ) -> None:  # fmt: skip
        self.log, self.recorder, self.event, self.observer = log, recorder, on_event, observer
        self.token = secrets.token_bytes(frames.TOKEN_BYTES)
        self.links = Links(log, on_event)
        self.connections = 0
        self._listener = listener(port)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        # Only select() wakes in less than a millisecond; it watches over the epoll object, which
        # knows all connections however many they are.
        self._epoll = select.epoll()
        self._epoll.register(self._listener, _IN)
        #: When connections are accepted again (time.monotonic), 0 while they are.
        self._accept_again = 0.0
        self._open: dict[int, Conversation] = {}
        self._waiting: set[Conversation] = set()
        #: When they are looked at next, though nothing was published (time.monotonic).
        self._look_at = 0.0
        #: Connections with more requests than were answered at once.
        self._more: set[Conversation] = set()
        self._idle = threading.Condition()
        self._hurried = self._closing = False
        self._prepared = threading.Event()
        #: What ended the loop though it should not have, None while all is well.
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="log-loop", daemon=True)

    def start(self, clock: Clock, prepare: Callable[[], None]) -> None:
        """Begin to serve; ``prepare`` is called first, in the thread that serves.

        What it raises is raised here, and the server is closed.
        """
        self._clock, self._prepare = clock, prepare
        self._thread.start()
        self._prepared.wait()
        if self.failure is not None:
            self.close()
            raise self.failure

    @property
    def live(self) -> int:
        """Connections that are open now."""
        return len(self._open)

    def hurry(self, on: bool) -> None:
        """End (or allow again) all waiting: the engine is dead, read what it left."""
        self.log.interrupt(on)
        self._hurried = on

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every connection was read to its end; False at the deadline."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._open, timeout_s)

    def close(self) -> None:
        """Stop listening, end every connection, wait for the thread."""
        self._closing = True
        if self._thread.ident is not None:
            self._thread.join(10)
        self._listener.close()
        self.log.close()
        if not self._thread.is_alive():
            self._epoll.close()
            self.log.close_files()

    def __enter__(self) -> LoopServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the thread ------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._prepare()
            self._prepared.set()
            while not self._closing:
                self._turn()
        except BaseException as error:
            self.failure = error
            self.event("loop-failed", text=traceback.format_exc())
        finally:
            self._prepared.set()
            for connection in list(self._open.values()):
                self._forget(connection)

    def _turn(self) -> None:
        """Answer what has come; what is due is published before, and between any two."""
        ready = self._ready()
        if not self._publish() and (self._hurried or time.monotonic() >= self._look_at):
            self._serve_waiting()
        for connection in list(self._more):
            connection.work(readable=False)
            self._settle(connection)
            self._publish()
        for fd, _ in ready:
            if connection := self._open.get(fd):
                self._served(connection)
            elif fd == self._listener.fileno():
                self._accept()
            self._publish()

    def _ready(self) -> list[tuple[int, int]]:
        """Wait until something comes, falls due or is over; return descriptors and events."""
        now = time.monotonic()
        if 0 < self._accept_again <= now:
            self._accept_again = 0.0
            self._epoll.register(self._listener, _IN)
        ready = self._epoll.poll(0)
        if ready or self._more:
            return ready
        left_s = self._look_at - now
        if (due_ns := self._clock.due_ns) is not None:
            left_s = min(left_s, due_ns / 1e9 - now)
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
        """Answer each FETCH that waited long enough."""
        now = time.monotonic()
        for connection in list(self._waiting):
            if self._hurried or not connection.would_wait(now):
                connection.resume()
                self._settle(connection)
        self._look_at = min((one.until for one in self._waiting), default=math.inf)
        self._look_at = min(self._look_at, now + NAP_S)

    def _served(self, connection: Conversation) -> None:
        if connection.waits and not connection.unsent:
            # Behind a FETCH that waits nothing is read; whether its peer lives shows when it ends.
            self._watch(connection, 0)
            return
        connection.work(readable=True)
        self._settle(connection)

    def _settle(self, connection: Conversation) -> None:
        """See what a connection needs next; forget it where it has ended."""
        if connection.over:
            self._forget(connection)
            return
        if connection.waits:
            self._waiting.add(connection)
            self._look_at = min(self._look_at, connection.until)
        else:
            self._waiting.discard(connection)
        if connection.more:
            self._more.add(connection)
        else:
            self._more.discard(connection)
        if connection.unsent:
            self._watch(connection, _OUT)
        elif connection.watched != _IN and not (connection.waits and not connection.watched):
            self._watch(connection, _IN)

    def _watch(self, connection: Conversation, events: int) -> None:
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

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
            connection = Conversation(
                sock, self.connections + 1, self.token, self.log, self.recorder, self.event,
                self.observer,
            )  # fmt: skip
        except OSError as error:
            # No descriptor left, say: the peer waits in the backlog until one is free.
            self.event("accept-failed", text=str(error))
            self._epoll.unregister(self._listener)
            self._accept_again = time.monotonic() + ACCEPT_AGAIN_S
            return
        self.connections += 1
        self._open[sock.fileno()] = connection
        self._watch(connection, _IN)

    def _forget(self, connection: Conversation) -> None:
        self._waiting.discard(connection)
        self._more.discard(connection)
        with self._idle:
            del self._open[connection.sock.fileno()]
            connection.sock.close()
            self._idle.notify_all()
        self._accept_again = min(self._accept_again, time.monotonic())
