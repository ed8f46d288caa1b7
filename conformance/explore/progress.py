"""Progress of a search: its counts and newest run, or a line for each run."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final, Generic

from rich.console import Console
from rich.text import Text

from tickproof.conformance.explore.subject import Attempt, Schedule, Subject
from tickproof.conformance.report.live import LiveView
from tickproof.conformance.report.style import badge, counts_line
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Verdict

_LINE: Final = 160


class SearchProgress(LiveView, Generic[Schedule]):
    """Counts attempts and shows them. doing: what the search is at, as text."""

    def __init__(self, console: Console, subject: Subject[Schedule]) -> None:
        super().__init__(console, lambda: Text("\n").join([self.summary(), self._newest]))
        self._newest, self._subject = Text(), subject
        self._began = time.monotonic()
        self.doing = "exploring"
        self.verdicts: Counter[Verdict] = Counter()
        self.fired = self.missed = 0
        #: Points of the fault space whose runs had their evidence.
        self.points: list[dict[str, str]] = []

    def add(self, made: Attempt[Schedule]) -> None:
        """Count an attempt and show it."""
        self.verdicts[made.outcome.verdict] += 1
        self.fired += made.fired
        if made.outcome.verdict in (Verdict.PASS, Verdict.FAIL):
            self.points += made.outcome.evidence.get("points", ())
        self.missed += made.missed
        line = badge(made.outcome.verdict, self.console)
        what = f"  {made.seconds:.1f} s  {self.described(made)}"
        self._newest = line.append(shown(what, _LINE), style="dim")
        self.line(self._newest)

    def described(self, made: Attempt[Schedule]) -> str:
        """Say what a run was, and what was found where it did not pass."""
        why = f" -> {made.outcome.reason}" if made.outcome.reason else ""
        return self._subject.described(made.schedule) + why

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.keep(Text(shown(text, 500)))

    def summary(self) -> Text:
        """Return the counts so far."""
        runs, seconds = sum(self.verdicts.values()), time.monotonic() - self._began
        line = Text(f"{self.doing}: {runs} runs in {seconds:.0f} s: ", style="bold")
        line.append_text(counts_line(self.verdicts, self.console))
        return line.append(f"; {self.fired} faults fired, {self.missed} missed", style="default")
