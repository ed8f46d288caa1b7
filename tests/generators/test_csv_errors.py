"""Each kind of wrong file gives one error with its line and column."""

import gzip

import pytest

from tickproof.generators.csv_market import CsvError, read_market

QUOTES = b"ts_ns,symbol,bid,offer,bid_size,offer_size\n"
ORDERS = b"ts_ns,symbol,side,price,qty\n"
GOOD_QUOTES = QUOTES + b"1,A,1,2,1,1\n" * 3
GOOD_ORDERS = ORDERS + b"1,A,B,1,1\n" * 3


def error(tmp_path, quotes=GOOD_QUOTES, orders=GOOD_ORDERS):
    paths = {"quotes": tmp_path / "quotes.csv", "orders": tmp_path / "orders.csv"}
    paths["quotes"].write_bytes(quotes)
    paths["orders"].write_bytes(orders)
    with pytest.raises(CsvError) as raised:
        read_market(**paths)
    return raised.value


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        (b"x,A,1,2,1,1", "ts_ns", "not a whole number of nanoseconds: 'x'"),
        (b"1.5,A,1,2,1,1", "ts_ns", "not a whole number"),
        (b"-5,A,1,2,1,1", "ts_ns", "expected a time from 0"),
        (b"99999999999999999999,A,1,2,1,1", "ts_ns", "expected a time"),
        (b",A,1,2,1,1", "ts_ns", "empty"),
        (b"1,,1,2,1,1", "symbol", "empty"),
        (b"1,  ,1,2,1,1", "symbol", "empty"),
        (b"1,A\xff,1,2,1,1", "symbol", "not UTF-8"),
        (b"1,A\x07,1,2,1,1", "symbol", "expected printable characters"),
        (b"2024-08-09T10:00:00Z,A,1,2,1,1", "ts_ns", "not a whole number of nanoseconds"),
        (b"1.7e18,A,1,2,1,1", "ts_ns", "not a whole number of nanoseconds: '1.7e18'"),
        (b"1,A,inf,2,1,1", "bid", "not a decimal number: 'inf'"),
        (b"1,A,1e,2,1,1", "bid", "not a decimal number: '1e'"),
        (b'1,A,"1,000.5",2,1,1', "bid", "not a decimal number: '1,000.5'"),
        (b"1,A,1_0,2,1,1", "bid", "not a decimal number: '1_0'"),
        (b"1,A,1e-19,2,1,1", "bid", "more than 18 decimal places: '1e-19'"),
        (b"1,A,1,92233720368547758.07,1,1", "offer", "price above 2**53 units of its last"),
        (b"1,A,1,18446744073709551616,1,1", "offer", "price above 2**53 units of its last"),
        (
            b"1,A,0.00000000000001,2000,1,1",
            "bid",
            "has 14 decimal places, but '2000' (quotes.csv:5)",
        ),
        (b"1,A,\xff,2,1,1", "bid", "not UTF-8"),
        (b"1,A,-0.01,2,1,1", "bid", "negative price: '-0.01'"),
        (b"1,A,1,900719925475,1,1", "offer", "price above"),
        (b"1,A,1,2,-1,1", "bid_size", "negative size"),
        (b"1,A,1,2,1,many", "offer_size", "not a decimal number: 'many'"),
        (b'1,A,1,2,1,"1\n1,A,1,2,1,1', "offer_size", "a line break in quotes"),
    ],
)
def test_quotes(tmp_path, row, column, message):
    got = error(tmp_path, quotes=GOOD_QUOTES + row + b"\n" + b"2,A,1,2,1,1\n")
    assert (got.path.name, got.line, got.column) == ("quotes.csv", 5, column)
    assert message in got.message
    assert f"quotes.csv:5: column {column}: " in str(got)


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        (b"1,A,HOLD,1,1", "side", "unknown side 'HOLD': expected BUY, B, BID or 1; SELL"),
        (b"1,A,B,1.0.0,1", "price", "not a decimal number: '1.0.0'"),
        (b"1,A,B,-1,1", "price", "negative price"),
        (b"1,A,B,1,", "qty", "empty"),
    ],
)
def test_orders(tmp_path, row, column, message):
    got = error(tmp_path, orders=GOOD_ORDERS + row + b"\n")
    assert (got.path.name, got.line, got.column) == ("orders.csv", 5, column)
    assert message in got.message


def test_the_first_of_several_errors_is_told(tmp_path):
    rows = b"1,A,1,2,1,1\n2,A,1,x,1,1\n3,A,x,1,1,1\n4,A\n"
    got = error(tmp_path, quotes=QUOTES + rows)
    assert (got.line, got.column) == (3, "offer")


def test_an_error_deep_in_the_file_has_its_line(tmp_path):
    rows = b"1,A,1,2,1,1\n" * 300_000
    got = error(tmp_path, quotes=QUOTES + rows + b"1,A,oops,2,1,1\n")
    assert (got.line, got.column) == (300_002, "bid")


@pytest.mark.parametrize("row", [b"1,A,1,2,1", b"1,A,1,2,1,1,1"])
@pytest.mark.parametrize("before", [3, 200_000])
def test_a_row_of_another_width(tmp_path, row, before):
    rows = b"1,A,1,2,1,1\n" * before
    got = error(tmp_path, quotes=QUOTES + rows + row + b"\n")
    assert got.line == before + 2
    assert f"expected 6 columns, got {row.count(b',') + 1}" in got.message


def test_an_unclosed_quote_in_a_column_that_nobody_reads(tmp_path):
    header = QUOTES.replace(b"\n", b",note\n")
    got = error(tmp_path, quotes=header + b'1,A,1,2,1,1,ok\n2,A,1,2,1,1,"\n3,A,1,2,1,1,ok\n')
    assert (got.line, got.column) == (3, "note")


@pytest.mark.parametrize(
    ("content", "line", "column", "message"),
    [
        (b"", 1, "", "empty: expected a header with ts_ns, symbol"),
        (QUOTES, 2, "ts_ns", "empty: expected at least one row"),
        (b"ts_ns,symbol,bid,bid_size,offer_size\n1,A,1,1,1\n", 1, "offer", "missing: expected"),
        (QUOTES.replace(b"\n", b",bid\n") + b"1,A,1,2,1,1,1\n", 1, "bid", "there twice"),
        (GOOD_QUOTES.decode().encode("utf-16"), 1, "", "not UTF-8"),
        (b"\x1f\x8b\x08\x00garbage", 0, "", "cannot be read"),
    ],
)
def test_a_file_that_is_no_such_table(tmp_path, content, line, column, message):
    got = error(tmp_path, quotes=content)
    assert (got.line, got.column) == (line, column)
    assert message in got.message


@pytest.mark.parametrize("rows", [1, 200_000])
def test_a_gzip_file_cut_short(tmp_path, rows):
    packed = gzip.compress(QUOTES + b"".join(b"%d,A,1,2,1,1\n" % n for n in range(rows)))
    got = error(tmp_path, quotes=packed[:-12])
    assert "cannot be read" in got.message
    assert got.line <= rows + 2


def test_a_missing_file(tmp_path):
    with pytest.raises(CsvError, match="cannot be read: No such file"):
        read_market(tmp_path / "none.csv", tmp_path / "none.csv")
