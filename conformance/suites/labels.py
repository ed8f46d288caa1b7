"""Names for symbols in counterexamples: the companies of a generated market."""

from __future__ import annotations

from typing import Any

from tickproof.conformance.history.folder import History
from tickproof.generators.recipes import market_symbols
from tickproof.generators.universe import company_of


def labelled(history: History, where: dict[str, Any]) -> dict[str, Any]:
    """Return ``where`` with the company of its symbol, if the market was generated.

    Nothing of it is read from the run folder, or written there: the seed gives the names.
    """
    recipe = history.record.input.recipe
    if "symbol" not in where or recipe["kind"] not in ("market", "market-realistic"):
        return where
    symbol = str(where["symbol"]).strip()
    try:
        seed, names = market_symbols(recipe)
    except (ValueError, TypeError, KeyError):  # a recipe that is not the kit's
        return where
    return where | {"company": company_of(symbol, seed)} if symbol in names else where
