"""The miniature on a recorded market, a worker killed in the middle: the known answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.long import LONG
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.tiers import run_session
from tickproof.conformance.verdicts import Verdict

MINIATURE = fixtures() / "engines" / "miniature" / "engine.toml"
SAMPLE = os.environ.get("TICKPROOF_SAMPLE")

#: Symbol -> rejected orders, orders. Two independent computations over the two files agree.
KNOWN = {
    "BTCUSDT": [5_700, 19_904],
    "ETHUSDT": [2_345, 14_515],
    "BTCUSDT_UM": [21_313, 21_313],
    "ETHUSDT_UM": [1_033, 14_076],
    "BTCUSD_PERP": [5_235, 5_235],
    "ETHUSD_PERP": [174, 3_595],
}


@LONG
@pytest.mark.skipif(
    not SAMPLE, reason="TICKPROOF_SAMPLE names no folder with quotes.csv.gz and orders.csv.gz"
)
def test_the_counts_by_symbol_are_the_known_ones_though_a_worker_dies(tmp_path: Path) -> None:
    request = Request(
        out=tmp_path,
        seed=11,
        only=("MS-MERGED", "EO-MARKET-WORKER-DEATH"),
        quotes=Path(SAMPLE) / "quotes.csv.gz",
        orders=Path(SAMPLE) / "orders.csv.gz",
    )
    outcomes = {
        outcome.requirement: outcome for outcome in run_session(MINIATURE, request, lambda _: None)
    }

    assert {outcome.verdict for outcome in outcomes.values()} == {Verdict.PASS}
    for outcome in outcomes.values():
        assert outcome.evidence["by_symbol"] == KNOWN
    assert sum(rejects for rejects, _ in KNOWN.values()) == 35_800
    (fault,) = outcomes["EO-MARKET-WORKER-DEATH"].evidence["faults"]
    assert 0.3 < fault["fetched"] / 414_569 < 0.7
    assert fault["in_flight"] > 0
