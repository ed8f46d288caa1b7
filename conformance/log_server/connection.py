"""One connection of `loop.LoopServer`: what it has asked, and what it has yet to be sent.

Nothing here waits for the peer. Each call does a bounded piece of work, for the schedule
and other connections come in between; memory is bounded by what a peer may leave unread.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Final

from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.frame_splitter import FrameReader, FrameTooLarge, Truncated
from tickproof.conformance.log_server.frames import BadFrame, Code, Fetch, Op
from tickproof.conformance.log_server.input_log import MAX_WAIT_MS, InputLog
from tickproof.conformance.log_server.recorder import Recorder, Refused
from tickproof.conformance.log_server.request_handler import (
    ACKED,
    RECEIVED,
    Answering,
    greeting_problem,
)
from tickproof.conformance.log_server.threaded import SMALL_REPLY, Observer

#: Bytes that are read in one call; the buffer grows to a frame that is longer.
READ: Final = 64 * 1024
#: Requests that are answered in one call.
BURST: Final = 16
#: With so many bytes to be sent no further request is answered.
UNREAD: Final = 256 * 1024
#: Bytes of a large reply that are sent in one call.
PIECE: Final = 256 * 1024


class Conversation:
    """Requests and replies of one connection, as far as they have come.

    ``observer`` as for `server.LogServer`. ``watched``: the events for which its server
    waits, for the server alone.
    """

    def __init__(
        self, sock: socket.socket, number: int, token: bytes, log: InputLog, recorder: Recorder,
        on_event: Callable[..., None], observer: Observer,
    ) -> None:  # fmt: skip
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.sock, self._number, self._token, self._log = sock, number, token, log
        self._recorder, self._observer = recorder, observer
        self._reader = FrameReader(sock, READ)
        self._answering = Answering(log, recorder, number, on_event)
        self._note = self._answering.note
        self._greeted = self._over = False
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        #: The rest of a large reply, behind all in _out: position in its file, bytes left.
        self._file, self._position, self._left = -1, 0, 0
        self._after: list[str] = []
        self._fetch: Fetch | None = None
        #: When the FETCH that waits gives up (time.monotonic).
        self.until = 0.0
        self.watched = 0

    @property
    def waits(self) -> bool:
        """Whether a FETCH waits for more, and holds up what is behind it."""
        return self._fetch is not None

    @property
    def unsent(self) -> bool:
        """Whether the peer has yet to take a part of a reply."""
        return bool(self._out) or self._left > 0

    @property
    def more(self) -> bool:
        """Whether requests that have come wait for nothing but to be answered."""
        return not (self.waits or self.unsent or self._over) and self._reader.ready()

    @property
    def over(self) -> bool:
        """Whether nothing more is to be read nor sent."""
        return self._over and not self.unsent

    def would_wait(self, now: float) -> bool:
        """Whether the FETCH that waits has still nothing to get, and time."""
        assert self._fetch is not None
        return now < self.until and self._log.waits(self._fetch)

    def work(self, readable: bool) -> None:
        """Send what is there to be sent, else read once; then answer requests.

        ``readable``: there is something to read, or the end. Never raises for what comes
        over the connection: where that breaks it, it is over.
        """
        try:
            if self.unsent:
                self._send()
                if self.unsent:
                    return
            elif readable and not self._reader.ready():
                self._over = not self._reader.receive()
            self._requests()
        except (BadFrame, FrameTooLarge, Truncated, OSError) as error:
            self._broke(error)

    def resume(self) -> None:
        """Answer the FETCH that waited, and what came behind it."""
        request, self._fetch = self._fetch, None
        assert request is not None
        try:
            self._records(request._replace(wait_ms=0))
            self._requests()
        except (BadFrame, FrameTooLarge, OSError) as error:
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        """End the connection, with a last reply where the peer was wrong."""
        self._over = True
        if isinstance(error, OSError):
            self._note("connection-lost", text=str(error))
            self._out.clear()
            self._out_bytes = self._left = 0
            return
        if not self._greeted:
            self._note("not-greeted", text=str(error))
        elif isinstance(error, Truncated):
            self._note("truncated", text=str(error))
        else:
            code = Code.TOO_LARGE if isinstance(error, FrameTooLarge) else Code.BAD_FRAME
            self._refuse(code, str(error), op="?")
        try:
            self._send()
        except OSError:
            self._out.clear()  # the peer need not wait for the answer

    def _requests(self) -> None:
        """Answer whole requests that have come, a burst at most, and send."""
        for _ in range(BURST):
            if self._over or self.waits or self._left or self._out_bytes >= UNREAD:
                break
            if not self._reader.ready():
                break
            request = self._reader.next()
            assert request is not None
            self._handle(*request)
        self._send()

    def _handle(self, op: int, body: memoryview) -> None:
        if not self._greeted:
            self._greet(op, body)
            return
        try:
            request = frames.decode_request(op, body)
        except BadFrame as error:
            self._refuse(Code.BAD_FRAME, str(error), op=f"0x{op:02x}")
            self._over = True
            return
        try:
            self._answer(request)
        except Refused as refused:
            self._refuse(refused.code, str(refused), op=Op(op).name)
        except OSError:
            if (failure := self._recorder.failure) is None:
                raise
            self._note("recording-stopped", text=str(failure))
            self._over = True

    def _greet(self, op: int, body: memoryview) -> None:
        if problem := greeting_problem(op, body, self._token):
            self._note("not-greeted", text=problem)
            self._over = True
            return
        self._note("connected")
        self._reply(frames.greeted())
        self._greeted = True

    def _answer(self, request: frames.Request) -> None:
        if isinstance(request, Fetch):
            if self._log.waits(request):
                self._fetch = request
                self.until = time.monotonic() + min(request.wait_ms, MAX_WAIT_MS) / 1000
            else:
                self._records(request)
        elif isinstance(request, frames.Append | frames.Stage | frames.Commit):
            self._output(request)
        else:
            self._reply(self._answering.plain(request))

    def _output(self, request: frames.Append | frames.Stage | frames.Commit) -> None:
        full = self._answering.records(request)
        received = RECEIVED.get(type(request))
        if full and received and self._observer(received, self._number) is True:
            self._note("frame-lost")
            self._over = True
            return
        moment, reply = self._answering.take(request)
        if full:
            self._observer(moment, self._number)
            self._after.append(ACKED[moment])
        self._reply(reply)

    def _records(self, request: Fetch) -> None:
        try:
            part = self._log.fetch(request, frames.FETCHED_ROOM)
        except Refused as refused:
            self._refuse(refused.code, str(refused), op="FETCH")
            return
        head = frames.fetched_head(request, part.end, part.ended, part.count, part.length)
        if part.length <= SMALL_REPLY:
            self._reply(head + os.pread(part.fd, part.length, part.position))
        else:
            self._reply(head)
            self._file, self._position, self._left = part.fd, part.position, part.length
        self._after.append("fetched" if part.count else "fetched-nothing")

    def _refuse(self, code: Code, text: str, op: str) -> None:
        self._note("refused", code=int(code), text=text, op=op)
        self._reply(frames.error(code, text))

    def _reply(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)

    def _send(self) -> None:
        """Send as much as the peer takes now, of a large reply one piece."""
        try:
            if self._out:
                data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
                sent = self.sock.send(data, socket.MSG_MORE if self._left else 0)
                self._out_bytes -= sent
                self._out = [memoryview(data)[sent:]] if self._out_bytes else []
            if self._left and not self._out:
                wanted = min(self._left, PIECE)
                sent = os.sendfile(self.sock.fileno(), self._file, self._position, wanted)
                self._position += sent
                self._left -= sent
        except BlockingIOError:
            return
        if self._after and not self.unsent:
            moments, self._after = self._after, []
            for moment in moments:
                self._observer(moment, self._number)
