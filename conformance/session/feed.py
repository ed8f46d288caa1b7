"""Live events of a session: its processes append them to a file, which the session follows."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.history.event import EventKind, PartitionState
from tickproof.conformance.history.json_lines import Tail
from tickproof.conformance.scenario import Scenario

_PERIOD_S: Final = 0.1
_SHOWN: Final = {EventKind.PROGRESS, EventKind.FAULT}


class RunFeed:
    """Tells of one run; path: of the file, None if nobody follows the session."""

    def __init__(self, path: Path | None, folder: Path, scenario: Scenario) -> None:
        self._path = path
        self._base = {"run": str(folder), "scenario": scenario.name, "app": scenario.app}

    def on_event(self, row: dict[str, Any]) -> None:
        """Tell of an event of the run, if a live view shows it."""
        if row["event"] == EventKind.FAULT:
            fetched = sum(PartitionState(*one).fetched for one in row["partitions"])
            step = row["step"]
            row = {
                "event": row["event"],
                "do": step["do"],
                "target": step["target"],
                "pid": row["pids"][0] if row["pids"] else 0,
                "served": fetched,
                "records": row["total"],
            }
        if row["event"] in _SHOWN:
            self.tell(**row)

    def tell(self, event: str, **facts: Any) -> None:
        """Append an event; a live view costs no run."""
        if self._path is None:
            return
        # One short write in append mode: lines of several processes do not mix.
        line = json.dumps(self._base | {"event": event} | facts) + "\n"
        with contextlib.suppress(OSError), self._path.open("ab", buffering=0) as file:
            file.write(line.encode())


class Follower:
    """Hands on what is appended to a file from now on."""

    def __init__(self, path: Path, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._file = path.open("rb")
        self._file.seek(0, os.SEEK_END)  # what is there belongs to the tiers before
        self._on_event = on_event
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._file.close()

    def _run(self) -> None:
        tail, stopped = Tail(self._file), False
        while not stopped:
            stopped = self._stop.wait(_PERIOD_S)
            for line in itertools.chain.from_iterable(tail):
                self._on_event(json.loads(line))
