"""Markets of a finer unit of price, and without an order to reject, played on a real engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tickproof.conformance.history import seal
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import judging
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.tiers import run_session
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Verdict

ENGINES = fixtures() / "engines"
QUOTES = "ts_ns,symbol,bid,offer,bid_size,offer_size\n"
ORDERS = "ts_ns,symbol,side,price,qty\n"
#: Symbol -> bid, offer, and what the rule says of it in exact numbers.
RULE = {
    "BELOW": ("10.00004", "10.05", 0),
    "AT": ("10.00004", "10.05004", 1),
    "CHEAP": ("0.0000285", "0.0000286", 0),
    "WIDE": ("0.0000285", "0.0000300", 1),
}


def _market(folder: Path, symbols: list[str]) -> dict[str, Path]:
    paths = {"quotes": folder / "quotes.csv", "orders": folder / "orders.csv"}
    rows = [(2 * i, name) for i, name in enumerate(symbols * 25)]
    quotes = "".join(f"{at},{name},{RULE[name][0]},{RULE[name][1]},1,1\n" for at, name in rows)
    orders = "".join(f"{at + 1},{name},B,1,1\n" for at, name in rows)
    paths["quotes"].write_text(QUOTES + quotes)
    paths["orders"].write_text(ORDERS + orders)
    return paths


def _judged(engine: str, request: Request) -> dict:
    outcomes = run_session(ENGINES / engine / "engine.toml", request, lambda _: None)
    return {outcome.requirement: outcome for outcome in outcomes}


@pytest.mark.parametrize("engine", ["single", "miniature"])
def test_the_rule_holds_in_a_finer_unit(tmp_path: Path, engine: str) -> None:
    only = ("MS-MERGED", "MS-REJECTS", "MS-TWO-STREAMS", "MS-TWO-REJECTS")
    market = _market(tmp_path, list(RULE))
    found = _judged(engine, Request(out=tmp_path / "out", seed=3, only=only, **market))

    assert {outcome.verdict for outcome in found.values()} == {Verdict.PASS}
    expected = {name: [25 * rejects, 25] for name, (*_, rejects) in RULE.items()}
    assert found["MS-MERGED"].evidence["by_symbol"] == expected
    assert found["MS-REJECTS"].evidence["by_symbol"] == expected

    # An engine that goes on by ten-thousandths would be found out: so is a record that does.
    run = Path(found["MS-MERGED"].run)
    record = json.loads((run / "run.json").read_text())
    assert record["input"]["recipe"]["price_decimals"] == 7
    record["input"]["recipe"]["price_decimals"] = 4
    (run / "run.json").write_text(json.dumps(record))
    seal.write(run, {})
    (again,) = (one for one in judging.recheck(run) if one.requirement == "MS-MERGED")
    assert (again.verdict, again.reason) == (Verdict.FAIL, "wrong-verdict")


def test_a_market_without_rejects_asks_for_none(tmp_path: Path) -> None:
    market = _market(tmp_path, ["BELOW", "CHEAP"])
    request = Request(out=tmp_path / "out", seed=3, only=("MS-MERGED", "MS-REJECTS"), **market)
    found = _judged("single", request)

    assert found["MS-MERGED"].verdict is Verdict.PASS
    assert found["MS-REJECTS"].verdict is Verdict.NOT_CLAIMED
    assert found["MS-REJECTS"].actual.startswith(DOES_NOT_APPLY)
