"""The event log of a run: JSON lines with monotonic times, bounded for each kind."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

#: Events of one kind beyond this number are counted, not written.
KEEP_PER_KIND: Final = 20_000

Listener = Callable[[dict[str, Any]], None]


class EventLog:
    """Thread-safe writer of events.jsonl; each line is on its way to disk at once."""

    def __init__(self, path: Path, listener: Listener | None = None) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()
        self._listener = listener
        self.counts: Counter[str] = Counter()
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None

    def add(self, event: str, t_ns: int | None = None, **fields: Any) -> None:
        """Write one event; ``t_ns`` is now unless given."""
        row = {"t_ns": time.monotonic_ns() if t_ns is None else t_ns, "event": event, **fields}
        with self._lock:
            self.counts[event] += 1
            if self.counts[event] <= KEEP_PER_KIND and not self._file.closed:
                self._write(json.dumps(row, separators=(",", ":")) + "\n")
        if self._listener is not None:
            self._listener(row)

    def _write(self, line: str) -> None:
        if self.failure is not None:
            return
        try:
            self._file.write(line)
        except OSError as error:
            self.failure = error

    def close(self) -> None:
        """Close the file; later events are only counted."""
        with self._lock:
            try:
                self._file.close()
            except OSError as error:  # what a full disk did not take is tried once more
                self.failure = self.failure or error


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file; a torn last line is left out."""
    if not path.exists():
        return []
    rows = []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            raise ValueError(f"{path.name}, line {number}: not JSON ({error})") from error
    return rows
