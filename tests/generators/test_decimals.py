import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.generators.csv_table import Fields
from tickproof.generators.decimals import parse

DIGITS = st.text("0123456789", max_size=22)
PLAIN = st.builds(
    lambda sign, whole, point, places: sign + whole + point + places,
    st.sampled_from(["", "+", "-"]),
    DIGITS,
    st.sampled_from(["", "."]),
    DIGITS,
).filter(lambda text: any(c.isdigit() for c in text))


def fields(*texts: str) -> Fields:
    return Fields.of(pa.array([text.encode() for text in texts], pa.binary()))


@given(st.lists(PLAIN, min_size=1, max_size=20), st.sampled_from([1, 4, 9]))
def test_parses_as_decimal_does(texts, decimals):
    got = parse(fields(*texts), decimals)
    for row, text in enumerate(texts):
        with decimal.localcontext(prec=200):
            exact = abs(decimal.Decimal(text)).scaleb(decimals)
            rounded = int(exact.to_integral_value(decimal.ROUND_HALF_EVEN))
        assert not got.bad[row]
        assert got.negative[row] == text.startswith("-")
        assert got.inexact[row] == (exact != int(exact))
        assert got.huge[row] == (rounded > 2**64 - 1)
        if not got.huge[row]:
            assert got.value[row] == rounded


@given(st.lists(st.text("0123456789+-.eEx, \u00e9", max_size=8), min_size=1, max_size=20))
def test_refuses_all_else(texts):
    got = parse(fields(*texts), 4)
    for row, text in enumerate(texts):
        text = text.strip(" ")
        body = text[1:] if text[:1] in ("+", "-") else text
        whole, _, places = body.partition(".")
        plain = (whole + places).isascii() and (whole + places).isdigit()
        assert got.bad[row] == (not plain)


@pytest.mark.parametrize(
    ("text", "value", "inexact"),
    [
        ("0.00005", 0, True),
        ("0.00015", 2, True),
        ("0.00025", 2, True),
        ("0.000250000001", 3, True),
        ("1.10000000", 11000, False),
        ("  61837.63 ", 618376300, False),
        (".5", 5000, False),
        ("5.", 50000, False),
    ],
)
def test_rounds_half_even(text, value, inexact):
    got = parse(fields(text), 4)
    assert (got.value[0], bool(got.inexact[0]), bool(got.bad[0])) == (value, inexact, False)


@given(st.lists(st.sampled_from(["12", "1.0", "18446744073709551615", "18446744073709551616"])))
def test_whole_numbers_take_no_point(texts):
    got = parse(fields(*texts), 0)
    assert got.bad.tolist() == ["." in text for text in texts]
    assert got.huge.tolist() == [text.endswith("616") for text in texts]


def test_a_number_longer_than_any_price_is_bad():
    assert parse(fields("1" * 65, "0" * 64), 4).bad.tolist() == [True, False]


def test_the_empty_column():
    assert len(parse(fields(), 4).value) == 0
    assert parse(fields("", ""), 4).bad.tolist() == [True, True]
