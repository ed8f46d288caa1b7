"""What a search shows while it runs: one live line on a terminal, a line a run elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tickproof.conformance.explore.attempts import Attempt
from tickproof.conformance.reports.live import is_live
from tickproof.conformance.reports.style import badge, counts_line
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Verdict

_LINE: Final = 160


class View:
    """Counts attempts and shows them. doing: what the search is at, as text."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True) if is_live(console) else None
        self._began = time.monotonic()
        self.doing = "exploring"
        self.verdicts: Counter[Verdict] = Counter()
        self.fired = self.missed = 0

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._live:
            self._live.stop()

    def heard(self, made: Attempt) -> None:
        """Count an attempt and show it."""
        self.verdicts[made.outcome.verdict] += 1
        self.fired += made.fired
        self.missed += made.missed
        line = badge(made.outcome.verdict, self._console)
        what = f"  {made.seconds:.1f} s  {described(made)}"
        line.append(shown(what, _LINE), style="dim")
        if self._live:
            self._live.update(Text("\n").join([self.summary(), line]))
        else:
            self._console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(Text(shown(text, 500)), soft_wrap=True)

    def summary(self) -> Text:
        """Return the counts so far."""
        runs, seconds = sum(self.verdicts.values()), time.monotonic() - self._began
        line = Text(f"{self.doing}: {runs} runs in {seconds:.0f} s: ", style="bold")
        line.append_text(counts_line(self.verdicts, self._console))
        return line.append(f"; {self.fired} faults fired, {self.missed} missed", style="default")


def described(made: Attempt) -> str:
    """Say what a run was: app, size, faults; and what was found where it did not pass."""
    scenario, params = made.scenario, " ".join(made.scenario.params.values())
    parts = [f"{scenario.app} {params}".strip(), f"{scenario.recipe['records']:,} records"]
    parts.append(", ".join(f"{s.do} {s.target} at {s.at}" for s in scenario.faults))
    why = f" -> {made.outcome.reason}" if made.outcome.reason else ""
    return "; ".join(parts) + why
