"""Faults of connections that last: their time, and how they slow replies down."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickproof.conformance.scenario import FaultStep

#: So long a fault that lasts waits for something that it can meet: a batch engine reads rarely.
MEET_S: Final = 30.0
#: Bytes at the beginning and at the end of a reply that drip; the middle leaves at once.
_DRIPPING: Final = 128
_DRIP_S: Final = 0.0002
#: Seconds of a throttled reply that leave in one piece.
_THROTTLE_S: Final = 0.01


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

    step: FaultStep
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
            self.until = time.monotonic() + self.step.seconds


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
    for fault in [fault for fault in faults if fault.step.do != "delay"][:1]:
        while at < len(data) and not fault.over:
            if fault.step.do == "throttle":
                size = max(1, int(fault.step.rate * _THROTTLE_S))
                pause_s = size / max(fault.step.rate, 1.0)
            else:
                middle = _DRIPPING <= at < len(data) - _DRIPPING
                size, pause_s = (len(data) - _DRIPPING - at if middle else 1), _DRIP_S
            yield Piece(data[at : at + size], fault, pause_s)
            at += size
    if at < len(data):
        yield Piece(data[at:])
