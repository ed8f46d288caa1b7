"""Runs that were played: both reckonings agree on what real processes left behind."""

from __future__ import annotations

import numpy as np
import pytest

from tests.latency.second_reckoning import reckon
from tests.long import few
from tickproof.conformance import resources
from tickproof.conformance.engines import spec
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency.samples import NEVER, answers, latencies
from tickproof.conformance.runner.isolated import play_isolated
from tickproof.conformance.scenario import Pace, Scenario

RECORDS = {"seed": 11, "records": 9_000, "partitions": 3, "tick": 20}
CASES = {
    "passthrough": ({}, RECORDS | {"kind": "payloads", "size": 40}),
    "count": ({"emit": "every"}, RECORDS | {"kind": "keyed", "keys": 300}),
    "market-spread": (
        {"inputs": "merged", "emit": "rejects"},
        RECORDS | {"kind": "market", "symbols": 30, "probe_one_in": 10, "reject_one_in": 200},
    ),
}


@pytest.mark.parametrize("app", few(CASES, 1))
def test_both_reckonings_agree_record_for_record(tmp_path, app):
    params, recipe = CASES[app]
    scenario = Scenario(
        app, app, params, recipe, rate=20_000, pace=Pace(tick_us=1_000, warm_up_s=0.1)
    )
    engine = spec.load(resources.fixtures() / "engines" / "miniature")
    play_isolated(scenario, engine, tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    assert history.ended.how == "completed"

    found, rows = answers(history), reckon(history.folder)
    for name, expected in zip(
        ("intended_ns", "published_ns", "fetched_ns", "arrived_ns", "tagged"),
        zip(*rows, strict=True),
        strict=True,
    ):
        np.testing.assert_array_equal(getattr(found, name), expected, name)

    assert found.answered.all() and (found.fetched_ns != NEVER).all()
    for time in (found.published_ns, found.fetched_ns, found.arrived_ns):
        assert (time >= found.intended_ns).all()
    assert (latencies(found) > 0).all()
    if app == "market-spread":
        # 4,485 orders: one in 10 is a probe, one in 200 is to be rejected by its quote.
        assert found.tagged.sum() in (448, 449)
        assert found.tagged.sum() + 18 <= len(found) <= found.tagged.sum() + 23
    else:
        assert len(found) == 9_000 and not found.tagged.any()
        assert np.ptp(found.intended_ns) == 449 * 1_000_000
