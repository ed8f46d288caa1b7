"""The engine's processes, from the events of a run that is under way or over."""

from __future__ import annotations

import json
from pathlib import Path

from tickproof.conformance.engines import process_table
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.json_lines import read_json_lines
from tickproof.conformance.text import shown


class Reapers:
    """The reapers above an engine; ``folder`` is that of a run under way."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "events.jsonl"
        self._read = 0
        self._torn = b""
        self._found: list[int] = []

    def __call__(self) -> list[int]:
        """Return their pids, over all lives of the engine so far."""
        for line in self._lines():
            if b'"started"' not in line and b'"taken-over"' not in line:
                continue
            row = json.loads(line)
            if row["event"] not in (EventKind.STARTED, EventKind.TAKEN_OVER):
                continue
            # The reaper started argv's process, which is alive or waits to be reaped by it.
            proc = process_table.read(row["pid"])
            if proc is not None and proc.ppid not in self._found:
                self._found.append(proc.ppid)
        return list(self._found)

    def _lines(self) -> list[bytes]:
        """Return the complete lines that were written since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return []
        self._read += len(new)
        *lines, self._torn = (self._torn + new).split(b"\n")
        return lines


def roles(folder: Path) -> dict[int, str]:
    """Return pid -> role of each process that topology named in a run."""
    return {
        one["pid"]: shown(one["role"], 60)
        for row in read_json_lines(folder / "events.jsonl")
        if row["event"] == EventKind.TOPOLOGY
        for one in row["processes"]
    }
