"""Apply requests to log and recorder, and make their replies; no sockets."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from typing import Final

from tickproof.conformance.history.event import EventKind
from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.frames import Append, BadFrame, Code, Hello, Stage
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder, Refused

#: An APPEND that comes so long after error 7 was answered, and all that had come by then was read,
#: was not under way before it. Whoever sends without a pause gets no more than the longer time.
FENCE_GRACE_S: Final = 1.0
FENCE_LONGEST_S: Final = 10.0

#: Moments at which faults aim: when a request comes, and when its reply was sent.
RECEIVED: Final = {Append: "append-received", frames.Commit: "commit-received"}
ACKED: Final = {"appended": "append-acked", "staged": "stage-acked", "committed": "commit-acked"}


def greeting_problem(op: int, body: memoryview, token: bytes) -> str:
    """Say what is wrong with the first frame of a connection, "" where it is a good HELLO."""
    try:
        hello = frames.decode_request(op, body)
    except BadFrame as error:
        return str(error)
    if not isinstance(hello, Hello):
        return f"the first frame is {type(hello).__name__.upper()}, expected HELLO"
    if hello.version != frames.VERSION:
        return f"HELLO with version {hello.version}, expected {frames.VERSION}"
    return "" if secrets.compare_digest(hello.token, token) else "HELLO with a wrong token"


class Answering:
    """Answers the requests of one connection; all raise Refused for an error reply.

    event: takes an event's name and its fields; the connection is added. passed_s: how much time
    has passed since a moment.
    """

    def __init__(
        self,
        log: InputLog,
        recorder: Recorder,
        number: int,
        event: Callable[..., None],
        passed_s: Callable[[float], float],
    ) -> None:
        self._log, self._recorder, self._number, self._event = log, recorder, number, event
        self._passed_s = passed_s
        #: When each writer was told that it is fenced, and when all that it had sent was read.
        self._fenced: dict[tuple[int, int], tuple[float, float]] = {}
        #: Of some of them it may still lie unread.
        self._unheard = False

    def heard_all(self, silent: Callable[[], bool]) -> None:
        """Hear that all requests so far were answered; ``silent``: whether no more has come."""
        if self._unheard and silent():
            self._unheard = False
            now = time.monotonic()
            self._fenced = {at: (told, min(read, now)) for at, (told, read) in self._fenced.items()}

    def plain(self, request: frames.Request) -> bytes:
        """Answer what is neither FETCH nor output."""
        match request:
            case frames.Tail():
                return frames.tailed(request, *self._log.tail(request))
            case frames.Release():
                self._log.release(request)
                return frames.released()
            case frames.Have(stream, writer):
                if (stream, writer) in self._fenced:
                    self.note(EventKind.HAVE_AFTER_FENCE, stream=stream, writer=writer)
                next_seq = self._recorder.have(stream, writer, self._number)
                return frames.have(writer, next_seq)
            case frames.Abort(txn):
                self._recorder.abort(txn)
                self.note(EventKind.ABORT, txn=txn)
                return frames.aborted(txn)
        raise Refused(Code.NOT_ALLOWED, "HELLO a second time")

    def records(self, request: Append | Stage | frames.Commit) -> int:
        """Return how many records a request brings, or commits."""
        match request:
            case Append(count=count) | Stage(append=Append(count=count)):
                return count
        return self._recorder.staged(request.txn)

    def take(self, request: Append | Stage | frames.Commit) -> tuple[str, bytes]:
        """Record output; return the moment that came with it, and the reply."""
        recorder, number = self._recorder, self._number
        match request:
            case Append(writer=writer):
                next_seq = self._fence(request, lambda: recorder.append(request, number))
                return "appended", frames.appended(writer, next_seq)
            case Stage(txn, append):
                self._fence(append, lambda: recorder.stage(txn, append, number))
                self.note(EventKind.STAGE, txn=txn, writer=append.writer, count=append.count)
                return "staged", frames.staged(txn)
        outcome = recorder.commit(request.txn, number)
        self.note(EventKind.COMMIT, txn=request.txn, outcome=int(outcome))
        return "committed", frames.committed(request.txn, outcome)

    def note(self, event: str, **fields: object) -> None:
        """Add an event of this connection."""
        self._event(event, connection=self._number, **fields)

    def _fence(self, append: Append, record: Callable[[], int | None]) -> int:
        """Run a recording; note refusals by fencing and what still comes after them."""
        address = append.stream, append.writer
        told, read = self._fenced.get(address, (math.inf, math.inf))
        if self._passed_s(told) > FENCE_LONGEST_S or self._passed_s(read) > FENCE_GRACE_S:
            self.note(EventKind.OUTPUT_AFTER_FENCE, stream=append.stream, writer=append.writer)
        try:
            return record() or 0
        except Refused as refused:
            if refused.code is Code.FENCED and address not in self._fenced:
                self._fenced[address] = time.monotonic(), math.inf
                self._unheard = True
            raise
