"""Detect, without drain, that an engine has given all its output."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tickproof.conformance.checkers.expected import payload_words

#: No output for so long after all of it was seen: what comes twice gets time to come.
QUIET_S: Final = 1.0
#: The same where the engine has committed the offsets of all its input, which says less, or has
#: read some of it again: somebody who was taken for dead may give that output a second time.
RELEASED_S: Final = 3.0


class ExpectedOutput:
    """Records that an input calls for, and those of them that have been seen.

    ``expected``: payloads, in any order, each as often as it has to come; None: nobody knows.
    """

    def __init__(self, expected: np.ndarray | None) -> None:
        self._known = expected is not None
        wanted = payload_words(expected) if expected is not None else np.empty(0, np.uint64)
        self._values, self._counts = np.unique(wanted, return_counts=True)
        self._seen = np.zeros(len(self._values), np.int64)
        self._missing = int(self._counts.sum())

    def see(self, payloads: np.ndarray) -> None:
        """Take note of output payloads."""
        if not len(self._values) or not len(payloads):
            return
        values, counts = np.unique(payload_words(payloads), return_counts=True)
        at = np.minimum(np.searchsorted(self._values, values), len(self._values) - 1)
        hits = self._values[at] == values
        np.add.at(self._seen, at[hits], counts[hits])
        self._missing = int(np.maximum(self._counts - self._seen, 0).sum())

    @property
    def complete(self) -> bool:
        """True if each record was seen as often as it has to come; False where nobody knows."""
        return self._known and not self._missing


@dataclass
class Completion:
    """The answer to drain that such an engine cannot give; what waits for it asks ``done``.

    It is given once all output was seen, or all input was released and no open transaction hides
    output, and nothing has come, nor input been read again, for a while. An engine that does
    neither is done when nothing has moved for ``stalled_s``: what is missing then is lost. Each of
    them only if everything committed by then is recorded: a recorder that is behind says nothing of
    the engine.
    """

    complete: Callable[[], bool]
    released: Callable[[], bool]
    #: What moves as long as the engine works: counts that are compared.
    position: Callable[[], tuple[int, ...]]
    stalled_s: float
    #: Whether the engine, if it was started again, has looked at its input since: before that,
    #: its silence says nothing.
    back: Callable[[], bool] = lambda: True
    #: How much time has passed since a moment of time.monotonic; the runner gives its fair clock.
    passed_s: Callable[[float], float] = lambda since: time.monotonic() - since
    #: Whether the recorder was at the end of all committed output, at a time (time.monotonic) or
    #: later.
    recorded: Callable[[float], bool] = lambda since: True
    #: How much input was read a second time; somebody who does so for ever moves nothing.
    again: Callable[[], int] = lambda: 0
    answered_ns: int = 0
    _position: tuple[int, ...] = ()
    _back: bool = True
    _again: int = 0
    _moved_at: float = field(default_factory=time.monotonic)
    _again_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._again = self.again()

    @property
    def done(self) -> bool:
        """True if the engine has given all that it will; looks at it each time."""
        with self._lock:
            if self.answered_ns:
                return True
            now, position, back = time.monotonic(), self.position(), self.back()
            if (position, back) != (self._position, self._back):
                self._position, self._back, self._moved_at = position, back, now
            if (again := self.again()) != self._again:
                self._again, self._again_at = again, now
            quiet_s = self.passed_s(self._moved_at)
            read_s = self.passed_s(self._again_at)
            if not back:
                over = quiet_s >= self.stalled_s
            elif self.complete():
                over = quiet_s >= QUIET_S and read_s >= RELEASED_S
            elif self.released():
                over = min(quiet_s, read_s) >= RELEASED_S
            else:
                over = quiet_s >= self.stalled_s
            over = over and self.recorded(self._moved_at)
            if over:
                self.answered_ns = time.monotonic_ns()
            return over

    def wait(self, timeout_s: float) -> dict[str, Any]:
        """Give up waiting: what has not come by now is judged as missing."""
        del timeout_s
        self.answered_ns = self.answered_ns or time.monotonic_ns()
        return {}
