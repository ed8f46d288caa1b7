"""A recorded market as input: read, and refused, before anything starts."""

from __future__ import annotations

import pytest

QUOTES = "ts_ns,symbol,bid,offer,bid_size,offer_size"
ORDERS = "ts_ns,symbol,side,price,qty"


def test_a_wrong_market_is_wrong_usage_and_long_symbols_are_listed(
    tickproof, engine, session, tmp_path
):
    (tmp_path / "q.csv").write_text(f"{QUOTES}\n1,LONGSYMBOL,10.0,10.1,1,1\n2,ABC,1x,10,1,1\n")
    (tmp_path / "o.csv").write_text(f"{ORDERS}\n2,ABC,BUY,10,1\n")
    words = ("run", engine(), "--quotes", "q.csv", "--orders", "o.csv", "--only", "MS-MERGED")
    code, _, err = tickproof(*words)

    assert code == 2
    assert "q.csv:3: column bid: not a decimal number: '1x'" in err
    assert session.requests == []

    (tmp_path / "q.csv").write_text(f"{QUOTES}\n1,LONGSYMBOL,10.0,10.1,1,1\n2,ABC,10,9,1,1\n")
    _, out, _ = tickproof(*words)
    assert "symbol LONGSYMBOL is LONGS~" in out
    assert "warning: " in out
    assert len(session.requests) == 1


#: Quotes and orders that are an hour apart.
APART = (
    QUOTES + "".join(f"\n{10**18 + i},ABC,10.00,10.01,1,1" for i in range(20)),
    ORDERS + "".join(f"\n{10**18 + 3600 * 10**9 + i},ABC,N,,1" for i in range(20)) + "\n\n",
)
FINE = (QUOTES + "\n1,ABC,10.00004,10.05,1,1", ORDERS + "\n2,ABC,BUY,10,1")
MARKET = '[apps.market-spread]\ninputs = ["merged"]\nemit = ["verdicts"]\n'


def _write(texts):
    for name, text in zip(("q.csv", "o.csv"), texts, strict=True):
        with open(name, "w") as file:  # noqa: PTH123
            file.write(text)


def _commands(engine):
    yield ("run", engine, "--quotes", "q.csv", "--orders", "o.csv", "--only", "MS-MERGED")
    yield ("generate", "market", "--out", "m.log", "--from-csv", "q.csv", "o.csv")


def test_doubts_are_warnings_with_figures_and_errors_with_strict(tickproof, engine, session):
    for words in _commands(engine()):
        _write(APART)
        status, out, _ = tickproof(*words)
        assert "warning: 20 of 20 orders do not lie within the time of the quotes" in out
        assert "warning: none of 20 orders is rejected" in out
        assert status == 0

        status, out, err = tickproof(*words, "--strict")
        assert (status, "warning" in out) == (2, False)
        assert "20 of 20 orders do not lie within the time of the quotes" in err


def test_a_recipe_of_a_recorded_market_is_doubted_too(tickproof, tmp_path):
    _write(APART)
    (tmp_path / "r.json").write_text('{"kind":"market-csv","quotes":"q.csv","orders":"o.csv"}')
    status, out, _ = tickproof("generate", "partitions", "r.json", "--out", "in")
    assert (status, "warning: 20 of 20 orders do not lie" in out) == (0, True)


def test_missing_sides_and_ties_are_chosen(tickproof, engine, session):
    _write((QUOTES + "\n1,ABC,10,,1,1", ORDERS + "\n1,ABC,BUY,10,1"))
    for words in _commands(engine()):
        _, out, _ = tickproof(*words)
        assert "of 1 quotes 1 have a bid and no offer" in out
        status, out, _ = tickproof(*words, "--missing-side", "reject", "--ties", "order-first")
        assert (status, "warning" in out) == (0, False)
        status, _, err = tickproof(*words, "--missing-side", "refuse")
        assert (status, "q.csv:2: column offer: empty" in err) == (2, True)
    (request,) = session.requests[1:]
    assert (request.missing_side, request.ties) == ("reject", "order-first")


@pytest.mark.parametrize("option", ["--strict", "--missing-side=skip", "--ties=file"])
def test_choices_without_a_market_are_wrong_usage(tickproof, engine, option):
    for words in (("run", engine()), ("generate", "market", "--out", "m.log")):
        status, _, err = tickproof(*words, option)
        assert (status, "expected together with" in err) == (2, True)


def test_a_finer_unit_of_price_is_for_engines_that_take_it(tickproof, engine, session):
    _write(FINE)
    path = engine()
    words = next(_commands(path))
    assert tickproof(*words)[0] == 0  # it has no app with prices

    path.write_text(path.read_text() + MARKET)
    status, _, err = tickproof(*words)
    assert (status, len(session.requests)) == (2, 1)
    assert "q.csv:2: column bid: '10.00004' has 5 decimal places; " in err
    assert "expected finer_prices = true under [apps.market-spread]" in err

    path.write_text(path.read_text() + "finer_prices = true\n")
    status, out, _ = tickproof(*words)
    assert (status, "prices in 10^-5 dollars, five cents are 5,000" in out) == (0, True)
