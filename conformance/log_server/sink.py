"""How the sink and the wire behave towards the engine: delays, stalls, replies in pieces.

All delays of a run are bounded together (``SinkBehaviour.budget_s``), not for each
frame, and end at once when the engine dies: otherwise they would time out a sound
engine.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from tickproof.conformance.scenario import SinkBehaviour


class Sink:
    """Applies a behaviour. One for each run; used by all connections."""

    def __init__(self, behaviour: SinkBehaviour, on_event: Callable[..., None]) -> None:
        self.behaviour = behaviour
        self._event = on_event
        self._hurry = threading.Event()
        self._lock = threading.Lock()
        self._spent = 0.0
        self._stall_from: float | None = None
        self._open = 0
        #: Connections whose first replies dribble.
        self._random = random.Random(behaviour.seed)

    @property
    def open_acknowledgements(self) -> int:
        """Output frames received and not yet answered."""
        return self._open

    @property
    def spent_s(self) -> float:
        """Seconds of delay that the engine was given so far: deadlines grow by them."""
        return self._spent

    def hurry(self, on: bool) -> None:
        """End (or allow again) all delays: the engine is dead, read what it left."""
        if on:
            self._hurry.set()
        else:
            self._hurry.clear()

    def before_output(self, counted: Callable[[], int]) -> None:
        """Wait out a stall before an output frame is handled; asks for the count if one is due."""
        with self._lock:
            self._open += 1
        after = self.behaviour.stall_after
        if after is None or (taken := counted()) < after:
            return
        with self._lock:
            starts = self._stall_from is None
            if self._stall_from is None:
                self._stall_from = time.monotonic()
            left = self._stall_from + self.behaviour.stall_s - time.monotonic()
        if starts:
            self._event("stall", seconds=self.behaviour.stall_s, outputs=taken)
        if left > 0 and not self._hurry.wait(left) and starts:
            self._event("stall-ended", outputs=taken)
        if starts:
            with self._lock:
                self._spent += self.behaviour.stall_s

    def before_acknowledgement(self, input_done: bool) -> None:
        """Wait before the answer to an output frame, as long as the budget lasts."""
        behaviour = self.behaviour
        delay = behaviour.last_ack_delay_s if input_done else 0.0
        delay = max(delay, behaviour.ack_delay_s)
        if delay <= 0:
            return
        with self._lock:
            delay = min(delay, behaviour.budget_s - self._spent)
            self._spent += max(0.0, delay)
        if delay > 0:
            self._hurry.wait(delay)

    def acknowledged(self) -> None:
        """Count an output frame as answered (or refused, or its connection lost)."""
        with self._lock:
            self._open -= 1

    def send(self, data: bytes, send: Callable[[bytes], object]) -> None:
        """Send a reply, in pieces if the behaviour says so."""
        if not self.behaviour.pieces:
            send(data)
            return
        position = 0
        while position < len(data):
            with self._lock:
                size = 1 if position < 12 else self._random.randint(1, 4096)
                pause = self._random.random() < 0.05 and self._spent < self.behaviour.budget_s
                self._spent += 0.0005 if pause else 0.0
            send(data[position : position + size])
            position += size
            if pause:
                self._hurry.wait(0.0005)
