"""Files as people have them: odd values, other units, other formats; read rightly, or refused."""

import bz2
import gzip
import io
import lzma
import zipfile
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.generators import csv_table, plausibility
from tickproof.generators.csv_market import CsvError, read_market
from tickproof.generators.reading import Reading
from tickproof.generators.spread_rule import rejects, spread_limit

QUOTES = "ts_ns,symbol,bid,offer,bid_size,offer_size\n"
ORDERS = "ts_ns,symbol,side,price,qty\n"
NOON = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000


def market(tmp_path, quotes, orders, reading=Reading()):  # noqa: B008
    """Read rows given as text, or as tuples."""
    paths = tmp_path / "quotes.csv", tmp_path / "orders.csv"
    for path, header, rows in zip(paths, (QUOTES, ORDERS), (quotes, orders), strict=True):
        text = (
            rows if isinstance(rows, str) else "".join(",".join(map(str, r)) + "\n" for r in rows)
        )
        path.write_text(header + text)
    return read_market(*paths, reading)


def quotes(bid, offer, count=30, start=NOON, step=1_000_000, symbol="AAA"):
    return [(start + i * step, symbol, bid, offer, 1, 1) for i in range(count)]


def orders(price=10, count=30, start=NOON + 500, step=1_000_000, symbol="AAA"):
    return [(start + i * step, symbol, "BUY", price, 1) for i in range(count)]


def rejected(found):
    """Judge each order by the quote before it, record by record."""
    latest, verdicts = {}, []
    message = found.messages(0, len(found.order))
    quote = message.view(found.quotes.dtype)["payload"]
    limit = spread_limit(found.decimals)
    for row in quote:
        if row["kind"] == 2:
            latest[row["symbol"]] = int(row["bid"]), int(row["offer"])
        else:
            bid, offer = latest.get(row["symbol"], (0, 0))
            verdicts.append(offer - bid >= limit or 40 * (offer - bid) >= bid + offer)
    return sum(verdicts)


def kinds(found):
    return [type(doubt).__name__ for doubt in found.doubts]


# -- prices ------------------------------------------------------------------------------


def test_a_spread_just_below_five_cents_accepts(tmp_path):
    found = market(tmp_path, quotes("10.00004", "10.05000"), orders())
    assert (found.decimals, rejected(found)) == (5, 0)
    assert kinds(found) == ["OneVerdict"]


@pytest.mark.parametrize("form", ["{:.7f}", "{:.2e}"])
def test_prices_of_millionths_of_a_dollar(tmp_path, form):
    bid, offer = form.format(0.0000285), form.format(0.0000286)
    found = market(tmp_path, quotes(bid, offer), orders(bid))
    assert (found.decimals, rejected(found)) == (7, 0)
    assert found.quotes["payload"]["bid"][0] == 285


PRICE = st.decimals(0, 50, places=9, allow_nan=False).map(lambda price: f"{price:f}")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(PRICE, PRICE), min_size=1, max_size=20))
def test_the_rule_is_that_of_exact_numbers(tmp_path_factory, prices):
    folder = tmp_path_factory.mktemp("csv")
    rows = [(2 * i, "A", bid, offer, 1, 1) for i, (bid, offer) in enumerate(prices)]
    found = market(folder, rows, [(2 * i + 1, "A", "B", 1, 1) for i in range(len(prices))])
    expected = 0
    for bid, offer in prices:
        bid, offer = Decimal(bid), Decimal(offer)
        expected += offer - bid >= Decimal("0.05") or 40 * (offer - bid) >= bid + offer
    assert rejected(found) == expected


def test_decimal_places_may_differ_from_block_to_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "_BLOCK", 64)
    rows = [(i, "A", f"1.{'0' * (i % 9)}1", 2, 1, 1) for i in range(40)]
    found = market(tmp_path, rows, [(50, "A", "B", "3.5", 1)])
    bids = [int(Decimal(bid).scaleb(9)) for _, _, bid, *_ in rows]
    assert found.quotes["payload"]["bid"].tolist() == bids
    assert found.quotes["payload"]["offer"].tolist() == [2 * 10**9] * 40
    assert found.orders["payload"]["price"].tolist() == [3_500_000_000]


