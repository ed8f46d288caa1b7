"""Faults of connections that last: their time, and how they slow replies down."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tickproof.conformance.scenario import FaultStep

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
    #: Half open: nothing is read from it and nothing sent.
    frozen: bool = False
    broken: bool = False
    #: Its thread may be waiting for the peer to read.
    sending: bool = False

    @property
    def deaf(self) -> bool:
        """Whether nobody is there to get an answer."""
        return self.frozen or self.broken


@dataclass(eq=False)
class Lasting:
    """A fault that lasts, from the first thing that it meets on.

    ``count``: replies, frames or requests that met it.
    """

    step: FaultStep
    links: list[Link]
    from_ns: int = field(default_factory=time.monotonic_ns)
    until: float = 0.0
    met: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    count: int = 0
    bytes: int = 0

    def meet(self) -> None:
        """Count what it meets; the first starts its time."""
        self.count += 1
        if not self.met.is_set():
            self.until = time.monotonic() + self.step.seconds
            self.met.set()

    def rest(self, seconds: float) -> None:
        """Wait, no longer than the fault lasts."""
        self.over.wait(min(seconds, max(0.0, self.until - time.monotonic())))

    def end(self) -> None:
        """End it before its time."""
        self.over.set()
        self.met.set()


def pieces(data: memoryview, faults: Sequence[Lasting]) -> Iterator[memoryview]:
    """Cut replies into what leaves at once, and rest in between as the first fault has it.

    What is left when that fault ends leaves whole.
    """
    at = 0
    for fault in [fault for fault in faults if fault.step.do != "delay"][:1]:
        while at < len(data) and not fault.over.is_set():
            if fault.step.do == "throttle":
                size = max(1, int(fault.step.rate * _THROTTLE_S))
                pause = size / max(fault.step.rate, 1.0)
            else:
                middle = _DRIPPING <= at < len(data) - _DRIPPING
                size, pause = (len(data) - _DRIPPING - at if middle else 1), _DRIP_S
            yield data[at : at + size]
            at += size
            fault.rest(pause)
    if at < len(data):
        yield data[at:]
