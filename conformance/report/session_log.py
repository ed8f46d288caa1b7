"""Events of a session as they happen: JSON lines beside its reports, for who watches it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.history.json_lines import LineFile
from tickproof.conformance.text import shown

FILE_NAME: Final = "live.jsonl"
#: Longest text of an engine in a line.
_TEXT: Final = 300


class SessionLog:
    """Writes the events of one session, and hands each on; use as a context manager.

    folder: of the engine; what an earlier session left there is replaced. A log that cannot be
    written costs the session nothing.
    """

    def __init__(
        self, folder: Path, facts: Mapping[str, Any], on_event: Callable[[dict[str, Any]], None]
    ) -> None:
        self._path, self._facts, self._on_event = folder / FILE_NAME, facts, on_event
        self._file: LineFile | None = None
        self._verdict = "interrupted"

    def __enter__(self) -> SessionLog:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._file = LineFile(self._path)
        self._write({"event": "session-started", **self._facts})
        return self

    def __exit__(self, *_: object) -> None:
        self._write({"event": "session-ended", "verdict": self._verdict})
        if self._file is not None:
            self._file.close()

    def __call__(self, event: dict[str, Any]) -> None:
        """Write an event, and hand it on."""
        self._write(brief(event))
        self._on_event(event)

    def came_out(self, verdict: str) -> None:
        """Note the verdict of the session; without one it counts as interrupted."""
        self._verdict = verdict

    def _write(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write({"t": round(time.time(), 3), **row})


def brief(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as the log has it: of an outcome, without what the reports say."""
    outcome = event.get("outcome")
    if not isinstance(outcome, Mapping):
        return dict(event)
    kept = {key: outcome.get(key, "") for key in ("requirement", "verdict", "reason", "scenario")}
    return {"event": event["event"], **kept, "said": shown(outcome.get("actual", ""), _TEXT)}
