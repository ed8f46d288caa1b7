"""Names for symbols in counterexamples: the universe of a generated market."""

from __future__ import annotations

from typing import Any

from tickproof.conformance.history.folder import History
from tickproof.generators.recipes import market_params
from tickproof.generators.universe import load_universe, write_universe


def labelled(history: History, where: dict[str, Any]) -> dict[str, Any]:
    """Return ``where`` with the company of its symbol, if the market was generated.

    The names are made at the first need and kept as universe.json in the run folder.
    """
    recipe = history.run["input"]["recipe"]
    if "symbol" not in where or recipe["kind"] != "market":
        return where
    path = history.folder / "universe.json"
    universe = (
        load_universe(path) if path.exists() else write_universe(market_params(recipe), path)
    )  # fmt: skip
    symbol = str(where["symbol"]).strip()
    company = universe.company(symbol)
    return where if company == symbol else where | {"company": company}
