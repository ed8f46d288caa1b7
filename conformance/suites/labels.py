"""Names for symbols in counterexamples: the companies of a generated market."""

from __future__ import annotations

from typing import Any

from tickproof.conformance.history.folder import History
from tickproof.generators.recipes import market_params
from tickproof.generators.symbols import tickers
from tickproof.generators.universe import company_of


def labelled(history: History, where: dict[str, Any]) -> dict[str, Any]:
    """Return ``where`` with the company of its symbol, if the market was generated.

    Nothing of it is read from the run folder, or written there: the seed gives the names.
    """
    recipe = history.record.input.recipe
    if "symbol" not in where or recipe["kind"] != "market":
        return where
    symbol = str(where["symbol"]).strip()
    try:
        params = market_params(recipe)
        known = symbol in tickers(params.seed, params.symbols, params.edges)
    except (ValueError, TypeError, KeyError):  # a recipe that is not the kit's
        return where
    return where | {"company": company_of(symbol, params.seed)} if known else where
