"""Notes on a recorded market: doubtful records, its unit, shortened symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tickproof.conformance.text import shown
from tickproof.generators.spread_rule import DECIMALS, spread_limit

if TYPE_CHECKING:
    from tickproof.generators.csv_market import MarketCsv

#: Longest warning: it may name files and symbols.
_LIMIT = 1_000


def market_notes(console: Console, market: MarketCsv) -> None:
    """Print each doubt, a finer unit of price, and alias by alias the shortened symbols."""
    for doubt in market.doubts:
        console.print(Text(f"warning: {shown(str(doubt), _LIMIT)}"), soft_wrap=True)
    if market.decimals > DECIMALS:
        unit = f"10^-{market.decimals} dollars, five cents are {spread_limit(market.decimals):,}"
        console.print(Text(f"prices in {unit}: {shown(market.finest, _LIMIT)}"), soft_wrap=True)
    for alias, name in market.symbols.items():
        if alias.strip() != name:
            console.print(Text(f"symbol {shown(name, 60)} is {alias.strip()}"))
