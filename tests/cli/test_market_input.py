"""A recorded market as input: read, and refused, before anything starts."""

from __future__ import annotations

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
    assert "q.csv:3: column bid: not a plain decimal number: '1x'" in err
    assert session.requests == []

    (tmp_path / "q.csv").write_text(f"{QUOTES}\n1,LONGSYMBOL,10.0,10.1,1,1\n2,ABC,10,9,1,1\n")
    _, out, _ = tickproof(*words)
    assert "symbol LONGSYMBOL is LONGS~" in out
    assert "warning: " in out
    assert len(session.requests) == 1
