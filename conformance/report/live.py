"""Progress while the kit works: drawn anew on a terminal, plain lines everywhere else.

`LiveView` is the only thing that draws. A session (`SessionProgress`), a search, a selftest,
the generators and a latency session each give it what to draw.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tickproof.conformance.report.session_log import brief
from tickproof.conformance.report.session_state import SessionState
from tickproof.conformance.report.style import TIER_NAMES, badge, counts_line, tier_title
from tickproof.conformance.suites.registry import LATENCY_TIER
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import Verdict

_NAME_LIMIT: Final = 40
_LINE_LIMIT: Final = 120
#: Redraws a second while time is measured: drawing takes processor time from the run.
QUIET_PER_S: Final = 0.5
#: What is left is estimated from the speed over so many seconds.
_SPEED_S: Final = 3600.0
#: Seconds between lines about how far a session is, where nothing is drawn.
LINE_S: Final = 30.0
#: Runs shown at once.
_ROWS: Final = 8
#: Verdicts that the summary lists; while the session runs they would only be noise.
_SILENT: Final = frozenset((Verdict.PASS, Verdict.NOT_CLAIMED, Verdict.BLOCKED))

Event = Mapping[str, Any]


def is_live(console: Console) -> bool:
    """Say whether lines may be drawn anew: on a terminal outside CI."""
    dumb = os.environ.get("TERM") == "dumb" or os.environ.get("CI", "") not in ("", "0", "false")
    return console.is_terminal and not dumb


class LiveView:
    """Draws what ``render`` returns while it is entered, and leaves the terminal clean.

    Where lines cannot be drawn anew, only `keep` and `line` print anything.
    """

    def __init__(
        self, console: Console, render: Callable[[], RenderableType], per_second: float = 4.0
    ) -> None:
        self.console = console
        self._render = render
        #: Redraws a second; 0 where nothing is drawn.
        self.per_second = per_second if is_live(console) else 0.0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.per_second:
            self._live = Live(
                console=self.console,
                get_renderable=self._render,
                transient=True,
                refresh_per_second=self.per_second,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def keep(self, line: Text) -> None:
        """Print a line that stays, above what is drawn."""
        self.console.print(line, soft_wrap=True)

    def line(self, line: Text) -> None:
        """Print a line where nothing is drawn: it says what the drawing would show."""
        if not self.per_second:
            self.keep(line)

    def slow_down(self, per_second: float) -> None:
        """Redraw less often from now on."""
        if self._live:
            self._live.stop()
            self.per_second = self._live.refresh_per_second = per_second
            self._live.start()


def bar(what: str, done: int, total: int | None, seconds: float) -> RenderableType:
    """Return one line: what, a bar, how many of how many, how long so far."""
    grid = Table.grid(padding=(0, 1))
    progress = ProgressBar(total=total, completed=done, width=40, pulse=total is None)
    of = f"{done:,}" if total is None else f"{done:,} of {total:,}"
    grid.add_row(Text(shown(what, 50)), progress, Text(of), Text(f"{seconds:.0f} s"))
    return grid


def _rounded(seconds: float) -> str:
    """Return a length of time in whole minutes, or in tens of seconds below two of them."""
    if seconds < 115:
        return f"{max(round(seconds / 10) * 10, 10)} s"
    return counted(round(seconds / 60), "minute")


class SessionProgress(LiveView):
    """Shows the events of `tickproof.conformance.session.tiers.run_session` while entered.

    A requirement that did not hold gets a line that stays; with ``verbose`` each fault does
    too, and each run where nothing is drawn. Events that it does not know are passed over.
    """

    def __init__(
        self, console: Console, *, verbose: bool = False, tiers: Mapping[int, str] = TIER_NAMES
    ) -> None:
        super().__init__(console, self.render, per_second=8)
        self._verbose, self._tiers = verbose, tiers
        self._state = SessionState()
        #: What was printed: a requirement of several runs is told of once.
        self._told: set[tuple[str, Verdict]] = set()
        self._began, self._next_s = time.monotonic(), LINE_S
        self._progress = Progress(
            TextColumn("{task.fields[said]}"),
            BarColumn(24),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            speed_estimate_period=_SPEED_S,
        )
        self._task = self._progress.add_task("", total=None, said="")

    @property
    def counts(self) -> Counter[Verdict]:
        """Requirements by verdict so far."""
        return self._state.counts

    def __call__(self, event: Event) -> None:
        """Show one event."""
        row = brief(event)
        run = self._state.take(row)
        kind = row.get("event")
        if kind == "tier-started":
            self.line(self._tier(int(event["tier"])))
            if event["tier"] == LATENCY_TIER:
                self.slow_down(QUIET_PER_S)
        elif kind == "scenario-judged":
            said = f"{row['done']} of {counted(row['of'], 'scenario')}"
            # As a share: rich forgets the speed so far whenever a total changes.
            share = row["done_s"] / row["of_s"] if row["of_s"] else 0.0
            self._progress.update(self._task, completed=share, total=1.0, said=said)
            self._say_how_far(said, share)
        elif kind == "decided":
            self._decided(row)
        elif self._verbose and kind == "note":
            self.keep(Text(f"  {shown(str(row['said']), 500)}", style="dim"))
        elif run and self._verbose and kind == "fault":
            self.keep(Text(f"  {run.name}: ").append(run.newest_fault, style="bold red"))
        elif run and self._verbose and kind == "run-ended":
            # What was served last is not known here: progress comes in steps.
            ended = shown(str(event.get("said") or event.get("ended", "")), 60)
            self.line(Text(f"  {run.name}: {run.records:,} records, {ended}"))

    def _say_how_far(self, said: str, share: float) -> None:
        """Print a line where nothing is drawn, unless there was one just now."""
        elapsed_s = time.monotonic() - self._began
        if share <= 0 or elapsed_s < self._next_s or share >= 1:
            return
        self._next_s = elapsed_s + LINE_S
        left_s = elapsed_s * (1 - share) / share
        self.line(Text(f"  {said}; about {_rounded(left_s)} left", style="dim"))

    def _decided(self, row: Event) -> None:
        verdict, id_ = Verdict(row["verdict"]), str(row["requirement"])
        if verdict not in _SILENT and (id_, verdict) not in self._told:
            self._told.add((id_, verdict))
            line = Text("  ").append_text(badge(verdict, self.console))
            line.append(shown(f" {id_} {row['reason']}".rstrip(), _LINE_LIMIT), style="default")
            if scenario := row["scenario"]:
                line.append(f"  {shown(str(scenario), 60)}", style="dim")
            self.keep(line)

    def render(self) -> RenderableType:
        """Return the view of this moment: counts, the runs under way, the newest fault."""
        state = self._state
        head = Text() if state.tier is None else self._tier(state.tier).append("  ")
        head.append_text(counts_line(state.counts, self.console))
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, max_width=_NAME_LIMIT, overflow="ellipsis")
        table.add_column(width=16)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        running = list(state.runs.values())
        for run in running[:_ROWS]:
            table.add_row(
                Text(run.name),
                ProgressBar(total=max(run.records, 1), completed=run.counts["served"], width=16),
                Text(f"{run.counts['served']:,} served"),
                Text(f"{run.counts['outputs']:,} out"),
            )
        known = self._progress.tasks[0].total is not None
        parts: list[RenderableType] = [head]
        parts += [self._progress.get_renderable()] if known else []
        parts.append(table)
        if len(running) > _ROWS:
            parts.append(Text(f"and {len(running) - _ROWS} more", style="dim"))
        if state.newest_faults:
            newest = "{run}: {said}".format_map(state.newest_faults[-1])
            parts.append(Text(newest, style="red", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _tier(self, tier: int) -> Text:
        return Text(tier_title(tier, self._tiers), style="bold")