def test_prices_without_a_common_unit_are_refused_with_both_lines(tmp_path):
    with pytest.raises(
        CsvError, match=r"quotes.csv:2: column bid: '0.00000000000285' has 14 "
    ) as e:
        market(tmp_path, quotes("0.00000000000285", "0.00000000000286"), orders("64000.5"))
    assert "'64000.5' (orders.csv:2) is more than 2**53 units" in str(e.value)


def test_zeros_at_the_end_ask_for_nothing(tmp_path):
    found = market(tmp_path, quotes("39000.010000000000", "39000.02"), orders("39000.01000"))
    assert (found.decimals, found.finest) == (4, "")


# -- missing sides -----------------------------------------------------------------------

NOTHING = ["", "0", "0.00", "NaN", "nan", "9223372036854775807", "9223372036.854775807"]


@pytest.mark.parametrize("nothing", NOTHING)
@pytest.mark.parametrize(
    ("chosen", "no_offer", "no_bid"),
    [(None, 0, 1), ("zero", 0, 1), ("reject", 1, 1), ("skip", 0, 0)],
)
def test_a_missing_side_is_what_was_chosen(tmp_path, nothing, chosen, no_offer, no_bid):
    for bid, offer, expected in (("0.30", nothing, no_offer), (nothing, "0.31", no_bid)):
        rows = [(1, "A", "0.30", "0.31", 1, 1), (2, "A", bid, offer, 1, 1)]
        found = market(tmp_path, rows, [(3, "A", "B", "0.30", 1)], Reading(missing_side=chosen))
        assert rejected(found) == expected
        assert kinds(found) == (["MissingSides"] if chosen is None else [])
        assert len(found.quotes) == (1 if chosen == "skip" else 2)


@pytest.mark.parametrize("nothing", NOTHING)
def test_a_missing_side_can_be_refused(tmp_path, nothing):
    rows = [(1, "A", "0.30", "0.31", 1, 1), (2, "A", "0.30", nothing, 1, 1)]
    with pytest.raises(CsvError, match=r"quotes.csv:3: column offer: (no offer|empty)"):
        market(tmp_path, rows, orders(), Reading(missing_side="refuse"))


def test_missing_sides_are_told_with_figures(tmp_path):
    rows = [*quotes("0.30", "0", 10), *quotes("", "0.31", 4, NOON + HOUR)]
    found = market(tmp_path, rows, [*orders("0.30", 5), *orders("0.30", 5, NOON + HOUR + 500)])
    assert found.doubts[0] == plausibility.MissingSides(4, 10, 0, 14)
    assert "of 14 quotes 10 have a bid and no offer, 4 an offer and no bid" in str(found.doubts[0])


# -- ties --------------------------------------------------------------------------------


def test_ties(tmp_path):
    rows = [(1, "A", 1, 1.01, 1, 1), (2, "A", 1, 2, 1, 1)]
    for ties, expected in (("quote-first", 1), ("order-first", 0)):
        found = market(tmp_path, rows, [(2, "A", "B", 1, 1)], Reading(ties=ties))
        assert rejected(found) == expected
        assert found.times.tolist() == [1, 2, 2]


def test_ties_by_the_sequence_of_the_files(tmp_path):
    paths = tmp_path / "quotes.csv", tmp_path / "orders.csv"
    paths[0].write_text(f"{QUOTES[:-1]},seq\n5,A,1,2,1,1,12\n5,A,1,1.01,1,1,10\n")
    paths[1].write_text(f"{ORDERS[:-1]},seq\n5,A,B,1,1,11\n5,A,B,1,1,13\n4,A,B,1,1,99\n")
    found = read_market(*paths, Reading(ties="file"))
    ids = found.messages(0, 5).view(found.quotes.dtype)["payload"][["kind", "quote_id"]].tolist()
    assert ids == [(1, 1), (2, 2), (1, 2), (2, 1), (1, 3)]
    assert rejected(found) == 2  # the first without a quote, the last by the wide one
    with pytest.raises(CsvError, match="column seq: missing"):
        market(tmp_path, quotes(1, 2), orders(), Reading(ties="file"))


# -- values that take no part in the rule -------------------------------------------------


