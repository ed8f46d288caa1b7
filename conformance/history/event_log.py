"""The event log of a run: events with monotonic times, bounded for each kind."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.json_lines import LineFile

#: Events of one kind beyond this number are counted, not written.
KEEP_PER_KIND: Final = 20_000

Listener = Callable[[dict[str, Any]], None]


class EventLog(LineFile):
    """Writer of events.jsonl. Thread-safe."""

    def __init__(self, path: Path, listener: Listener | None = None) -> None:
        super().__init__(path)
        self._counting = threading.Lock()
        self._listener = listener
        self.counts: Counter[str] = Counter()

    def add(self, event: EventKind, t_ns: int | None = None, **fields: Any) -> None:
        """Write one event; ``t_ns`` is now unless given. Too many of a kind are only counted."""
        row = {"t_ns": time.monotonic_ns() if t_ns is None else t_ns, "event": event, **fields}
        with self._counting:
            self.counts[event] += 1
            keep = self.counts[event] <= KEEP_PER_KIND
        if keep:
            self.write(row)
        if self._listener is not None:
            self._listener(row)
