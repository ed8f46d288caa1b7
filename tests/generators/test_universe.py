import pytest

from tickproof.generators.market import MarketParams
from tickproof.generators.symbols import tickers
from tickproof.generators.universe import load_universe, write_universe


def test_labels_for_every_symbol_and_account(tmp_path):
    path = tmp_path / "universe.json"
    written = write_universe(MarketParams(messages=0, seed=2, symbols=20), path)
    read = load_universe(path)
    assert read == written
    assert list(read.companies) == tickers(2, 20)
    assert all(read.companies.values())
    assert sorted(read.accounts) == list(range(1000))
    first = tickers(2, 1)[0]
    assert read.company(f"{first:8}") == read.companies[first]
    assert read.company("NOBODY") == "NOBODY"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a universe.json: Expecting"),
        ("[]", "not a universe.json"),
        ('{"format": 2}', "format: expected 1, got 2"),
        ('{"format": 1, "accounts": []}', "missing key 'symbols'"),
    ],
)
def test_another_file_is_named(tmp_path, text, message):
    path = tmp_path / "universe.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        load_universe(path)
    assert str(path) in str(raised.value)
