"""Progress of a search: its counts and newest run, or a line for each run."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from rich.console import Console
from rich.text import Text

from tickproof.conformance.explore.attempts import Attempt
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.report.live import LiveView
from tickproof.conformance.report.style import badge, counts_line
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Verdict

_LINE: Final = 160


class SearchProgress(LiveView):
    """Counts attempts and shows them. doing: what the search is at, as text."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, lambda: Text("\n").join([self.summary(), self._newest]))
        self._newest = Text()
        self._began = time.monotonic()
        self.doing = "exploring"
        self.verdicts: Counter[Verdict] = Counter()
        self.fired = self.missed = 0
        #: Points of the fault space whose runs had their evidence.
        self.points: list[Point] = []

    def add(self, made: Attempt) -> None:
        """Count an attempt and show it."""
        self.verdicts[made.outcome.verdict] += 1
        self.fired += made.fired
        if made.outcome.verdict in (Verdict.PASS, Verdict.FAIL):
            self.points += map(Point.from_json, made.outcome.evidence.get("points", ()))
        self.missed += made.missed
        line = badge(made.outcome.verdict, self.console)
        what = f"  {made.seconds:.1f} s  {described(made)}"
        self._newest = line.append(shown(what, _LINE), style="dim")
        self.line(self._newest)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.keep(Text(shown(text, 500)))

    def summary(self) -> Text:
        """Return the counts so far."""
        runs, seconds = sum(self.verdicts.values()), time.monotonic() - self._began
        line = Text(f"{self.doing}: {runs} runs in {seconds:.0f} s: ", style="bold")
        line.append_text(counts_line(self.verdicts, self.console))
        return line.append(f"; {self.fired} faults fired, {self.missed} missed", style="default")


def described(made: Attempt) -> str:
    """Say what a run was: app, size, faults; and what was found where it did not pass."""
    scenario, params = made.scenario, " ".join(made.scenario.params.values())
    parts = [f"{scenario.app} {params}".strip(), f"{scenario.recipe['records']:,} records"]
    parts.append(", ".join(f"{s.do} {s.target} at {s.at}" for s in scenario.faults))
    why = f" -> {made.outcome.reason}" if made.outcome.reason else ""
    return "; ".join(parts) + why
