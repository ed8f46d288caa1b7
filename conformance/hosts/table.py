"""Attestation and plan on a terminal: all of it readable at 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tickproof.conformance.hosts.host_files import listed
from tickproof.conformance.hosts.model import LEVELS, Attestation, Status
from tickproof.conformance.hosts.plan import Plan
from tickproof.conformance.hosts.remedies import Step
from tickproof.conformance.text import shown

_COLOURS = {Status.OK: "green", Status.NOT_OK: "bold red", Status.UNOBSERVABLE: "yellow"}
_MOST_WANTED, _LEAST_VALUE = 23, 12
#: Two blanks between each two of four columns.
_GAPS = 6


def show(attested: Attestation, console: Console) -> None:
    """Print a table by level, then path and reason of what is not OK, then the counts."""
    table = Table(box=None, pad_edge=False)
    for column in ("probe", "status", "value", "wanted"):
        table.add_column(column, no_wrap=True)
    # Where a terminal is narrow the value is cut: of what is not OK it follows in full.
    names = max((len(r.probe) for r in attested.readings), default=0)
    fixed = names + len(Status.UNOBSERVABLE) + _MOST_WANTED + _GAPS
    room = max(console.width - fixed, _LEAST_VALUE)
    for level in LEVELS:
        rows = [reading for reading in attested.readings if reading.level == level]
        if rows:
            table.add_row(Text(level, style="bold"))
        for r in rows:
            status = Text(r.status.value, style=_COLOURS[r.status])
            wanted = Text(shown(r.wanted, _MOST_WANTED))
            table.add_row(Text(r.probe), status, Text(shown(r.value, room)), wanted)
    console.print(table)
    for r in attested.problems():
        console.print()
        console.print(Text(f"{r.probe}: ", style=_COLOURS[r.status]).append(r.value, style="bold"))
        console.print(Text(f"  {r.path}; wanted: {r.wanted}", style="dim"), soft_wrap=True)
        console.print(Text(f"  {r.why}"))
    counts = Counter(reading.status for reading in attested.readings)
    parts = [Text(f"{counts[s]} {s}", style=_COLOURS[s]) for s in Status if counts[s]]
    console.print()
    console.print(Text(", ").join(parts))


def show_plan(plan: Plan, console: Console) -> None:
    """Print cores, steps by hand, by tool, how to start, and what cannot be done here."""
    cores = plan.cores
    if cores.shared:
        said = f"kit and engine share {listed(cores.kit)}: too few cores for each to have its own"
    else:
        said = f"kit {listed(cores.kit)}, engine {listed(cores.engine)}, "
        said += f"everything else {listed(cores.housekeeping)}"
    console.print(Text("cores: ", style="bold").append(said, style="default"))
    _section("One by one", plan.by_hand, console)
    _section("Or several at once", plan.by_tool, console)
    _section("Start", plan.start, console)
    if plan.impossible:
        console.print()
        console.print(Text("Cannot be done on this host", style="bold underline"))
    for one in plan.impossible:
        console.print(Text(f"{one.probe}: ", style="yellow").append(one.reason, style="default"))
    if not plan.by_hand and not plan.impossible:
        console.print(Text("Nothing to do: every probe is OK.", style="green"))


def _section(title: str, steps: Sequence[Step], console: Console) -> None:
    if not steps:
        return
    console.print()
    console.print(Text(title, style="bold underline"))
    for step in steps:
        name = ", ".join(step.probes)
        console.print(Text(f"{name}: " if name else "", style="cyan").append(step.what))
        needs = f" Needs: {', '.join(step.needs)}." if step.needs else ""
        console.print(Text(f"  {step.why}{needs}", style="dim"))
        # Commands are there to be copied: a terminal may wrap them, this never cuts them.
        for line in step.apply:
            console.print(Text(f"  {line}"), soft_wrap=True)
        for line in step.undo:
            console.print(Text(f"  undo: {line}", style="dim"), soft_wrap=True)
