import csv
import decimal
import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.generators import spill
from tickproof.generators.csv_market import CsvError, read_market, write_market_csv
from tickproof.generators.layouts import COUNT_IN, MESSAGE, ORDER, QUOTE, framed
from tickproof.generators.plausibility import counts
from tickproof.generators.reading import Reading
from tickproof.generators.recipes import build
from tickproof.generators.symbols import aliases

QUOTES = "ts_ns,symbol,bid,offer,bid_size,offer_size\n"
ORDERS = "ts_ns,symbol,side,price,qty\n"
ANSWER = {
    "BTCUSDT": (5_700, 19_904),
    "ETHUSDT": (2_345, 14_515),
    "BTCUSDT_UM": (21_313, 21_313),
    "ETHUSDT_UM": (1_033, 14_076),
    "BTCUSD_PERP": (5_235, 5_235),
    "ETHUSD_PERP": (174, 3_595),
}


def files(folder: Path, quotes: str, orders: str) -> dict[str, Path]:
    paths = {"quotes": folder / "quotes.csv", "orders": folder / "orders.csv"}
    paths["quotes"].write_text(QUOTES + quotes)
    paths["orders"].write_text(ORDERS + orders)
    return paths


def merged(market):
    return market.messages(0, len(market.order))


ROW_TIME = st.integers(0, 6)
QUOTE_ROW = st.tuples(ROW_TIME, st.sampled_from("ABC"), st.integers(0, 99), st.integers(0, 99))
ORDER_ROW = st.tuples(ROW_TIME, st.sampled_from("ABC"), st.sampled_from(["BUY", "s", "2", "b"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(QUOTE_ROW, min_size=1, max_size=30), st.lists(ORDER_ROW, min_size=1, max_size=30))
def test_merges_as_a_stable_sort_does(tmp_path_factory, quotes, orders):
    paths = files(
        tmp_path_factory.mktemp("csv"),
        "".join(f"{t},{s},{b / 4},{o / 4},1,1\n" for t, s, b, o in quotes),
        "".join(f"{t},{s},{side},1,1\n" for t, s, side in orders),
    )
    market = read_market(**paths)
    quotes = sorted(quotes, key=lambda row: row[0])
    orders = sorted(orders, key=lambda row: row[0])
    expected = [(t, 2, i, s, b * 2500, o * 2500) for i, (t, s, b, o) in enumerate(quotes, 1)]
    sides = {"BUY": 1, "b": 1, "s": 2, "2": 2}
    expected += [(t, 1, i, s, sides[side], 10_000) for i, (t, s, side) in enumerate(orders, 1)]
    expected.sort(key=lambda row: (row[0], row[1] != 2))
    got = []
    for row in merged(market):
        quote = row.reshape(1).view(framed(QUOTE))["payload"][0]
        order = row.reshape(1).view(framed(ORDER))["payload"][0]
        head = (quote["event_ns"], quote["kind"], quote["quote_id"], quote["symbol"].decode()[0])
        is_quote = quote["kind"] == 2
        tail = (quote["bid"], quote["offer"]) if is_quote else (order["side"], order["price"])
        got.append((*head, *tail))
    assert got == expected
    assert market.times.tolist() == [row[0] for row in expected]


@pytest.mark.parametrize("ties", ["quote-first", "order-first"])
def test_blocks_of_a_few_rows_give_the_same(tmp_path, monkeypatch, ties):
    chance = random.Random(7)
    quotes = [
        (chance.randrange(60), chance.choice("ABC"), chance.randrange(50, 99)) for _ in range(40)
    ]
    orders = [(chance.randrange(60), chance.choice("ABCD")) for _ in range(40)]
    paths = files(
        tmp_path,
        "".join(f"{t},{s},{b},{b + 1},1,1\n" for t, s, b in quotes),
        "".join(f"{t},{s},BUY,{9 if s == 'A' else 700},1\n" for t, s in orders),
    )
    whole = read_market(**paths, reading=Reading(ties=ties))
    monkeypatch.setattr(spill, "BLOCK", 3)
    pieces = read_market(**paths, reading=Reading(ties=ties))
    assert pieces.doubts == whole.doubts and len(whole.doubts) >= 3
    assert np.array_equal(merged(pieces), merged(whole))
    assert np.array_equal(pieces.times, whole.times)


def test_oddities_are_counted(tmp_path):
    paths = files(
        tmp_path,
        "5,A,1.0005,2,1,1\n4,A,3,2,99999999999,1\n4,A,1.0000500,1.00015,1,1\n",
        "5,A,buy,1.2345678,0.00001\n",
    )
    market = read_market(**paths)
    assert counts(market.doubts) == {"times_back": 1, "crossed_quotes": 1, "capped_sizes": 1}
    assert market.quotes["payload"]["bid"].tolist() == [30_000_000, 10_000_500, 10_005_000]
    assert market.quotes["payload"]["bid_size"].tolist() == [2**32 - 1, 10_000, 10_000]
    assert market.orders["payload"]["price"].tolist() == [12_345_678]
    assert market.orders["payload"]["qty"].tolist() == [0]
    assert (market.decimals, market.finest.rpartition("/")[2]) == (
        7,
        "orders.csv:2: column price: '1.2345678' has 7 decimal places",
    )


@pytest.mark.parametrize(
    ("quotes", "orders", "line", "column"),
    [
        ("5,A,1,2,1,1\n4,A,1,2,1,1\n", "1,A,B,1,1\n", 3, "ts_ns"),
        ("5,A,1,,1,1\n", "1,A,B,1,1\n", 2, "offer"),
        ("5,A,0,2,1,1\n", "1,A,B,1,1\n", 2, "bid"),
        ("5,A,3,2,1,1\n", "1,A,B,1,1\n", 2, "offer"),
        ("5,A,1,2,1,429496.7296\n", "1,A,B,1,1\n", 2, "offer_size"),
    ],
)
def test_strict_makes_each_oddity_an_error(tmp_path, quotes, orders, line, column):
    paths = files(tmp_path, quotes, orders)
    assert len(read_market(**paths).doubts) == 1
    with pytest.raises(CsvError) as raised:
        read_market(**paths, reading=Reading(strict=True))
    assert (raised.value.line, raised.value.column) == (line, column)


def test_columns_in_any_order_others_ignored_quotes_and_gzip(tmp_path):
    quotes, orders = tmp_path / "quotes.csv.gz", tmp_path / "orders.csv"
    text = '\ufeffx,"symbol",offer,bid,ts_ns,offer_size,bid_size\r\n"a,b","A",2,1,7,4,3\r\n'
    quotes.write_bytes(gzip.compress(text.encode()))
    orders.write_text(ORDERS + " 8 , A , Buy , 1.5 , 2 ")
    market = read_market(quotes, orders)
    payload = market.quotes["payload"][0]
    assert (payload["event_ns"], payload["bid"], payload["offer"]) == (7, 10_000, 20_000)
    assert (payload["bid_size"], payload["offer_size"]) == (30_000, 40_000)
    assert market.orders["payload"]["symbol"][0] == payload["symbol"]
    assert market.symbols == {}


def test_long_symbols_get_a_short_name_each(tmp_path):
    paths = files(tmp_path, "1,BTCUSDT_UM,1,2,1,1\n2,€URO,1,2,1,1\n", "1,BTCUSD_PERP,B,1,1\n")
    market = read_market(**paths)
    assert sorted(market.symbols.values()) == ["BTCUSDT_UM", "BTCUSD_PERP", "€URO"]
    assert all(len(short) <= 8 and short.isascii() for short in market.symbols)
    assert sum(short.startswith("BTCUS~") for short in market.symbols) == 2


@given(st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=40))
def test_aliases_are_distinct(names):
    alias = aliases(names)
    assert len(set(alias.values())) == len(names)
    for name in names:
        fits = len(name) <= 8 and name.isascii()
        assert alias[name] == name if fits else len(alias[name]) <= 8 and alias[name].isascii()


def test_aliases_do_not_run_out():
    names = [f"LONGSYMBOL{number}" for number in range(3000)]
    alias = aliases(names)
    assert len(set(alias.values())) == 3000
    assert max(map(len, alias.values())) == 8


def test_records_of_one_time_are_published_together(tmp_path):
    paths = files(
        tmp_path,
        "".join(f"{t},A,1,2,1,1\n" for t in (1, 2, 2, 3)),
        "".join(f"{t},A,B,1,1\n" for t in (2, 3)),
    )
    recipe = {"kind": "market-csv", "inputs": "two", "tick": 2}
    built = build(recipe | {key: str(path) for key, path in paths.items()}, tmp_path / "in")
    assert built.plan.tolist() == [[0, 0], [3, 1], [4, 2]]


def test_the_recipe_holds_the_hash_of_its_sources(tmp_path):
    paths = files(tmp_path, "1,A,1,2,1,1\n", "1,A,B,1,1\n")
    recipe = {"kind": "market-csv"} | {key: str(path) for key, path in paths.items()}
    built = build(recipe, tmp_path / "a")
    assert len(built.recipe["quotes_sha256"]) == 64
    again = build(built.recipe, tmp_path / "b")
    assert [p.sha256 for p in again.partitions] == [p.sha256 for p in built.partitions]
    files(tmp_path, "1,A,1,3,1,1\n", "1,A,B,1,1\n")
    with pytest.raises(CsvError, match="changed: expected sha256"):
        build(built.recipe, tmp_path / "c")


def test_write_market_csv(tmp_path):
    paths = files(tmp_path, "1,A,1,2,1,1\n", "1,A,B,1,1\n")
    market = write_market_csv(**paths, path=tmp_path / "out.log")
    written = np.fromfile(tmp_path / "out.log", framed(MESSAGE))
    assert written.tobytes() == merged(market).tobytes()
    assert len(written) == 2


def test_keyed_csv(tmp_path):
    path = tmp_path / "keyed.csv"
    path.write_text(f"value,key\n{-(2**63)},{2**64 - 1}\n{2**63 - 1},0\n-0,5\n")
    built = build({"kind": "keyed-csv", "path": str(path)}, tmp_path)
    payload = np.fromfile(built.partitions[0].path, framed(COUNT_IN))["payload"]
    assert payload.tolist() == [(2**64 - 1, -(2**63)), (0, 2**63 - 1), (5, 0)]


@pytest.mark.parametrize(
    ("row", "column"), [("-1,1", "key"), (f"1,{2**63}", "value"), ("1,x", "value"), (",1", "key")]
)
def test_keyed_csv_errors(tmp_path, row, column):
    path = tmp_path / "keyed.csv"
    path.write_text(f"key,value\n1,1\n{row}\n")
    with pytest.raises(CsvError) as raised:
        build({"kind": "keyed-csv", "path": str(path)}, tmp_path)
    assert (raised.value.line, raised.value.column) == (3, column)


def _slow_answer(folder: Path) -> dict[str, tuple[int, int]]:
    """Judge the recorded market with Decimal, row by row."""
    events = []
    for name, first in (("quotes", 0), ("orders", 1)):
        with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as file:
            events += [(int(row["ts_ns"]), first, row) for row in csv.DictReader(file)]
    events.sort(key=lambda event: event[:2])
    latest, answer = {}, {}
    for _, is_order, row in events:
        if not is_order:
            latest[row["symbol"]] = decimal.Decimal(row["bid"]), decimal.Decimal(row["offer"])
            continue
        bid, offer = latest.get(row["symbol"], (decimal.Decimal(0), decimal.Decimal(0)))
        spread = offer - bid
        rejected = spread >= decimal.Decimal("0.05") or 40 * spread >= bid + offer
        rejects, orders = answer.get(row["symbol"], (0, 0))
        answer[row["symbol"]] = (rejects + rejected, orders + 1)
    return answer


def test_the_recorded_market_gives_the_known_answer(sample, judge, tmp_path):
    recipe = {"kind": "market-csv", "strict": True, "partitions": 3}
    recipe |= {key: str(sample / f"{key}.csv.gz") for key in ("quotes", "orders")}
    built = build(recipe, tmp_path)
    assert not any(built.warnings.values())
    answer = {}
    for part in built.partitions:
        for _, symbol, rejected in judge(np.fromfile(part.path, framed(MESSAGE))):
            short = symbol.decode().rstrip()
            name = built.symbols.get(short, short)
            rejects, orders = answer.get(name, (0, 0))
            answer[name] = (rejects + rejected, orders + 1)
    assert answer == ANSWER == _slow_answer(sample)
    assert built.recipe["price_decimals"] == 4
    assert [part.sha256 for part in built.partitions] == SAMPLE_DIGESTS


#: Of the partitions of the recorded market, as they were before prices had a unit of their own.
SAMPLE_DIGESTS = [
    "60547c242c63de190f3218a665f19dde84393b5a6bb63133670acb19d8a2224a",
    "b1448458503444c5366d571750a00375f6edec5d78154b6d451f6cb2caf508c6",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
]
