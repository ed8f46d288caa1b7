"""The floor: the null engine answers what a measurement looks at, by the same schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kafka.presence import expect_broker
from tests.long import few
from tickproof.conformance import apps
from tickproof.conformance.cli.main import main
from tickproof.conformance.engines.spec import load
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.latency.samples import answers
from tickproof.conformance.performance.rounds import floor_scenario, null_engine
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.isolated import play_isolated
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.generators.layouts import VERDICT

MINIATURE, OVER_KAFKA = (
    load(fixtures() / "engines" / name) for name in ("miniature", "kafka-miniature")
)
PACE = Pace(1_000, 0.2, (0,), (1,), 5)
MARKET = {"kind": "market", "seed": 2, "records": 20_000, "partitions": 4, "tick": 20,
          "probe_one_in": 10, "symbols": 30}  # fmt: skip


def scenario(app="count", params=None, recipe=None, pace=PACE):
    keyed = {"kind": "keyed", "keys": 9, "seed": 4, "records": 20_000, "partitions": 3, "tick": 20}
    kill = KillEngineStep("fetched", fraction=0.5)
    return Scenario(
        "s",
        app,
        params or {"emit": "every"},
        recipe or keyed,
        workers=3,
        rate=20_000,
        faults=(kill,),
        pace=pace,
    )


@pytest.mark.parametrize("app", ["passthrough", "double", "count"])
def test_an_app_that_answers_every_record_is_stood_for_by_as_much_output(app):
    recipe = {"kind": "numbers", "seed": 4, "records": 20_000, "partitions": 3, "tick": 20}
    if app == "passthrough":
        recipe |= {"kind": "payloads", "size": 77}
    made = scenario(app, {"emit": "every"} if app == "count" else {}, recipe)
    found = floor_scenario(made)
    assert found.app == "passthrough" and found.params == {}
    assert apps.output_size(found) == apps.output_size(made) == found.recipe["size"]
    assert found.faults == ()
    assert (found.rate, found.pace) == (made.rate, made.pace)
    for key in ("seed", "records", "partitions", "tick"):
        assert found.recipe[key] == recipe[key]


def test_market_spread_stays_itself():
    made = scenario("market-spread", {"inputs": "merged", "emit": "rejects"}, MARKET)
    found = floor_scenario(made)
    assert replace(found, name=made.name, faults=made.faults) == made


def test_seconds_shorten_it_to_whole_ticks_and_never_lengthen_it():
    made = scenario()
    assert floor_scenario(made, 0.30005).recipe["records"] == 10_000
    assert floor_scenario(made, 60).recipe["records"] == 20_000


@pytest.mark.parametrize("change", [{"pace": None}, {"rate": None}])
def test_without_a_pace_there_is_no_floor(change):
    with pytest.raises(ValueError, match="scenario s: expected a pace and a rate"):
        floor_scenario(replace(scenario(), **change))


def test_the_null_engine_is_no_engine_to_be_judged(capsys):
    assert null_engine(MINIATURE).name == "floor"
    assert null_engine(MINIATURE).kafka is None
    assert null_engine(OVER_KAFKA).kafka is not None
    with pytest.raises(SystemExit) as ended:
        main(["engines"])
    assert not ended.value.code
    said = capsys.readouterr().out
    assert "miniature" in said
    assert "floor" not in said


def played(folder, made, beside=MINIATURE):
    play_isolated(floor_scenario(made), null_engine(beside), folder, seed=1)
    history = History(folder)
    assert history.ended.how == "completed", history.ended
    assert len(history.all(events.Drained)) == 1
    return history


@pytest.fixture(scope="module")
def transports():
    """Give engines beside which a floor is measured, by what they speak."""
    expect_broker()
    shared_broker.address()
    return {"log": MINIATURE, "kafka": OVER_KAFKA}


@pytest.mark.parametrize("transport", ["log", "kafka"])
def test_every_record_comes_back(transport, transports, tmp_path):
    history = played(tmp_path / "run", scenario(pace=Pace(10_000, 0.2)), transports[transport])
    found = answers(history)
    assert len(found) == 20_000 and found.answered.all()
    assert (found.intended_ns < found.published_ns).all()
    # Nothing is due before somebody is there to answer.
    assert history.record.pace.t0_ns > history.all(events.Connected)[0].t_ns
    given = np.concatenate(history.inputs(np.dtype("V24")))
    back = history.outputs(np.dtype("V24")).payloads
    assert sorted(given.tolist()) == sorted(back.tolist())


@pytest.mark.parametrize(
    ("inputs", "emit"), few([("two", "rejects"), ("merged", "rejects"), ("merged", "verdicts")])
)
def test_orders_that_are_measured_are_answered(tmp_path, inputs, emit):
    recipe = MARKET | {"inputs": inputs}
    made = scenario("market-spread", {"inputs": inputs, "emit": emit}, recipe, Pace(1_000, 0.2))
    history = played(tmp_path / "run", made)
    found = answers(history)
    asked = found.tagged if emit == "rejects" else np.ones(len(found), bool)
    assert asked.sum() > 500
    assert found.answered[asked].all()
    back = history.outputs(VERDICT).payloads
    assert len(back) == len(np.unique(back["order_id"])) == asked.sum()
