"""Progress snapshot per control line, which answers are held against."""

from __future__ import annotations

from typing import Any, Final

from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.sink import Sink

#: Moments that are remembered: more lines than can come between two looks at the run.
KEEP: Final = 256


class ProgressSnapshots:
    """Remembers how far input, output and acknowledgements were; times as in `note`."""

    def __init__(self, log: InputLog, recorder: Recorder, sink: Sink) -> None:
        self._log, self._recorder, self._sink = log, recorder, sink
        self._noted: dict[int, dict[str, Any]] = {}

    def note(self, t_ns: int) -> None:
        """Remember how far it is now, as of ``t_ns``."""
        self._noted[t_ns] = self._now()
        if len(self._noted) > KEEP:
            del self._noted[next(iter(self._noted))]

    def at(self, t_ns: int) -> dict[str, Any]:
        """Return how far it was then: fields of an event. How far it is now, if not noted."""
        return self._noted.get(t_ns) or self._now()

    def _now(self) -> dict[str, Any]:
        return {
            "open_acknowledgements": self._sink.open_acknowledgements,
            "staged_open": self._recorder.staged_open,
            "outputs": self._recorder.records,
            "ended": self._log.ended,
            "partitions": [list(state) for state in self._log.states()],
        }
