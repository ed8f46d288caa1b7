"""Records in flight: fetched by the engine, and neither released nor answered yet."""

from __future__ import annotations

import threading
import time
from typing import Final

from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder

#: How long a delayed fault waits for data to be in flight.
WAIT_S: Final = 1.0


class Flight:
    """Records in flight, by what the log and the recorder saw. ``one_each``: one output each."""

    def __init__(self, log: InputLog, recorder: Recorder, one_each: bool) -> None:
        self._log, self._recorder, self.one_each = log, recorder, one_each
        #: How far everything was, and since when (time.monotonic).
        self._position: tuple[int, ...] = ()
        self._quiet_since = 0.0

    @property
    def answered(self) -> bool:
        """Say whether all that was published was fetched, and all that owes an output gave it."""
        fetched = self._log.fetched
        return fetched >= self._log.published and not self._owes(fetched)

    def __bool__(self) -> bool:
        """Say whether the engine holds records, also where it has released them too early."""
        fetched = self._log.fetched
        return fetched > self._log.released or self._owes(fetched)

    def wait(self) -> bool:
        """Wait a little until data is in flight; says whether it is."""
        pause = threading.Event()
        deadline = time.monotonic() + WAIT_S
        while not self and time.monotonic() < deadline:
            pause.wait(0.0005)
        return bool(self)

    def quiet_s(self) -> float:
        """Return for how many seconds nothing has moved, as far as earlier calls could see."""
        log, now = self._log, time.monotonic()
        position = (log.published, log.fetched, log.released, self._recorder.records)
        if position != self._position:
            self._position, self._quiet_since = position, now
        return now - self._quiet_since

    def _owes(self, fetched: int) -> bool:
        return self.one_each and fetched > self._recorder.records