def test_sizes_in_scientific_notation(tmp_path):
    rows = "1,BTC,39000.01,39000.02,8e-06,2.0\n2,BTC,39000.01,39000.02,1.5E+2,1e-320\n"
    found = market(tmp_path, rows, "3,BTC,BUY,39000.01,0.5\n")
    assert found.quotes["payload"]["bid_size"].tolist() == [0, 1_500_000]
    assert (rejected(found), found.doubts) == (0, ())


@pytest.mark.parametrize("end", ["\n", "\n\n\n", ",,,,\n", "\r\n"])
def test_empty_lines_at_the_end_are_left_out(tmp_path, end):
    found = market(
        tmp_path, "1,BTC,1,1.01,1,2\n" + end.replace(",,,,", ",,,,,"), "2,BTC,B,1,1\n" + end
    )
    assert (len(found.quotes), len(found.orders), rejected(found)) == (1, 1, 0)


@pytest.mark.parametrize("block", [1 << 20, 64])
def test_an_empty_line_in_the_middle_is_refused(tmp_path, monkeypatch, block):
    monkeypatch.setattr(csv_table, "_BLOCK", block)
    rows = "1,BTC,1,1.01,1,2\n" * 3
    with pytest.raises(CsvError) as raised:
        market(tmp_path, rows + "\n" + rows, orders())
    assert (raised.value.line, raised.value.column) == (5, "ts_ns")


@pytest.mark.parametrize("price", ["", "nan", "9223372036854775807"])
@pytest.mark.parametrize("side", ["N", "", "none", "A", "bid"])
def test_orders_without_a_price_or_a_side(tmp_path, price, side):
    found = market(tmp_path, quotes(10, 10.01), [(NOON + 1, "AAA", side, price, 1)])
    assert found.orders["payload"]["price"].tolist() == [0]
    assert found.orders["payload"]["side"].tolist() == [2 if side == "A" else 1]


# -- plausibility ------------------------------------------------------------------------


def test_five_hours_apart(tmp_path):
    found = market(tmp_path, quotes(10, "10.01"), orders(10, start=NOON + 5 * HOUR))
    assert kinds(found) == ["TimesApart", "OneVerdict"]
    assert "30 of 30 orders do not lie within the time of the quotes" in str(found.doubts[0])
    assert "they begin 5 hours apart" in str(found.doubts[0])


def test_a_part_of_a_day_in_another_zone(tmp_path):
    """Quotes and orders of one session of six hours overlap though five hours apart."""
    step = 6 * HOUR // 30
    found = market(
        tmp_path, quotes(10, "10.01", step=step), orders(10, start=NOON + 5 * HOUR, step=step)
    )
    assert kinds(found)[0] == "TimesApart"
    assert "25 of 30 orders" in str(found.doubts[0])


