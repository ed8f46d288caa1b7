"""Scenarios are drawn from the seed alone, and are data."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace

import pytest

from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import CATALOG, draw, judges_of
from tickproof.conformance.suites.families.ms_market_spread import drawn_boundaries
from tickproof.conformance.suites.scenarios import Context
from tickproof.generators.spread_rule import MAX_PRICE, RATIO, decimals_of, spread_limit

QUICK = Context(1, freshness_s=5.0)


@pytest.mark.parametrize("name", CATALOG)
def test_scenario_comes_back_from_its_json(name):
    drawn = draw(name, QUICK)
    assert drawn.name == name
    assert Scenario.from_json(json.loads(json.dumps(drawn.to_json()))) == drawn


@pytest.mark.parametrize("name", CATALOG)
def test_same_seed_gives_the_same_scenario_and_another_another(name):
    drawn, other = draw(name, QUICK), draw(name, Context(2, freshness_s=5.0))
    assert draw(name, QUICK) == drawn
    assert other.recipe["seed"] != drawn.recipe["seed"]
    aimed = [step for step in drawn.faults if 0 < step.fraction < 1]
    if aimed:
        assert [s.fraction for s in other.faults] != [s.fraction for s in drawn.faults]


def test_an_engine_that_takes_finer_prices_is_given_some():
    drawn = [
        draw("market-merged-verdicts", Context(seed, finer_prices=True)).recipe
        for seed in range(20)
    ]
    assert {recipe["price_decimals"] for recipe in drawn} == {5, 7, 18}
    assert decimals_of(draw("market-merged-verdicts", QUICK).recipe) == 4


@pytest.mark.parametrize("decimals", [4, 16, 17])
@pytest.mark.parametrize("seed", range(9))
def test_quotes_are_drawn_at_the_limits_and_beside_them(decimals, seed):
    limit = spread_limit(decimals)
    quotes = drawn_boundaries(random.Random(seed), limit)
    absolute = [offer - bid for name, (bid, offer) in quotes.items() if name[0] == "A"]
    assert set(absolute) == {limit - 1, limit, limit + 1}
    at_ratio = [(bid, offer) for name, (bid, offer) in quotes.items() if name[0] == "R"]
    assert all(
        bid >= 0 and offer <= MAX_PRICE and len(name) <= 8 for name, (bid, offer) in quotes.items()
    )
    assert all(offer - bid < limit for bid, offer in at_ratio)
    assert {bid + offer - RATIO * (offer - bid) for bid, offer in at_ratio} == {-1, 0, 1}
    in_floats = [float(RATIO) * (offer - bid) >= float(bid + offer) for bid, offer in at_ratio]
    right = [RATIO * (offer - bid) >= bid + offer for bid, offer in at_ratio]
    assert (in_floats == right) is (decimals == 4)


@pytest.mark.parametrize("name", CATALOG)
def test_a_secret_changes_the_input_and_nothing_else(name):
    drawn, secret = draw(name, QUICK), draw(name, replace(QUICK, secret="c0ffee"))
    assert secret.recipe == drawn.recipe | {"secret": "c0ffee"}
    assert replace(secret, recipe=drawn.recipe) == drawn


def test_scenarios_of_one_seed_have_inputs_and_kills_of_their_own():
    drawn = [draw(name, QUICK) for name in CATALOG]
    seeds = [scenario.recipe["seed"] for scenario in drawn]
    assert len(set(seeds)) == len(seeds)
    points = [s.fraction for scenario in drawn for s in scenario.faults if 0 < s.fraction < 1]
    assert len(set(points)) > 0.8 * len(points)


@pytest.mark.parametrize("name", CATALOG)
def test_kill_points_lie_apart_and_leave_input_behind_them(name):
    faults = draw(name, QUICK).faults
    # A death that is meant to meet a full disk comes while that lasts.
    # What follows a change of workers is meant to meet it, or its first cut, and waits for that.
    meet = ("fill", "rescale", "scale")
    apart = [s for n, s in enumerate(faults) if n == 0 or faults[n - 1].do not in meet]
    if name.startswith("space-") or name == "count-deaths-of-one-worker":
        apart = []  # "2 close" is one of its dimensions; and each of many waits for a cut
    fractions = [s.fraction for s in apart if 0 < s.fraction < 1]
    assert fractions == sorted(fractions)
    for earlier, later in itertools.pairwise(fractions):
        assert later - earlier >= 0.15  # time for a cut
    assert all(fraction <= 0.8 for fraction in fractions)


def test_a_rule_of_an_app_that_is_wrong_fails_no_tier_below_its_own():
    """Its own requirements, which say which rule, would be blocked by that."""
    below = {id_ for id_, one in registry.load().items() if one.tier < 2}
    for name in CATALOG:
        if draw(name, QUICK).app == "market-spread":
            assert below.isdisjoint(id_ for id_, _ in judges_of(name)), name


def test_full_profile_is_larger():
    quick, full = draw("count", QUICK), draw("count", Context(1, "full"))
    assert full.recipe["records"] == 5 * quick.recipe["records"]


def test_recorded_market_is_the_input_of_market_runs_only():
    market = {"kind": "market-csv", "quotes": "/q.csv", "orders": "/o.csv", "strict": False}
    context = Context(1, freshness_s=5.0, market=market)
    assert draw("market-merged-verdicts", context).recipe["quotes"] == "/q.csv"
    assert draw("market-boundaries", context).recipe["kind"] == "script"
    assert draw("count", context) == draw("count", QUICK)
    paced = draw("market-worker-death", context)
    assert paced.rate == 3 * draw("market-worker-death", QUICK).rate
