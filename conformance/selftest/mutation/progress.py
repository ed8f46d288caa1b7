"""The progress of a mutation run on the terminal."""

from __future__ import annotations

import time

from rich.console import Console, RenderableType
from rich.text import Text

from tickproof.conformance.report.live import LiveView, bar
from tickproof.conformance.selftest.mutation.results import Fate, Result


class MutantProgress(LiveView):
    """Shows how many mutants are judged, and a line for each that was not killed."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, self._bar)
        self._what, self._done = "the engine as it is", 0
        self._planned: int | None = None
        self._began = time.monotonic()

    def _bar(self) -> RenderableType:
        return bar(self._what, self._done, self._planned, time.monotonic() - self._began)

    def __call__(self, done: int, planned: int, result: Result) -> None:
        """Show one more mutant."""
        self._what, self._done, self._planned = result.id, done, planned
        if result.fate is not Fate.KILLED:
            self.keep(Text(f"  {result.fate} {result.id}: {result.new}"))
        if done * 20 // planned > (done - 1) * 20 // planned:
            self.line(Text(f"  {done:,} of {planned:,} mutants"))
