"""Progress while a session runs: a live view on a terminal, plain lines elsewhere.

Both take the event dicts of `tickproof.conformance.session.tiers.run_session`; an event that a
newer session adds is passed over.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tickproof.conformance.reports.style import TIER_NAMES, badge, counts_line
from tickproof.conformance.requirements.registry import LATENCY_TIER
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import SEVERITY, Verdict

_NAME_LIMIT: Final = 40
#: Drawn anew so often while time counts: a redraw takes time from what is measured.
QUIET_PER_S: Final = 0.5
#: Runs shown at once, and faults remembered for each.
_ROWS: Final = 8
_SIGNALS: Final = {"kill": "SIGKILL", "pause": "SIGSTOP", "resume": "SIGCONT"}

Event = Mapping[str, Any]


class Progress(Protocol):
    """Takes events while it is entered; `counts` are the verdicts so far."""

    @property
    def counts(self) -> Counter[Verdict]:
        """Verdicts so far."""

    def __call__(self, event: Event) -> None:
        """Show one event."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(self, *exc: object) -> None:
        """Leave the terminal clean."""


def is_live(console: Console) -> bool:
    """Say whether lines may be drawn anew: on a terminal outside CI."""
    dumb = os.environ.get("TERM") == "dumb" or os.environ.get("CI", "") not in ("", "0", "false")
    return console.is_terminal and not dumb


def progress(console: Console) -> Progress:
    """Return the view that suits the console: live where that is possible, else lines."""
    return LiveProgress(console) if is_live(console) else LineProgress(console)


@dataclass
class _Run:
    """What is known of one run so far."""

    name: str
    records: int = 0
    served: int = 0
    outputs: int = 0
    fault: str = ""


@dataclass
class State:
    """What the events of a session have said so far, bounded by the runs under way."""

    tier: int | None = None
    runs: dict[str, _Run] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[Verdict]:
        """Requirements by verdict so far: the worst of those that have several tests."""
        return Counter(self.verdicts.values())

    def take(self, event: Event) -> _Run | None:
        """Take over one event; returns the run it is about, if any."""
        kind = event.get("event")
        if kind == "tier-started":
            self.tier = int(event["tier"])
        elif kind == "decided":
            id_, verdict = event["outcome"]["requirement"], Verdict(event["outcome"]["verdict"])
            earlier = self.verdicts.get(id_, verdict)
            self.verdicts[id_] = max(earlier, verdict, key=SEVERITY.index)
        elif kind == "run-started":
            scenario, app = str(event.get("scenario", "")), str(event.get("app", ""))
            name = scenario if app in scenario else f"{scenario} {app}"
            run = _Run(shown(name, _NAME_LIMIT), int(event.get("records") or 0))
            self.runs[str(event["run"])] = run
            return run
        elif kind in ("progress", "fault", "run-ended"):
            run = self.runs.get(str(event["run"])) or _Run(shown(str(event["run"]), _NAME_LIMIT))
            run.served = int(event.get("served", run.served))
            run.outputs = int(event.get("outputs", run.outputs))
            run.records = int(event.get("records") or run.records)
            if kind == "fault":
                run.fault = fault_text(event, run.served, run.records)
            if kind == "run-ended":
                self.runs.pop(str(event["run"]), None)
            return run
        return None


def fault_text(event: Event, served: int, records: int) -> str:
    """Return "SIGKILL worker 4711 at 43,210 of 100,000 records"."""
    words = [_SIGNALS.get(str(event.get("do")), str(event.get("do", "fault")))]
    words += [str(event[key]) for key in ("target", "pid") if event.get(key)]
    at = event.get("at") or (f"{served:,} of {records:,} records" if records else "")
    if at:
        words += ["at", str(at)]
    return shown(" ".join(words), 100)


class LineProgress:
    """One line a run and one a fault, without control characters: for CI and files."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._state = State()

    @property
    def counts(self) -> Counter[Verdict]:
        """Verdicts so far."""
        return self._state.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        return None

    def __call__(self, event: Event) -> None:
        """Print the line of one event, if it has one."""
        run = self._state.take(event)
        kind = event.get("event")
        if kind == "tier-started":
            tier = int(event["tier"])
            self._print(f"T{tier} {TIER_NAMES.get(tier, '')}")
        elif kind == "fault" and run:
            self._print(f"  {run.name}: {run.fault}")
        elif kind == "run-ended" and run:
            # What was served last is not known here: progress comes in steps.
            ended = shown(str(event.get("ended", "")), 60)
            self._print(f"  {run.name}: {run.records:,} records, {ended}")
        elif kind == "decided" and event["outcome"]["verdict"] not in ("pass", "not-claimed"):
            outcome = event["outcome"]
            said = f"  {outcome['verdict']} {outcome['requirement']} {outcome.get('reason', '')}"
            self._print(shown(said.rstrip(), 120))

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class LiveProgress:
    """A view that is drawn anew a few times a second; faults stay as lines above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._state = State()
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    @property
    def counts(self) -> Counter[Verdict]:
        """Verdicts so far."""
        return self._state.counts

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take over one event; a fault, and what is not held, is printed to stay."""
        run = self._state.take(event)
        kind = event.get("event")
        if kind == "tier-started" and event["tier"] == LATENCY_TIER:
            self._redraw(QUIET_PER_S)
        if kind == "fault" and run:
            line = Text("  ").append(run.fault, style="bold red").append(f"  {run.name}", "dim")
            self._live.console.print(line, soft_wrap=True)
        elif kind == "decided" and event["outcome"]["verdict"] not in ("pass", "not-claimed"):
            outcome = event["outcome"]
            line = Text("  ").append_text(badge(Verdict(outcome["verdict"]), self._console))
            said = f" {outcome['requirement']} {outcome.get('reason', '')}"
            line.append(shown(said.rstrip(), 120), style="default")
            self._live.console.print(line, soft_wrap=True)

    def _redraw(self, per_second: float) -> None:
        self._live.stop()
        self._live.refresh_per_second = per_second
        self._live.start()

    def render(self) -> RenderableType:
        """Return the view of this moment."""
        state = self._state
        head = Text()
        if state.tier is not None:
            head.append(f"T{state.tier} {TIER_NAMES.get(state.tier, '')}", style="bold")
            head.append("  ")
        head.append_text(counts_line(state.counts, self._console))
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, max_width=_NAME_LIMIT, overflow="ellipsis")
        table.add_column(width=16)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        running = list(state.runs.values())
        for run in running[:_ROWS]:
            table.add_row(
                Text(run.name),
                ProgressBar(total=max(run.records, 1), completed=run.served, width=16),
                Text(f"{run.served:,} served"),
                Text(f"{run.outputs:,} out"),
            )
        parts: list[RenderableType] = [head, table]
        if len(running) > _ROWS:
            parts.append(Text(f"and {len(running) - _ROWS} more", style="dim"))
        return Group(*parts)
