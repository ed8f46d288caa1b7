"""The table of rejects and orders by symbol, for recorded markets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tickproof.conformance.report.json_report import Result
from tickproof.conformance.text import shown

_FIELD_LIMIT: Final = 600
#: Most symbols listed by name; the rest is one line.
_SYMBOL_ROWS: Final = 20
_OF_TWO: Final = (
    "Two streams have no agreed order: each order was judged by the quote that the engine had "
    "seen by then. So these counts may differ from those of one merged stream, and between runs."
)


def show(console: Console, results: Sequence[Result]) -> None:
    """Print rejects and orders by symbol, once for each distinct table of one or two streams."""
    tables: list[tuple[Mapping[str, object], bool, list[str]]] = []
    for result in results:
        by_symbol, two = result.evidence.get("by_symbol"), result.evidence.get("inputs") == "two"
        if not isinstance(by_symbol, Mapping) or not by_symbol:
            continue
        for table, of_two, ids in tables:
            if table == by_symbol and of_two == two:
                ids.append(result.id)
                break
        else:
            tables.append((by_symbol, two, [result.id]))
    for table, two, ids in tables:
        _symbol_table(console, ", ".join(ids), table)
        if two:
            console.print(Text(_OF_TWO, style="dim"))


def _symbol_table(console: Console, ids: str, by_symbol: Mapping[str, object]) -> None:
    rows = {
        name: (int(pair[0]), int(pair[1]))
        for name, pair in by_symbol.items()
        if isinstance(pair, list) and len(pair) == 2
    }
    table = Table(box=None, pad_edge=False)
    table.add_column("symbol", no_wrap=True, max_width=24)
    for name in ("rejects", "orders", "share"):
        table.add_column(name, justify="right")
    most_orders = sorted(rows, key=lambda name: (-rows[name][1], name))
    for name in most_orders[:_SYMBOL_ROWS]:
        table.add_row(Text(shown(name, 24)), *_shares(*rows[name]))
    rest = [rows[name] for name in most_orders[_SYMBOL_ROWS:]]
    if rest:
        table.add_row(f"{len(rest):,} more", *_shares(*map(sum, zip(*rest, strict=True))))
    table.add_section()
    table.add_row("all", *_shares(*map(sum, zip(*rows.values(), strict=True))), style="bold")
    console.print()
    console.print(Text(f"Rejects by symbol: {shown(ids, _FIELD_LIMIT)}", style="bold"))
    console.print(table)


def _shares(rejects: int, orders: int) -> tuple[str, str, str]:
    return f"{rejects:,}", f"{orders:,}", f"{rejects / orders:.1%}" if orders else ""
