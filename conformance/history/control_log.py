"""Control lines of a run: time, direction, text."""

from __future__ import annotations

from typing import Final

from tickproof.conformance.history.json_lines import LineFile

#: As long as a line may be [ctl-line-limit]. Longer ones are cut in the record; the engine's
#: failure quotes their beginning.
KEEP_LINE: Final = 1 << 20


class ControlLog(LineFile):
    """Writer of control.jsonl. Thread-safe."""

    def add(self, direction: str, line: str, t_ns: int) -> None:
        """Write one control line; ``direction`` is "to" or "from" the engine."""
        self.write({"t_ns": t_ns, "direction": direction, "line": line[:KEEP_LINE]})
