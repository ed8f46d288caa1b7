"""A counterexample names the company behind a symbol of a generated market."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import App, Scenario
from tickproof.conformance.suites.labels import labelled
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.generators.market import MarketParams
from tickproof.generators.recipes import complete, market_params
from tickproof.generators.symbols import tickers
from tickproof.generators.universe import make_universe


def history_of(folder: Path, app: App, recipe: dict[str, Any]) -> History:
    return RunFolder(folder, Scenario("made", app, {}, recipe)).history()


def test_the_company_of_a_symbol_is_added(tmp_path: Path) -> None:
    recipe = complete({"kind": "market", "seed": 5, "records": 100, "symbols": 12})
    history = history_of(tmp_path, "market-spread", recipe)
    symbol, company = next(iter(make_universe(market_params(recipe)).companies.items()))

    assert market_params(recipe) == MarketParams(messages=100, seed=5, symbols=12)
    assert labelled(history, {"symbol": symbol, "offset": 3}) == {
        "symbol": symbol,
        "offset": 3,
        "company": company,
    }


def test_nothing_is_read_from_the_run_folder_or_written_there(tmp_path: Path) -> None:
    recipe = complete({"kind": "market", "seed": 5, "records": 100, "symbols": 12})
    history = history_of(tmp_path / "run", "market-spread", recipe)
    outside = tmp_path / "outside"
    (history.folder / "universe.json").symlink_to(outside)
    assert "company" in labelled(history, {"symbol": next(iter(tickers(5, 1)))})
    assert not outside.exists()


def test_a_recipe_that_is_not_the_kits_gives_no_name(tmp_path: Path) -> None:
    recipe = complete({"kind": "market", "seed": 5, "records": 100, "symbols": 12})
    history = history_of(tmp_path, "market-spread", recipe)
    history.record.input.recipe |= {"symbols": "many"}
    assert labelled(history, {"symbol": "A"}) == {"symbol": "A"}


def test_other_places_stay_as_they_are(tmp_path: Path) -> None:
    recipe = complete({"kind": "market", "seed": 5, "records": 100})
    market = history_of(tmp_path / "market", "market-spread", recipe)
    recipe = {"kind": "keyed", "seed": 5, "records": 100, "keys": 5}
    keyed = history_of(tmp_path / "keyed", "count", recipe)

    assert labelled(market, {"key": 3}) == {"key": 3}
    assert labelled(market, {"symbol": "NONE.SUCH"}) == {"symbol": "NONE.SUCH"}
    assert labelled(keyed, {"symbol": "ABC"}) == {"symbol": "ABC"}
