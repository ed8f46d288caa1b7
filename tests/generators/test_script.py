import numpy as np
import pytest

from tickproof.generators.layouts import COUNT_IN, MESSAGE, NUMBER, ORDER, QUOTE, framed
from tickproof.generators.recipes import build

ROWS = [["quote", "AB", 100, 600], ["order", "AB"], ["order", "C"], ["quote", "C", 0, 0]]


def test_market_rows_in_order_with_running_ids(tmp_path):
    recipe = {"kind": "script", "rows": ROWS, "repeat": 20_000}
    built = build(recipe, tmp_path)
    records = np.fromfile(built.partitions[0].path, framed(MESSAGE))
    quotes = records.view(framed(QUOTE))["payload"]
    orders = records.view(framed(ORDER))["payload"]
    assert len(records) == 80_000 and (records["size"] == 52).all()
    assert orders["kind"].tolist() == [2, 1, 1, 2] * 20_000
    assert orders["symbol"][:4].tolist() == [b"AB      ", b"AB      ", b"C       ", b"C       "]
    assert quotes["bid"][0::4].tolist() == [100] * 20_000
    assert quotes["offer"][0::4].tolist() == [600] * 20_000
    is_quote = orders["kind"] == 2
    assert quotes["quote_id"][is_quote].tolist() == list(range(1, 40_001))
    assert orders["order_id"][~is_quote].tolist() == list(range(1, 40_001))
    assert (np.diff(orders["event_ns"].astype(np.int64)) == 1000).all()


def test_two_streams(tmp_path):
    built = build({"kind": "script", "rows": ROWS, "inputs": "two", "tick": 1}, tmp_path)
    assert built.plan.tolist() == [[0, 0], [1, 0], [1, 1], [1, 2], [2, 2]]


def test_keyed_and_number_rows(tmp_path):
    edges = [["keyed", 2**64 - 1, -(2**63)], ["keyed", 0, 2**63 - 1]]
    built = build({"kind": "script", "rows": edges, "repeat": 2}, tmp_path)
    payload = np.fromfile(built.partitions[0].path, framed(COUNT_IN))["payload"]
    assert payload.tolist() == [(2**64 - 1, -(2**63)), (0, 2**63 - 1)] * 2
    built = build({"kind": "script", "rows": [["number", -3]], "repeat": 3}, tmp_path)
    payload = np.fromfile(built.partitions[0].path, framed(NUMBER))["payload"]
    assert payload["x"].tolist() == [-3] * 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows: expected a list with at least one row"),
        ("quote", "rows: expected a list"),
        ([["order", "A"], ["sell", "A"]], r"rows\[1\]: expected quote, symbol"),
        ([["order"]], r"rows\[0\]: expected"),
        ([["order", "TOOLONG__"]], r"rows\[0\]: expected a symbol of 1 to 8 ASCII"),
        ([["order", " A"]], r"rows\[0\]: expected a symbol"),
        ([["order", "É"]], r"rows\[0\]: expected a symbol"),
        ([["quote", "A", -1, 5]], r"rows\[0\]: expected a whole number 0 to"),
        ([["quote", "A", 1.5, 5]], r"rows\[0\]: expected a whole number"),
        ([["keyed", 2**64, 5]], r"rows\[0\]: expected a whole number 0 to 18446744073709551615"),
        ([["order", "A"], ["number", 1]], "rows of one app"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        build({"kind": "script", "rows": rows}, tmp_path)
