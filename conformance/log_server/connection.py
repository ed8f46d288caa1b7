"""One connection of the log server: what it has asked, and what it has yet to be sent.

It is a coroutine: where a blocking server would block, it yields and says what it waits for.
Each step does a bounded piece of work, for the schedule and other connections come in between.
A peer that does not read is asked for no more, so memory is bounded.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Final

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.log_server import frames, request_handler
from tickproof.conformance.log_server.connection_faults import Broken
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.log_server.frame_splitter import FrameReader, FrameTooLarge, Truncated
from tickproof.conformance.log_server.frames import Append, BadFrame, Code, Commit, Fetch, Op, Stage
from tickproof.conformance.log_server.input_log import MAX_WAIT_MS, Slice
from tickproof.conformance.log_server.outbox import Outbox
from tickproof.conformance.log_server.recorder import Refused
from tickproof.conformance.log_server.request_handler import ACKED, RECEIVED, Answering
from tickproof.conformance.log_server.serving import Server
from tickproof.conformance.log_server.timed_faults import Lasting, Link, pieces

#: Replies up to this size are copied behind their head; larger ones leave by sendfile.
SMALL_REPLY: Final = 64 * 1024
#: Bytes that are read in one step; the buffer grows to a frame that is longer.
READ: Final = 64 * 1024
#: The longest frame before HELLO: a stranger gets memory for that and no more.
FIRST_FRAME: Final = 64
#: Requests that are answered in one step.
BURST: Final = 16
#: With so many bytes to be sent no further request is answered.
UNREAD: Final = 256 * 1024
#: Bytes of a large reply that are sent in one step.
PIECE: Final = 256 * 1024
#: How long a part of a reply may take to reach the peer before a cut.
REACHED_S: Final = 1.0

#: What a connection may wait for: events of its socket, a time (or a look at what changed),
#: or only its next turn.
_READABLE: Final = select.EPOLLIN
_WRITABLE: Final = select.EPOLLOUT
A_TIME: Final = 0
A_TURN: Final = -1

_Steps = Generator[None, None, None]
#: Requests that bring output.
_Output = (Append, Stage, Commit)


class _Lost(TickproofError):
    """A fault came before this frame: it counts as never sent, and what follows it too."""


class Connection:
    """Requests and replies of one connection, as far as they have come.

    ``waits_for``, ``until``: what must happen before `work` is called again. ``watched``: the
    events for which the server polls, for the server alone.
    """

    def __init__(self, server: Server, sock: socket.socket, use: ConnectionUse) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.sock, self._server, self.use = sock, server, use
        self._log, self._links, self._sink = server.log, server.links, server.sink
        self._reader = FrameReader(sock, 4 + FIRST_FRAME, FIRST_FRAME)
        self._answering = Answering(
            server.log, server.recorder, use.number, server.event, server.passed_s
        )
        self._note = self._answering.note
        self.link: Link = server.links.opened(use.number, sock)
        self._observer = server.observer
        self._outbox = Outbox(sock)
        self._reply = self._outbox.add
        #: Moments that come when all replies so far are sent.
        self._after: list[str] = []
        self._closing = False
        #: Whether a good HELLO has come.
        self.greeted = False
        self.opened_at = time.monotonic()
        self._steps = self._live()
        self.over = self.working = False
        self.waits_for, self.until, self.watched = A_TURN, math.inf, 0

    def work(self) -> None:
        """Go on until the next wait. Never raises for what comes over the connection."""
        self.working = True
        try:
            next(self._steps)
        except StopIteration:
            self.over = self.use.over = True
        finally:
            self.working = False

    def give_up(self) -> None:
        """End a connection whose HELLO did not come in time."""
        if self._reader.begun:
            self._note(EventKind.NOT_GREETED, text="HELLO began, and did not come whole in time")
        self.close()

    def close(self) -> None:
        """End the connection: its link was broken, or the server closes."""
        self._steps.close()
        self.over = self.use.over = True

    # -- waiting -------------------------------------------------------------------------

    def _wait(self, waits_for: int, until: float = math.inf) -> _Steps:
        self.waits_for, self.until = waits_for, until
        yield

    def _pause(self, until: float, over: Callable[[], bool]) -> _Steps:
        """Wait until a time, or until ``over``."""
        while time.monotonic() < until and not over():
            yield from self._wait(A_TIME, until)

    def _held(self, deed: Future[bool]) -> Generator[None, None, bool]:
        """Wait for what the observer does at a moment; returns its result."""
        deed.add_done_callback(lambda _: self._server.wake())
        yield from self._pause(math.inf, deed.done)
        return deed.result()

    def _stand_still(self) -> _Steps:
        """Wait, half open, for the reset."""
        self._links.met_half_open(self.link)
        while not self.link.broken:
            yield from self._wait(A_TIME)
        raise Broken

    # -- the life of the connection --------------------------------------------------------

    def _live(self) -> _Steps:
        """Answer requests until the peer, a fault or a malformed frame ends the connection."""
        try:
            yield from self._converse()
        except Broken:
            pass  # the fault that broke it has its own event
        except _Lost:
            self._note(EventKind.FRAME_LOST)
        except OSError as error:
            self._note(EventKind.CONNECTION_LOST, text=str(error))
        except (BadFrame, FrameTooLarge, Truncated) as error:
            yield from self._say_goodbye(error)

    def _converse(self) -> _Steps:
        reader = self._reader
        while True:
            while not reader.ready():
                self._answering.heard_all(reader.silent)
                yield from self._wait(_READABLE)
                if not reader.receive():
                    return
            for _ in range(BURST):
                request = reader.next()
                assert request is not None
                try:
                    steps = self._answer(*request)
                    if steps is not None:
                        yield from steps
                except Refused as refused:
                    self._refuse(refused.code, str(refused), op=Op(request[0]).name)
                except OSError:
                    if (failure := self._server.recorder.failure) is None:
                        raise
                    self._note(EventKind.RECORDING_STOPPED, text=str(failure))
                    self._closing = True
                if self._closing or self._outbox.size >= UNREAD or not reader.ready():
                    break
            more = reader.ready() and not self._closing
            # What a fault slows down is slowed once for all replies that leave together.
            if not (more and self._outbox.size < UNREAD and self._links.slowing(self.link)):
                yield from self._flush()
            if self._closing:
                return
            if more:
                yield from self._wait(A_TURN)

    def _say_goodbye(self, error: Exception) -> _Steps:
        """Send a last reply where the peer was wrong."""
        if not self.greeted:
            self._note(EventKind.NOT_GREETED, text=f"before HELLO: {error}")
            return
        if isinstance(error, Truncated):
            self._note(EventKind.TRUNCATED, text=str(error))
        else:
            code = Code.TOO_LARGE if isinstance(error, FrameTooLarge) else Code.BAD_FRAME
            self._refuse(code, str(error), op="?")
        with contextlib.suppress(OSError, Broken):  # the peer need not wait for the answer
            yield from self._flush()

    def _answer(self, op: int, body: memoryview) -> _Steps | None:
        """Answer one request, or return the steps to it where it may have to wait."""
        if not self.greeted:
            self._greet(op, body)
            return None
        if op not in self.link.ops:
            self._links.arrived(self.link, op)
        if self.link.deaf:
            return self._stand_still()
        try:
            request = frames.decode_request(op, body)
        except BadFrame as error:
            self._refuse(Code.BAD_FRAME, str(error), op=f"0x{op:02x}")
            self._closing = True
            return None
        if isinstance(request, _Output):
            return self._output(request)
        if isinstance(request, Fetch):
            return self._fetch(request)
        self._reply(self._answering.plain(request))
        if isinstance(request, frames.Have):
            self._links.back(self.link, (request.stream, request.writer))
        return None

    def _greet(self, op: int, body: memoryview) -> None:
        """Check HELLO and token; anything else closes without an answer."""
        if problem := request_handler.greeting_problem(op, body, self._server.token):
            self._note(EventKind.NOT_GREETED, text=problem)
            self._closing = True
            return
        self._note(EventKind.CONNECTED)
        self._server.greeted(self.use)
        self._reply(frames.greeted())
        self.greeted = True
        self._reader.widen(READ, frames.MAX_FRAME)

    # -- output --------------------------------------------------------------------------

    def _output(self, request: Append | Stage | Commit) -> _Steps:
        """Record output; the sink's delays lie between receipt and acknowledgement."""
        links, sink, recorder = self._links, self._sink, self._server.recorder
        append = request.append if isinstance(request, Stage) else request
        if links.busy:
            links.refuse()
            if isinstance(append, Append) and append.count:
                self._hold_if_late(request, append)
        sink.open_acknowledgements += 1
        try:
            if sink.waits and (stall := sink.stall(recorder)) is not None:
                yield from self._flush()
                yield from self._pause(stall.until, lambda: sink.released)
                sink.stalled(stall)
            # A frame without records is no moment: to lose it, or die at it, shows nothing.
            full = self._answering.records(request)
            received = RECEIVED.get(type(request))
            deed = self._observer(received, self.use.number) if full and received else None
            if deed and (yield from self._held(deed)):
                raise _Lost
            moment, reply = self._answering.take(request)
            if isinstance(append, Append):
                self.use.sent += append.count
            if links.busy and isinstance(append, Append):
                links.back(self.link, (append.stream, append.writer))
            if full and (deed := self._observer(moment, self.use.number)):
                yield from self._held(deed)
            if sink.waits and (delay_s := sink.acknowledgement_delay(self._log)):
                yield from self._pause(time.monotonic() + delay_s, lambda: sink.released)
                if sink.held is not None:
                    yield from self._held(sink.held)
            if links.busy and links.takes(self.link, "sink"):
                yield from self._cut("sink", reply, len(reply) // 2)
            self._reply(reply)
            if full:
                self._after.append(ACKED[moment])
        finally:
            sink.open_acknowledgements -= 1

    def _hold_if_late(self, request: Append | Stage | Commit, append: Append) -> None:
        """Hold a late frame if a fault waits for output, until its writer is back."""
        if self._links.takes(self.link, "sink", frame=True):
            address = append.stream, append.writer
            self._links.hold(self.link, address, lambda: self._answering.take(request))
            raise Broken

    def _cut(self, side: str, reply: bytes, at: int) -> _Steps:
        """Send ``at`` bytes of a reply, reset all connections of the side."""
        yield from self._flush()
        yield from self._send_all(memoryview(reply)[:at])
        # A reset discards what has not reached the peer.
        deadline = time.monotonic() + REACHED_S
        while (left := self._outbox.on_its_way()) and time.monotonic() < deadline:
            yield from self._wait(A_TIME, time.monotonic() + 0.001)
        self._links.cut(self.link, side, at - left, len(reply))
        raise Broken

    # -- input ---------------------------------------------------------------------------

    def _fetch(self, request: Fetch) -> _Steps | None:
        if self._links.busy or self._log.waits(request):
            return self._fetch_later(request)
        return self._records(request)

    def _fetch_later(self, request: Fetch) -> _Steps:
        """Wait for more as long as was asked; replies before it leave first."""
        log = self._log
        withheld = log.withholds(request)
        if log.waits(request):
            yield from self._flush()
            until = time.monotonic() + min(request.wait_ms, MAX_WAIT_MS) / 1000
            while log.waits(request) and not self.link.deaf and time.monotonic() < until:
                withheld = withheld or log.withholds(request)
                yield from self._wait(A_TIME, until)
        if self.link.deaf:
            yield from self._stand_still()
        if (steps := self._records(request)) is not None:
            yield from steps

    def _records(self, request: Fetch) -> _Steps | None:
        """Reply with the records that are there; returns the steps of a reply that takes some."""
        part = self._log.fetch(request, frames.FETCHED_ROOM)
        head = frames.fetched_head(request, part.end, part.ended, part.count, part.length)
        self.use.fetched += part.count
        if part.count and self._links.busy and self._links.takes(self.link, "source"):
            # In the middle of a record, in the middle of the reply.
            middle = (2 * (part.count // 2) + 1) * (part.length // part.count) // 2
            reply = head + os.pread(part.fd, part.length, part.position)
            return self._cut("source", reply, len(head) + middle)
        self._after.append("fetched" if part.count else "fetched-nothing")
        slow = self._sink.behaviour.pieces or self._links.slowing(self.link)
        if part.length > SMALL_REPLY and not slow:
            return self._send_file(head, part)
        self._reply(head + os.pread(part.fd, part.length, part.position))
        return None

    # -- sending -------------------------------------------------------------------------

    def _refuse(self, code: Code, text: str, op: str) -> None:
        self._note(EventKind.REFUSED, code=int(code), text=text, op=op)
        self._reply(frames.error(code, text))

    def _flush(self) -> _Steps:
        """Send all replies, and tell of the moments that came with them."""
        if self._outbox.size:
            slowing = self._links.slowing(self.link)
            if self.link.deaf:
                yield from self._stand_still()
            if slowing or self._sink.behaviour.pieces:
                yield from self._send_slowly(slowing)
            while not self._outbox.send():
                yield from self._wait(_WRITABLE)
            # What was sent into a link that broke meanwhile did not arrive for certain.
            if self.link.deaf:
                yield from self._stand_still()
        if self._after:
            moments, self._after = self._after, []
            for moment in moments:
                if deed := self._observer(moment, self.use.number):
                    yield from self._held(deed)

    def _send_slowly(self, slowing: list[Lasting]) -> _Steps:
        """Send all replies as the faults of their sides, or the sink's behaviour, have it."""
        data = self._outbox.take()
        for fault in slowing:
            self._links.slowed(fault, len(data))
            if fault.fault.lag_s:
                yield from self._rest(fault, fault.fault.lag_s)
        if self.link.deaf:
            yield from self._stand_still()
        for piece in pieces(memoryview(data), slowing):
            for part, pause_s in self._sink.pieces(piece.data):
                yield from self._send_all(part)
                if pause_s:
                    until = time.monotonic() + pause_s
                    yield from self._pause(until, lambda: self._sink.released)
            if piece.fault:
                yield from self._rest(piece.fault, piece.pause_s)

    def _rest(self, fault: Lasting, seconds: float) -> _Steps:
        """Wait, no longer than the fault lasts."""
        until = min(time.monotonic() + seconds, fault.until)
        yield from self._pause(until, lambda: fault.over)

    def _send_all(self, data: memoryview) -> _Steps:
        self._outbox.add(data)
        while not self._outbox.send():
            yield from self._wait(_WRITABLE)

    def _send_file(self, head: bytes, part: Slice) -> _Steps:
        self._reply(head)
        while not self._outbox.send(socket.MSG_MORE):
            yield from self._wait(_WRITABLE)
        position, end = part.position, part.position + part.length
        while True:
            with contextlib.suppress(BlockingIOError):
                wanted = min(end - position, PIECE)
                position += os.sendfile(self.sock.fileno(), part.fd, position, wanted)
            if position == end:
                return
            yield from self._wait(_WRITABLE)
