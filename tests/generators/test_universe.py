import json

from tickproof.generators.market import MarketParams
from tickproof.generators.symbols import tickers
from tickproof.generators.universe import write_universe


def test_labels_for_every_symbol_and_account(tmp_path):
    path = tmp_path / "universe.json"
    written = write_universe(MarketParams(messages=0, seed=2, symbols=20), path)
    read = json.loads(path.read_text(encoding="utf-8"))
    assert read["format"] == 1
    companies = {row["symbol"]: row["company"] for row in read["symbols"]}
    assert companies == written.companies
    assert {row["account"]: (row["name"], row["broker"]) for row in read["accounts"]} == {
        number: (account.name, account.broker) for number, account in written.accounts.items()
    }
    assert list(companies) == tickers(2, 20)
    assert all(companies.values())
    assert sorted(written.accounts) == list(range(1000))
    first = tickers(2, 1)[0]
    assert written.company(f"{first:8}") == companies[first]
    assert written.company("NOBODY") == "NOBODY"
