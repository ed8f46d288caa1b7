"""What to know about a recorded market: doubtful values, and symbols that were shortened."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from tickproof.conformance.text import shown


def csv_notes(console: Console, warnings: Mapping[str, int], symbols: Mapping[str, str]) -> None:
    """Print the counted warnings, and alias by alias the table of shortened symbols."""
    for name, times in warnings.items():
        if times:
            console.print(Text(f"warning: {name.replace('_', ' ')}: {times:,}"))
    for alias, name in symbols.items():
        if alias.strip() != name:
            console.print(Text(f"symbol {shown(name, 60)} is {alias.strip()}"))