@pytest.mark.parametrize(("factor", "part"), [(10**3, "thousandth"), (10**9, "billionth")])
def test_clocks_in_other_units(tmp_path, factor, part):
    rows = orders(10, start=NOON // factor)
    found = market(tmp_path, quotes(10, "10.01"), rows)
    assert kinds(found)[0] == "TimesApart"
    assert f"one clock is a {part} of the other" in str(found.doubts[0])


def test_no_symbol_in_common(tmp_path):
    found = market(tmp_path, quotes(10, "10.01", symbol="EUR/USD"), orders(10, symbol="EURUSD"))
    assert found.doubts[0] == plausibility.OtherSymbols(30, 30, "EURUSD", "EUR/USD")


@pytest.mark.parametrize(("unit", "power"), [(10_000, 2), (10**9, 7)])
def test_whole_prices(tmp_path, unit, power):
    found = market(tmp_path, quotes(10 * unit, 1001 * unit // 100), orders(10 * unit))
    assert found.doubts[0] == plausibility.WholePrices(60, power, unit // 100)
    assert kinds(found) == ["WholePrices", "OneVerdict"]


def test_two_clocks_in_one_file(tmp_path):
    rows = [
        q
        for pair in zip(quotes(10, "10.01", 30), quotes(10, "10.50", 30, NOON + HOUR), strict=True)
        for q in pair
    ]
    found = market(tmp_path, rows, orders())
    assert found.doubts[0] == plausibility.StepsBack("quotes", 29, 60, HOUR - 1_000_000)
    assert "steps back 29 times in 60 rows, by up to 1 hours" in str(found.doubts[0])


def test_orders_in_another_unit_of_price(tmp_path):
    found = market(tmp_path, quotes("10.00", "10.01"), orders("100050"))
    assert kinds(found) == ["OtherScale", "OneVerdict"]
    assert "9,999 times the price" in str(found.doubts[0]) or "1e+04" in str(found.doubts[0])


def test_a_plausible_market_raises_no_doubt(tmp_path):
    wide = [*quotes("10.00", "10.01"), *quotes("10.00", "10.50", start=NOON + HOUR)]
    found = market(tmp_path, wide, [*orders("10.01"), *orders("10.20", start=NOON + HOUR + 500)])
    assert (found.doubts, rejected(found)) == ((), 30)


def test_strict_makes_each_doubt_an_error(tmp_path):
    with pytest.raises(CsvError, match="orders do not lie within the time of the quotes"):
        market(tmp_path, quotes(10, "10.01"), orders(10, start=NOON + HOUR), Reading(strict=True))


def test_odd_but_right(tmp_path):
    """Locked, one-sided and zero-size quotes, orders of nothing, names that programs misread."""
    rows = [
        (1, "NULL", "25.00", "25.00", 0, 0),
        (1, "00017", "0", "9.5", 0, 1),
        (1, "17", "9", "9.01", 0, 0),
        (1, "BRK.A", "10", "0", 1, 0),
        (1, "BRKA", "0", "0", 0, 0),
        (1, "NA", "9.0000", "9.0499", 1, 1),
    ]
    names = ["NULL", "00017", "17", "BRK.A", "BRKA", "NA", "eur/usd"]
    found = market(tmp_path, rows, [(2, name, "BUY", "0.00", 0) for name in names])
    assert rejected(found) == 3  # by no bid, by neither, and without a quote


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40))
def test_latest_quotes(rows):
    symbols = np.array([symbol for symbol, _ in rows], np.uint64)
    is_quote = np.array([quote for _, quote in rows], bool)
    latest, expected = {}, []
    for place, (symbol, quote) in enumerate(rows):
        if quote:
            latest[symbol] = place
        else:
            expected.append(latest.get(symbol, -1))
    assert plausibility.latest_quotes(symbols, is_quote).tolist() == expected


@pytest.mark.parametrize("decimals", [4, 9, 18])
def test_five_cents_in_any_unit(decimals):
    limit = spread_limit(decimals)
    bid = np.array([0, 40 * limit, 40 * limit])
    found = rejects(bid, bid + np.array([limit - 1, limit, limit - 1]), np.ones(3), limit)
    assert found.tolist() == [True, True, False]


# -- formats -----------------------------------------------------------------------------

TABLE = QUOTES + "".join(f"{i},A,1.5,1.51,1,1\n" for i in range(50_000))


def packed(codec):
    """Return a function that packs text with a codec of pyarrow."""

    def pack(text):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as out:
            out.write(text)
        return sink.getvalue().to_pybytes()

    return pack


def zipped(text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("quotes.csv", text)
    return file.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, packed("zstd"), packed("lz4")])
@pytest.mark.parametrize("parts", [1, 2])
def test_packed_files_are_known_by_their_first_bytes(tmp_path, pack, parts):
    """Packed at once, or in parts one after the other, as parallel packers do."""
    text = TABLE.encode()
    middle = len(text) // 2 if parts == 2 else len(text)
    content = pack(text[:middle]) + (pack(text[middle:]) if parts == 2 else b"")
    (tmp_path / "quotes.csv").write_bytes(content)
    (tmp_path / "orders.csv").write_bytes(pack(f"{ORDERS}7,A,B,1.5,1\n".encode()))
    found = read_market(tmp_path / "quotes.csv", tmp_path / "orders.csv")
    assert (len(found.quotes), rejected(found)) == (50_000, 0)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, packed("zstd"), packed("lz4")])
