"""Names for symbols in counterexamples: the universe of a generated market."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tickproof.conformance.history.folder import History
from tickproof.generators.recipes import market_params
from tickproof.generators.universe import make_universe

_universe = lru_cache(maxsize=4)(make_universe)


def labelled(history: History, where: dict[str, Any]) -> dict[str, Any]:
    """Return ``where`` with the company of its symbol, if the market was generated.

    Nothing of it is read from the run folder, or written there: the seed gives the names.
    """
    recipe = history.record.input.recipe
    if "symbol" not in where or recipe["kind"] != "market":
        return where
    symbol = str(where["symbol"]).strip()
    try:
        company = _universe(market_params(recipe)).company(symbol)
    except (ValueError, TypeError, KeyError):  # a recipe that is not the kit's
        return where
    return where if company == symbol else where | {"company": company}
