"""Faults of connections that last: their time, and how they slow replies down."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickproof.conformance.fault_steps import Error, FaultStep

#: So long a fault that lasts waits for something that it can meet: a batch engine reads rarely.
MEET_S: Final = 30.0


class LinkEffect:
    """The effect of a fault on connections of a side; `conformance.faults` has each such fault.

    breaks_reply: they are reset in the middle of a reply. keeps_frame: they are reset, and a frame
    of them is handled once its writer is back. half_open: they stand still, then they are reset.
    withholds: FETCH finds nothing new. refuses: output is refused. errs: a request of Kafka is
    answered with an error. slows: replies leave slowly, lag_s later, or piece by piece.
    """

    step: FaultStep
    breaks_reply = keeps_frame = half_open = withholds = refuses = errs = slows = False
    lag_s = 0.0

    def error_for(self, request: str) -> Error:
        """Return the error that a request of Kafka is answered with, "" for none."""
        return ""

    def piece(self, at: int, size: int) -> tuple[int, float]:
        """Return how many bytes leave at once from ``at`` of ``size``, and the pause after (s)."""
        return size - at, 0.0


@dataclass(eq=False)
class Link:
    """One connection as faults see it."""

    number: int
    sock: socket.socket
    sides: set[str] = field(default_factory=set)
    #: Ops of the frames that came so far.
    ops: set[int] = field(default_factory=set)
    #: Whether nobody is there to get an answer: the link is half open, or was broken.
    deaf: bool = False
    broken: bool = False


@dataclass(eq=False)
class Lasting:
    """A fault that lasts, from the first thing that it meets on.

    ``until``: when it is over (time.monotonic). ``count``: replies, frames or requests that
    met it.
    """

    fault: LinkEffect
    links: list[Link]
    from_ns: int = field(default_factory=time.monotonic_ns)
    until: float = field(default_factory=lambda: time.monotonic() + MEET_S)
    over: bool = False
    count: int = 0
    bytes: int = 0

    def meet(self) -> None:
        """Count what it meets; the first starts its time."""
        self.count += 1
        if self.count == 1:
            self.until = time.monotonic() + self.fault.step.lasts_s


class Piece(NamedTuple):
    """Bytes that leave at once, and the fault that wants a pause after them."""

    data: memoryview
    fault: Lasting | None = None
    pause_s: float = 0.0


def pieces(data: memoryview, faults: Sequence[Lasting]) -> Iterator[Piece]:
    """Cut replies into what leaves at once, as the first fault that does so has it.

    What is left when that fault ends leaves whole.
    """
    at = 0
    for lasting in [one for one in faults if not one.fault.lag_s][:1]:
        while at < len(data) and not lasting.over:
            size, pause_s = lasting.fault.piece(at, len(data))
            yield Piece(data[at : at + size], lasting, pause_s)
            at += size
    if at < len(data):
        yield Piece(data[at:])
