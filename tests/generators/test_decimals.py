import decimal
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.generators.csv_table import Fields
from tickproof.generators.decimals import parse

DIGITS = st.text("0123456789", max_size=22)
SIGN = st.sampled_from(["", "+", "-"])
PLAIN = st.builds(
    lambda sign, whole, point, places: sign + whole + point + places,
    SIGN,
    DIGITS,
    st.sampled_from(["", "."]),
    DIGITS,
).filter(lambda text: any(c.isdigit() for c in text))
SCIENTIFIC = st.builds(
    lambda sign, head, places, e, power: f"{sign}{head}{places}{e}{power}",
    SIGN,
    st.integers(0, 9),
    st.one_of(st.just(""), st.text("0123456789", max_size=17).map(".{}".format)),
    st.sampled_from("eE"),
    st.one_of(st.integers(-30, 30).map(str), st.integers(0, 40).map("+{:02}".format)),
)


def fields(*texts: str) -> Fields:
    return Fields.of(pa.array([text.encode() for text in texts], pa.binary()))


@given(
    st.lists(st.one_of(PLAIN, SCIENTIFIC), min_size=1, max_size=20), st.sampled_from([1, 4, 9, 18])
)
def test_parses_as_decimal_does(texts, decimals):
    got = parse(fields(*texts), decimals)
    for row, text in enumerate(texts):
        with decimal.localcontext(prec=200):
            exact = abs(decimal.Decimal(text)).scaleb(decimals)
            rounded = int(exact.to_integral_value(decimal.ROUND_HALF_EVEN))
        assert not got.bad[row]
        assert got.negative[row] == text.startswith("-")
        assert got.places[row] == _places(text)
        assert got.huge[row] == (rounded > 2**64 - 1)
        if not got.huge[row]:
            assert got.value[row] == rounded


def _places(text: str) -> int:
    """Count the decimal places of a number without zeros at its end."""
    with decimal.localcontext(prec=200):
        number = decimal.Decimal(text).normalize()
    return max(0, -number.as_tuple().exponent) if number else 0


@given(st.lists(st.text("0123456789+-.eEx, \u00e9", max_size=8), min_size=1, max_size=20))
def test_refuses_all_else(texts):
    got = parse(fields(*texts), 4)
    for row, text in enumerate(texts):
        text = text.strip(" ")
        body = text[1:] if text[:1] in ("+", "-") else text
        whole, _, places = body.partition(".")
        plain = (whole + places).isascii() and (whole + places).isdigit()
        assert got.bad[row] == (
            not plain and not re.fullmatch(r"(\d+\.?\d*|\.\d+)e[+-]?\d+", body, re.A | re.I)
        )


@pytest.mark.parametrize(
    ("text", "value", "places"),
    [
        ("0.00005", 0, 5),
        ("0.00015", 2, 5),
        ("0.00025", 2, 5),
        ("0.000250000001", 3, 12),
        ("1.10000000", 11000, 1),
        ("  61837.63 ", 618376300, 2),
        (".5", 5000, 1),
        ("5.", 50000, 0),
        ("8e-06", 0, 6),
        ("2.5E-4", 2, 5),
        ("1.50e3", 15000000, 0),
        ("0e9999", 0, 0),
        ("1e-9999", 0, 100),
    ],
)
def test_rounds_half_even(text, value, places):
    got = parse(fields(text), 4)
    assert (got.value[0], got.places[0], bool(got.bad[0])) == (value, places, False)


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
