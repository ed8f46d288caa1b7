"""Control lines of a run as JSON lines: time, direction, text."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Final

#: Longer lines are cut in the record; the engine's failure quotes their beginning.
KEEP_LINE: Final = 64 * 1024


class ControlLog:
    """Thread-safe writer of control.jsonl."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None

    def add(self, direction: str, line: str, t_ns: int) -> None:
        """Write one control line; ``direction`` is "to" or "from" the engine."""
        row = {"t_ns": t_ns, "direction": direction, "line": line[:KEEP_LINE]}
        with self._lock:
            if self._file.closed or self.failure is not None:
                return
            try:
                self._file.write(json.dumps(row) + "\n")
            except OSError as error:
                self.failure = error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            try:
                self._file.close()
            except OSError as error:  # what a full disk did not take is tried once more
                self.failure = self.failure or error
