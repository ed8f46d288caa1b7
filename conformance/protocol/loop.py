"""The log server in one thread, for runs in which time is measured.

The same requests get the same replies as from `conformance.protocol.server`. There a thread
for each connection may wait and be held up by faults; here nothing waits for a lock or for
the interpreter, and the schedule is published by the same thread that answers.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from conformance.protocol import frames
from conformance.protocol.answering import ACKED, RECEIVED, Answering, greeting_problem
from conformance.protocol.frames import BadFrame, Code, Fetch, Op
from conformance.protocol.framing import FrameReader, FrameTooLarge, Truncated
from conformance.protocol.links import Links
from conformance.protocol.recorder import Recorder, Refused
from conformance.protocol.source import MAX_WAIT_MS, InputLog

#: The longest wait: how late a request of another thread (hurry, close) may be seen.
NAP_S: Final = 0.02
_ROOM: Final = frames.MAX_FRAME - frames.HEAD_BYTES - frames.FETCHED_BYTES


class Clock(Protocol):
    """What publishes by time; open_loop.OpenLoop is one."""

    @property
    def due_ns(self) -> int | None:
        """When something is due next (monotonic), None while nothing is."""

    def publish_due(self) -> None:
        """Publish what is due now."""


class LoopServer:
    """Listens on 127.0.0.1; all work is done in one thread.

    ``observer`` as for `server.LogServer`; faults of connections are not carried out here.
    """

    def __init__(
        self, log: InputLog, recorder: Recorder, on_event: Callable[..., None],
        observer: Callable[[str, int], object],
    ) -> None:  # fmt: skip
        self.log, self.recorder, self.event, self.observer = log, recorder, on_event, observer
        self.token = secrets.token_bytes(frames.TOKEN_BYTES)
        self.links = Links(log, on_event)
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._open: dict[int, _Connection] = {}
        self._waiting: set[_Connection] = set()
        self._idle = threading.Condition()
        self._hurried = self._closing = False
        self._clock: Clock | None = None
        #: What ended the loop though it should not have, None while all is well.
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="log-loop", daemon=True)

    def start(self, clock: Clock, prepare: Callable[[], None]) -> None:
        """Begin to serve; ``prepare`` is called first, in the thread that serves."""
        self._clock, self._prepare = clock, prepare
        self._thread.start()

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
        self.log.close_files()

    def __enter__(self) -> LoopServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._prepare()
            while not self._closing:
                self._turn()
        except BaseException as error:
            self.failure = error
        for connection in list(self._open.values()):
            self._forget(connection)

    def _turn(self) -> None:
        """Publish what is due, answer what waited for it, then what has come."""
        assert self._clock is not None
        left_s = NAP_S
        if (due_ns := self._clock.due_ns) is not None:
            if (ahead_ns := due_ns - time.monotonic_ns()) <= 0:
                self._clock.publish_due()
                self._serve_waiting()
                ahead_ns = 0
            left_s = min(NAP_S, ahead_ns / 1e9)
        elif self._waiting:
            self._serve_waiting()
        # Behind a FETCH that waits nothing is read; whether its peer lives shows when it ends.
        fds = [fd for fd, connection in self._open.items() if not connection.waits]
        fds.append(self._listener.fileno())
        full = [fd for fd, connection in self._open.items() if connection.unsent]
        readable, writable, _ = select.select(fds, full, (), left_s)
        for fd in writable:
            self._guard(self._open[fd], _Connection.send)
        for fd in readable:
            if connection := self._open.get(fd):
                self._guard(connection, _Connection.receive)
            elif fd == fds[-1]:
                self._accept()

    def _serve_waiting(self) -> None:
        for connection in list(self._waiting):
            if self._hurried or not connection.would_wait():
                self._guard(connection, _Connection.resume)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            self.event("accept-failed", text=str(error))
            return
        self.connections += 1
        self._open[sock.fileno()] = _Connection(self, sock, self.connections)

    def _guard(self, connection: _Connection, work: Callable[[_Connection], bool]) -> None:
        """Let a connection work; forget it where it has ended."""
        try:
            going_on = work(connection)
        except OSError as error:
            connection.note("connection-lost", text=str(error))
            going_on = False
        if not going_on:
            self._forget(connection)
        elif connection.waits:
            self._waiting.add(connection)
        else:
            self._waiting.discard(connection)

    def _forget(self, connection: _Connection) -> None:
        self._waiting.discard(connection)
        with self._idle:
            del self._open[connection.sock.fileno()]
            connection.sock.close()
            self._idle.notify_all()


class _Connection:
    """One connection; its methods say whether it goes on."""

    def __init__(self, server: LoopServer, sock: socket.socket, number: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self._server, self.sock, self._number = server, sock, number
        self._reader = FrameReader(sock)
        self._greeted = False
        self._answering = Answering(server.log, server.recorder, number, server.event)
        self.note = self._answering.note
        self._out: list[bytes | memoryview] = []
        self._after: list[str] = []
        self._fetch: Fetch | None = None
        self._until = 0.0

    @property
    def waits(self) -> bool:
        """Whether a FETCH waits for more, and holds up what is behind it."""
        return self._fetch is not None

    @property
    def unsent(self) -> bool:
        """Whether the peer has yet to take a part of a reply."""
        return bool(self._out)

    def would_wait(self) -> bool:
        """Whether the FETCH that waits has still nothing to get, and time."""
        assert self._fetch is not None
        return self._server.log.waits(self._fetch) and time.monotonic() < self._until

    def receive(self) -> bool:
        """Read what has come and answer it."""
        try:
            return self._requests(first=True) and self.send()
        except Truncated as error:
            self.note("truncated", text=str(error))
        except FrameTooLarge as error:
            self._refuse(Code.TOO_LARGE, str(error), op="?")
        except BadFrame as error:
            self._refuse(Code.BAD_FRAME, str(error), op="?")
        self.send()
        return False

    def resume(self) -> bool:
        """Answer the FETCH that waited, and what came behind it."""
        request, self._fetch = self._fetch, None
        assert request is not None
        self._records(request._replace(wait_ms=0))
        return self._requests(first=False) and self.send()

    def _requests(self, first: bool) -> bool:
        """Take requests while there are whole ones; ``first``: read for one."""
        while not self.waits and (first or self._reader.ready()):
            first = False
            try:
                request = self._reader.next()
            except BlockingIOError:
                return True
            if request is None or not self._handle(*request):
                self.send()
                return False
        return True

    def _handle(self, op: int, body: memoryview) -> bool:
        if not self._greeted:
            return self._greet(op, body)
        try:
            request = frames.decode_request(op, body)
        except BadFrame as error:
            self._refuse(Code.BAD_FRAME, str(error), op=f"0x{op:02x}")
            return False
        try:
            return self._answer(request)
        except Refused as refused:
            self._refuse(refused.code, str(refused), op=Op(op).name)
        except OSError:
            if (failure := self._server.recorder.failure) is None:
                raise
            self.note("recording-stopped", text=str(failure))
            return False
        return True

    def _greet(self, op: int, body: memoryview) -> bool:
        if problem := greeting_problem(op, body, self._server.token):
            self.note("not-greeted", text=problem)
            return False
        self.note("connected")
        self._out.append(frames.greeted())
        self._greeted = True
        return True

    def _answer(self, request: frames.Request) -> bool:
        server = self._server
        if isinstance(request, Fetch):
            if server.log.waits(request):
                self._fetch = request
                self._until = time.monotonic() + min(request.wait_ms, MAX_WAIT_MS) / 1000
            else:
                self._records(request)
        elif isinstance(request, frames.Append | frames.Stage | frames.Commit):
            full = self._answering.records(request)
            received = RECEIVED.get(type(request))
            if full and received and server.observer(received, self._number) is True:
                self.note("frame-lost")
                return False
            moment, reply = self._answering.take(request)
            if full:
                server.observer(moment, self._number)
                self._after.append(ACKED[moment])
            self._out.append(reply)
        else:
            self._out.append(self._answering.plain(request))
        return True

    def _records(self, request: Fetch) -> None:
        try:
            part = self._server.log.fetch(request, _ROOM)
        except Refused as refused:
            self._refuse(refused.code, str(refused), op="FETCH")
            return
        head = frames.fetched_head(request, part.end, part.ended, part.count, part.length)
        self._out.append(head + os.pread(part.fd, part.length, part.position))
        self._after.append("fetched" if part.count else "fetched-nothing")

    def _refuse(self, code: Code, text: str, op: str) -> None:
        self.note("refused", code=int(code), text=text, op=op)
        self._out.append(frames.error(code, text))

    def send(self) -> bool:
        """Send as much as the peer takes now."""
        if self._out:
            data = memoryview(self._out[0] if len(self._out) == 1 else b"".join(self._out))
            self._out.clear()
            with contextlib.suppress(BlockingIOError):
                data = data[self.sock.send(data) :]
            if data:
                self._out.append(data)
        for moment in () if self._out else self._after:
            self._server.observer(moment, self._number)
        if not self._out:
            self._after.clear()
        return True
