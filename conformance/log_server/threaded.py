"""The log server: serves input partitions and takes output over TCP on loopback.

One thread for each connection: a FETCH that waits holds up only its own replies.
Record bytes go from file to socket by sendfile, never through Python objects, and
never count as the kit's memory.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable
from typing import Final

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.connection_faults import Broken, Links
from tickproof.conformance.log_server.frame_splitter import FrameReader, FrameTooLarge, Truncated
from tickproof.conformance.log_server.frames import Append, BadFrame, Code, Fetch, Op, Stage
from tickproof.conformance.log_server.input_log import InputLog, Slice
from tickproof.conformance.log_server.listener import listener
from tickproof.conformance.log_server.recorder import Recorder, Refused
from tickproof.conformance.log_server.request_handler import (
    ACKED,
    RECEIVED,
    Answering,
    greeting_problem,
)
from tickproof.conformance.log_server.sink import Sink

#: Replies up to this size leave in one piece with their head; larger ones by sendfile.
SMALL_REPLY: Final = 64 * 1024
#: How long the acceptor waits after a failure, if no connection ends before.
ACCEPT_AGAIN_S: Final = 0.1
FLUSH_AT: Final = 64 * 1024

Observer = Callable[[str, int], object]


class _Lost(TickproofError):
    """A fault came before this frame: it counts as never sent, and what follows it too."""


class LogServer:
    """Listens on 127.0.0.1; ``port`` 0 lets the system choose.

    ``observer(kind, connection)`` is called in the connection's thread at the moments
    at which faults aim: "fetched", "fetched-nothing", "append-received", "appended",
    "append-acked", "staged", "stage-acked", "commit-received", "committed", "commit-acked".
    Received is before a frame has any effect: where the observer returns True for it, the
    frame and all that follows on its connection count as never sent.
    Raises OSError with the port in its text where the port is taken.
    """

    #: A connection that fails is an event; nothing ends the server.
    failure: Final = None

    def __init__(
        self, log: InputLog, recorder: Recorder, sink: Sink,
        on_event: Callable[..., None], port: int = 0, observer: Observer | None = None,
    ) -> None:  # fmt: skip
        self.log, self.recorder, self.sink = log, recorder, sink
        self.token = secrets.token_bytes(frames.TOKEN_BYTES)
        self.event = on_event
        self.observer: Observer = observer or (lambda _kind, _connection: None)
        self.links = Links(log, on_event)
        self._listener = listener(port)
        self.port: int = self._listener.getsockname()[1]
        self._idle = threading.Condition()
        self._live: dict[int, _Connection] = {}
        self._closing = False
        self.connections = 0
        self._acceptor = threading.Thread(target=self._accept, name="log-server", daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if self._closing:
                    return
                # No descriptor left, say: the peer waits in the backlog until one is free.
                self.event("accept-failed", text=str(error))
                with self._idle:
                    self._idle.wait(ACCEPT_AGAIN_S)
                continue
            with self._idle:
                if self._closing:
                    sock.close()
                    return
                self.connections += 1
                connection = _Connection(self, sock, self.connections)
                self._live[connection.number] = connection
            threading.Thread(
                target=self._serve, args=(connection,), name=f"log-{connection.number}", daemon=True
            ).start()

    def _serve(self, connection: _Connection) -> None:
        try:
            connection.serve()
        finally:
            self.links.closed(connection.link)
            with self._idle:
                del self._live[connection.number]
                self._idle.notify_all()

    @property
    def live(self) -> int:
        """Connections that are open now."""
        return len(self._live)

    def hurry(self, on: bool) -> None:
        """End (or allow again) all that makes the engine wait: it is dead, read what it left."""
        self.sink.hurry(on)
        self.links.hurry(on)
        self.log.interrupt(on)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every connection was read to its end; False at the deadline."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._live, timeout_s)

    def close(self) -> None:
        """Stop listening, end every connection, wait for their threads."""
        with self._idle:
            self._closing = True
            live = list(self._live.values())
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.sink.hurry(True)
        self.links.close()
        self.log.close()
        for connection in live:
            connection.shut()
        if self.wait_idle(10):
            self.log.close_files()
        self._acceptor.join(10)

    def __enter__(self) -> LogServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Connection:
    """One connection, served in a thread of its own."""

    def __init__(self, server: LogServer, sock: socket.socket, number: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server, self.sock, self.number = server, sock, number
        self.link = server.links.opened(number, sock)
        self._reader = FrameReader(sock)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._answering = Answering(server.log, server.recorder, number, server.event)
        self._after: list[str] = []

    def shut(self) -> None:
        """End the connection from another thread."""
        with contextlib.suppress(OSError):  # it may have ended by itself
            self.sock.shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        """Answer requests until the peer or a malformed frame ends the connection."""
        try:
            if not self._greet():
                return
            while (request := self._reader.next()) is not None:
                self.server.links.arrived(self.link, request[0])
                if not self._handle(*request):
                    return
                if self._out_bytes >= FLUSH_AT or not self._reader.ready():
                    self._flush()
        except Truncated as error:
            if not self.link.broken:
                self._event("truncated", text=str(error))
        except FrameTooLarge as error:
            self._refuse(Code.TOO_LARGE, str(error), op="?")
            self._flush_quietly()
        except BadFrame as error:
            self._refuse(Code.BAD_FRAME, str(error), op="?")
            self._flush_quietly()
        except _Lost:
            self._event("frame-lost")
        except Broken:
            pass  # the fault that broke it has its own event
        except OSError as error:
            self._event("connection-lost", text=str(error))

    def _greet(self) -> bool:
        """Check HELLO and token; anything else closes without an answer."""
        try:
            first = self._reader.next()
            if first is None:
                # Opened and closed without a word: a look whether the port is there.
                return False
            problem = greeting_problem(*first, self.server.token)
            if not problem:
                self._event("connected")
                self._reply(frames.greeted())
                self._flush()
                return True
        except (BadFrame, FrameTooLarge, Truncated) as error:
            problem = str(error)
        self._event("not-greeted", text=problem)
        return False

    def _event(self, event: str, **fields: object) -> None:
        self.server.event(event, connection=self.number, **fields)

    def _handle(self, op: int, body: memoryview) -> bool:
        """Answer one request; False where the connection must be closed."""
        try:
            request = frames.decode_request(op, body)
        except BadFrame as error:
            self._refuse(Code.BAD_FRAME, str(error), op=f"0x{op:02x}")
            self._flush()
            return False
        try:
            self._answer(request)
        except Refused as refused:
            self._refuse(refused.code, str(refused), op=Op(op).name)
        except OSError:
            if self.server.recorder.failure is not None:
                self._event("recording-stopped", text=str(self.server.recorder.failure))
                return False
            raise
        return True

    def _answer(self, request: frames.Request) -> None:
        match request:
            case Fetch():
                self._fetch(request)
            case Append() | Stage() | frames.Commit():
                self._output(request)
            case _:
                self._reply(self._answering.plain(request))
                if isinstance(request, frames.Have):
                    self.server.links.back(self.link, (request.stream, request.writer))

    def _output(self, request: Append | Stage | frames.Commit) -> None:
        """Record output; the sink's delays lie between receipt and acknowledgement."""
        server, recorder = self.server, self.server.recorder
        server.links.refuse()
        append = request.append if isinstance(request, Stage) else request
        if isinstance(append, Append) and append.count:
            self._late(request, append)
        server.sink.before_output(lambda: recorder.taken)
        try:
            # A frame without records is no moment: to lose it, or die at it, shows nothing.
            full = self._answering.records(request)
            received = RECEIVED.get(type(request))
            if full and received and server.observer(received, self.number) is True:
                raise _Lost
            moment, reply = self._answering.take(request)
            if isinstance(append, Append):
                server.links.back(self.link, (append.stream, append.writer))
            if full:
                server.observer(moment, self.number)
            server.sink.before_acknowledgement(server.log.fetched >= server.log.total)
            if server.links.takes(self.link, "cut", "sink"):
                self._flush()
                server.links.cut(self.link, "sink", reply, len(reply) // 2)
            self._reply(reply)
            self._after += [ACKED[moment]] if full else []
        finally:
            server.sink.acknowledged()

    def _late(self, request: Append | Stage, append: Append) -> None:
        """Where a fault waits for output: take it only once its writer is back on another link."""
        links = self.server.links
        if not links.takes(self.link, "late", "sink"):
            return
        late, outcome = links.hold(self.link, (append.stream, append.writer)), "dropped"
        try:
            if not late.dropped:
                self._answering.take(request)
                outcome = "taken"
        except Refused as refused:
            outcome = f"error {int(refused.code)}"
        finally:
            links.settle(late, outcome)
        raise Broken

    def _fetch(self, request: Fetch) -> None:
        server = self.server
        if server.log.waits(request):
            self._flush()
        part = server.log.fetch(request, frames.FETCHED_ROOM, lambda: self.link.deaf)
        head = frames.fetched_head(request, part.end, part.ended, part.count, part.length)
        if part.count and server.links.takes(self.link, "cut", "source"):
            self._flush()
            # In the middle of a record, in the middle of the reply.
            middle = (2 * (part.count // 2) + 1) * (part.length // part.count) // 2
            reply = head + os.pread(part.fd, part.length, part.position)
            server.links.cut(self.link, "source", reply, len(head) + middle)
        slow = server.sink.behaviour.pieces or server.links.slow(self.link)
        if part.length <= SMALL_REPLY or slow:
            self._reply(head + os.pread(part.fd, part.length, part.position))
            self._flush()
        else:
            self._flush()
            self._send_file(head, part)
        server.observer("fetched" if part.count else "fetched-nothing", self.number)

    def _send_file(self, head: bytes, part: Slice) -> None:
        self.link.sending = True
        self.sock.sendall(head, socket.MSG_MORE)
        position, end = part.position, part.position + part.length
        while position < end:
            position += os.sendfile(self.sock.fileno(), part.fd, position, end - position)
        self.link.sending = False

    def _refuse(self, code: Code, text: str, op: str) -> None:
        self._event("refused", code=int(code), text=text, op=op)
        self._reply(frames.error(code, text))

    def _reply(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)

    def _flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            server = self.server
            server.links.send(
                self.link, data, lambda piece: server.sink.send(piece, self.sock.sendall)
            )
        for moment in self._after:
            self.server.observer(moment, self.number)
        self._after.clear()

    def _flush_quietly(self) -> None:
        with contextlib.suppress(OSError):  # the peer need not wait for the answer
            self._flush()
