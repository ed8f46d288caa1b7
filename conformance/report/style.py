"""Style of verdicts on a terminal: one word, one symbol, one colour each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tickproof.conformance.engines import interruption
from tickproof.conformance.verdicts import SEVERITY, Verdict

TIER_NAMES: Final[Mapping[int, str]] = {
    0: "protocol and passthrough",
    1: "double and count, no faults",
    2: "Market Spread, no faults",
    3: "process deaths and network faults",
    4: "grow and shrink",
    5: "latency on an attested host",
}
#: The same for a user's own job, whose requirements are those of the family JB.
JOB_TIER_NAMES: Final[Mapping[int, str]] = {
    0: "no faults",
    2: "a restart",
    3: "process deaths and network faults",
}

#: Columns of a table that is not shown on a terminal: more than any row has.
_UNFOLDED: Final = 10_000

_LOOKS: Final[Mapping[Verdict, tuple[str, str, str]]] = {
    Verdict.PASS: ("✓", "+", "green"),
    Verdict.FAIL: ("✗", "x", "bold red"),
    Verdict.UNKNOWN: ("?", "?", "yellow"),
    Verdict.BLOCKED: ("⊘", "/", "yellow"),
    Verdict.NOT_CLAIMED: ("·", ".", "dim"),
    Verdict.KNOWN_GAP: ("○", "o", "cyan"),
    Verdict.GAP_FIXED: ("!", "!", "bold red"),
    Verdict.KIT_ERROR: ("‼", "#", "bold magenta"),
}


def tier_names(requirement: str) -> Mapping[int, str]:
    """Return the names of tiers, one of whose requirements is given by id."""
    return JOB_TIER_NAMES if requirement.startswith("JB-") else TIER_NAMES


def tier_number(tier: int, names: Mapping[int, str]) -> str:
    """Return what commands call a tier, "" of a job: these are not asked for by number."""
    return "" if names is JOB_TIER_NAMES else f"T{tier}"


def tier_title(tier: int, names: Mapping[int, str]) -> str:
    """Return number and name of a tier."""
    return f"{tier_number(tier, names)} {names.get(tier, '')}".strip()


def mark(verdict: Verdict) -> str:
    """Return the symbol of a verdict."""
    return _LOOKS[verdict][0]


def console(*, stderr: bool = False) -> Console:
    """Return a console that never reads markup, emoji or links into engine text."""
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_table(target: Console, table: Table) -> None:
    """Print a table; into a pipe or a file one line a row, which tools can cut and search."""
    width = target.width
    if not target.is_terminal:
        target.width = _UNFOLDED
    target.print(table)
    target.width = width


class _Console(Console):
    """A console that ends the command as Ctrl-C does where nobody reads it any more."""

    def _check_buffer(self) -> None:
        # Neither a terminal that was closed nor a full disk is a broken pipe, but they end as one.
        try:
            super()._check_buffer()
        except OSError:
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        self.quiet = True
        interruption.output_closed(self.file.fileno())


def symbol(verdict: Verdict, target: Console) -> Text:
    """Return the coloured symbol of a verdict; plain ASCII where the encoding needs it."""
    pretty, plain, colour = _LOOKS[verdict]
    return Text(pretty if _can_print(pretty, target) else plain, style=colour)


def badge(verdict: Verdict, target: Console, word: str = "") -> Text:
    """Return symbol and word of a verdict in its colour; ``word``: another one."""
    return symbol(verdict, target).append(f" {word or verdict.value}")


def counts_line(counts: Mapping[Verdict, int], target: Console) -> Text:
    """Return "2 fail, 1 unknown, 40 pass", worst first, as coloured text."""
    parts = [
        Text(f"{counts[verdict]} {verdict.value}", style=_LOOKS[verdict][2])
        for verdict in reversed(SEVERITY)
        if counts.get(verdict)
    ]
    return Text(", ").join(parts) if parts else Text("nothing decided")


def glyph(pretty: str, plain: str, target: Console) -> str:
    """Return ``pretty`` where the console's encoding holds it, else ``plain``."""
    return pretty if _can_print(pretty, target) else plain


def _can_print(text: str, target: Console) -> bool:
    try:
        text.encode(target.encoding)
    except UnicodeEncodeError:
        return False
    return True