@pytest.mark.parametrize("left", [0.3, 0.9])
def test_a_packed_file_cut_short_is_refused(tmp_path, pack, left):
    content = pack(TABLE.encode())
    (tmp_path / "quotes.csv").write_bytes(content[: int(len(content) * left)])
    with pytest.raises(CsvError, match=r"quotes.csv.*cannot be read"):
        read_market(tmp_path / "quotes.csv", tmp_path / "quotes.csv")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (zipped("text"), "a zip archive"), (lzma.compress(b"text"), "an xz file"),
        (b"ARROW1\0\0", "an Arrow file"), (b"x" * 257 + b"ustar", "a tar archive"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(tmp_path, content, name):
    path = tmp_path / "quotes.csv.gz"
    path.write_bytes(content)
    with pytest.raises(CsvError, match=f"{name}.*; expected CSV, plain or packed by gzip"):
        read_market(path, path)


def test_a_packed_file_that_grows_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "_MOST_UNPACKED", 1 << 20)
    rows = b"1,A,1,2,1,1\n" * 200_000
    (tmp_path / "quotes.csv").write_bytes(bz2.compress(QUOTES.encode() + rows))
    with pytest.raises(CsvError, match="expected at most 1,048,576 bytes when unpacked") as raised:
        read_market(tmp_path / "quotes.csv", tmp_path / "quotes.csv")
    assert raised.value.line < 150_000


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet(tmp_path):
    times = pa.array([NOON, NOON + 1, NOON + 2], pa.int64())
    quoted = parquet(
        tmp_path / "quotes",
        ts_ns=times.cast(pa.timestamp("ns", "Europe/Berlin")),
        symbol=pa.array(["A", "A", "B"]).dictionary_encode(),
        bid=[10.00004, 1e-05, 0.3],
        offer=pa.array([10.05, None, 0.31], pa.float64()),
        other=[[1], [2], [3]],
        bid_size=pa.array([1, 2, 3], pa.uint8()),
        offer_size=[8e-06, 1.0, 2.0],
    )
    ordered = parquet(
        tmp_path / "orders",
        ts_ns=times,
        symbol=["A", "A", "B"],
        side=["B", "S", None],
        price=pa.array([Decimal("10.00"), None, Decimal("0.30")]),
        qty=[1, 2, 3],
    )
    found = read_market(quoted, ordered)
    assert found.decimals == 5
    assert found.quotes["payload"]["bid"].tolist() == [1_000_004, 1, 30_000]
    assert found.quotes["payload"]["offer"].tolist() == [1_005_000, 0, 31_000]
    assert found.orders["payload"]["price"].tolist() == [1_000_000, 0, 30_000]
    assert found.times.tolist() == [NOON, NOON, NOON + 1, NOON + 1, NOON + 2, NOON + 2]
    assert rejected(found) == 0


def test_parquet_is_refused_with_its_row(tmp_path):
    good = {"ts_ns": [1, 2], "symbol": ["A", "A"], "bid_size": [1, 1], "offer_size": [1, 1]}
    path = parquet(tmp_path / "quotes", **good, bid=[1.0, 0.1 + 0.2], offer=[1.0, 1e6])
    with pytest.raises(CsvError, match=r"quotes:2: column bid: '0.30000000000000004' has 17 dec"):
        read_market(path, path)
    path = parquet(tmp_path / "quotes", **good, bid=[1.0, -1.0], offer=[1.0, 1.0])
    with pytest.raises(CsvError, match="quotes:2: column bid: negative price: '-1"):
        read_market(path, path)
    path = parquet(tmp_path / "quotes", **good, bid=[True, False], offer=[1.0, 1.0])
    with pytest.raises(CsvError, match="column bid: expected numbers or text, got bool"):
        read_market(path, path)
    path = parquet(tmp_path / "quotes", **good, bid=[1.0, 1.0])
    with pytest.raises(CsvError, match="column offer: missing"):
        read_market(path, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CsvError, match="cannot be read"):
        read_market(path, path)


def test_the_header_may_have_a_byte_order_mark_and_other_line_ends(tmp_path):
    (tmp_path / "q.csv").write_bytes(b"\xef\xbb\xbf" + TABLE.replace("\n", "\r\n").encode())
    (tmp_path / "o.csv").write_text('"ts_ns","symbol",side,price,qty\r\n"7","A","B","1.5","1"\r\n')
    assert rejected(read_market(tmp_path / "q.csv", tmp_path / "o.csv")) == 0
