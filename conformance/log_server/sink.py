"""Behaviour of the sink and the wire: delays, stalls, replies in pieces.

All delays of a run are bounded together (``SinkBehaviour.budget_s``), not for each
frame, and end at once when the engine dies: otherwise they would time out a sound
engine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tickproof.conformance.history.event import EventKind
from tickproof.conformance.scenario import SinkBehaviour

#: How long a reply in pieces rests now and then.
PIECE_PAUSE_S = 0.0005


class Outputs(Protocol):
    """The output as a sink sees it; recorder.Recorder is one."""

    @property
    def taken(self) -> int: ...  # noqa: D102


class Input(Protocol):
    """The input as a sink sees it; input_log.InputLog is one."""

    @property
    def fetched(self) -> int: ...  # noqa: D102
    @property
    def total(self) -> int: ...  # noqa: D102


class Part(NamedTuple):
    """Bytes of a reply that leave at once, and the pause after them."""

    data: memoryview
    pause_s: float


@dataclass(frozen=True)
class Stall:
    """A stall that an output frame meets; ``starts``: it is the first one to meet it."""

    until: float
    starts: bool
    outputs: int


class Sink:
    """Decides the waits of a behaviour. One for each run; used by all its connections.

    ``spent_s``: seconds of delay that the engine was given so far: deadlines grow by them.
    ``released``: no delay lasts any longer, for the engine is dead. ``held``: delayed answers wait
    until it is done, too.
    """

    def __init__(self, behaviour: SinkBehaviour, on_event: Callable[..., None]) -> None:
        self.behaviour = behaviour
        self._event = on_event
        #: Whether output frames may have to wait for anything.
        self.waits = behaviour.stall_after is not None or (
            max(behaviour.ack_delay_s, behaviour.last_ack_delay_s) > 0
        )
        self.released = False
        self.held: Future[bool] | None = None
        self.spent_s = 0.0
        self._stall_until: float | None = None
        #: Output frames received and not yet answered.
        self.open_acknowledgements = 0
        self._random = random.Random(behaviour.seed)

    def release_waits(self, on: bool) -> None:
        """End (or allow again) all delays: the engine is dead, read what it left."""
        self.released = on

    def stall(self, outputs: Outputs) -> Stall | None:
        """Return the stall that comes before an output frame is handled, None without one."""
        after = self.behaviour.stall_after
        if after is None or (taken := outputs.taken) < after:
            return None
        now = time.monotonic()
        starts = self._stall_until is None
        if self._stall_until is None:
            self._stall_until = now + self.behaviour.stall_s
            self.spent_s += self.behaviour.stall_s  # now: a deadline may fall into it
            self._event(EventKind.STALL, seconds=self.behaviour.stall_s, outputs=taken)
        return Stall(self._stall_until, starts, taken) if now < self._stall_until else None

    def stalled(self, stall: Stall) -> None:
        """Hear that a frame has waited a stall out; one that was cut short is no evidence."""
        if stall.starts and not self.released:
            self._event(EventKind.STALL_ENDED, outputs=stall.outputs)

    def acknowledgement_delay(self, log: Input) -> float:
        """Return the seconds before the answer to an output frame, as far as the budget goes."""
        behaviour = self.behaviour
        delay_s = behaviour.ack_delay_s
        if behaviour.last_ack_delay_s > delay_s and log.fetched >= log.total:
            delay_s = behaviour.last_ack_delay_s
        if delay_s <= 0:
            return 0.0
        delay_s = max(0.0, min(delay_s, behaviour.budget_s - self.spent_s))
        self.spent_s += delay_s
        return delay_s

    def pieces(self, data: memoryview) -> Iterator[Part]:
        """Cut a reply into pieces, if the behaviour says so."""
        if not self.behaviour.pieces:
            yield Part(data, 0.0)
            return
        position = 0
        while position < len(data):
            size = 1 if position < 12 else self._random.randint(1, 4096)
            pause = self._random.random() < 0.05 and self.spent_s < self.behaviour.budget_s
            self.spent_s += PIECE_PAUSE_S if pause else 0.0
            yield Part(data[position : position + size], PIECE_PAUSE_S if pause else 0.0)
            position += size
