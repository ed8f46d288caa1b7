"""JSON lines: written one at a time from many threads, read back without a torn end."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any


class LineFile:
    """Thread-safe writer of a JSON-lines file; each line is on its way to disk at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None

    def write(self, row: dict[str, Any]) -> None:
        """Write one line; nothing happens after a failure or when closed."""
        line = json.dumps(row, separators=(",", ":")) + "\n"
        with self._lock:
            if self._file.closed or self.failure is not None:
                return
            try:
                self._file.write(line)
            except OSError as error:
                self.failure = error

    def close(self) -> None:
        """Close the file."""
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
