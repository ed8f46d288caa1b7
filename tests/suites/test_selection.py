"""Which app a scenario is played on, and that no engine gets out of a requirement by its apps."""

from __future__ import annotations

import pytest

from tickproof.conformance.faults.space.offers import APPS, Offer
from tickproof.conformance.scenario import Claims, Scenario
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.carriers import (
    EVERY,
    PASSTHROUGH,
    SOME,
    STATE_FIRST,
    STATEFUL,
    TWO,
    Carrier,
)
from tickproof.conformance.suites.catalog import CATALOG, JUDGES, draw
from tickproof.conformance.suites.judge import NotClaimed
from tickproof.conformance.suites.requirement import check_claims
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.suites.selection import played_on
from tickproof.generators import recipes

KNOWN = registry.load()
CARRIED = [name for name, entry in CATALOG.items() if entry.carriers]


def claims(carrier: Carrier, **other) -> Claims:
    """Return claims of an engine of one process that recovers."""
    found = {
        "state": "exactly-once",
        "delivery": "exactly-once",
        "survives": ("engine",),
        "rescale": "none",
        "freshness_s": 2.0 if carrier.inputs == "two" else None,
    }
    return Claims(**found | other)


def scenario_for(name: str, offered: dict) -> Scenario | None:
    try:
        return played_on(name, Context(1), offered, KNOWN)
    except NotClaimed:
        return None


def judged(offered: dict) -> set[str]:
    """Return the requirements that are judged of an engine that offers this."""
    found = set()
    for name in CARRIED:
        if (scenario := scenario_for(name, offered)) is None:
            continue
        held = next(
            one
            for carrier, one in offered.items()
            if (carrier.app, carrier.params) == (scenario.app, scenario.params)
        )
        found |= decided(name, held, scenario)
    return found | judged_on_points(offered)


def judged_on_points(offered: dict) -> set[str]:
    """Return what is judged on the points of the fault space, which have apps of their own."""
    here = {
        Offer(place, held.survives, held.rescale == "live"): held
        for place, (app, params) in APPS.items()
        for carrier, held in offered.items()
        if (carrier.app, carrier.params) == (app, params) and held.state == "exactly-once"
    }
    if not here:
        return set()
    drawn = draw("space-1", Context(1, freshness_s=2.0, offers=tuple(here)))
    held = next(h for o, h in here.items() if (o.app, o.params) == (drawn.app, drawn.params))
    return decided("space-1", held, drawn)


def decided(name: str, held: Claims, scenario: Scenario) -> set[str]:
    """Return what a run of a scenario decides, by the claims that hold in it."""
    found = set()
    for requirement, _ in JUDGES[name]:
        try:
            check_claims(KNOWN[requirement].needs, held, scenario)
        except NotClaimed:
            continue
        found.add(requirement)
    return found


@pytest.mark.parametrize("carrier", STATE_FIRST, ids=str)
@pytest.mark.parametrize("name", CARRIED)
def test_a_scenario_can_be_drawn_and_made_for_each_of_its_carriers(name, carrier, tmp_path):
    if carrier not in CATALOG[name].carriers:
        with pytest.raises(ValueError, match="expected one of"):
            draw(name, Context(1, carrier=carrier))
        return
    drawn = draw(name, Context(1, freshness_s=1.0, carrier=carrier))
    assert (drawn.name, drawn.app, drawn.params) == (name, carrier.app, carrier.params)
    recipe = drawn.recipe | (
        {"records": min(drawn.recipe["records"], 64)} if "records" in drawn.recipe else {}
    )
    assert recipes.build(recipe, tmp_path).partitions


@pytest.mark.parametrize("name", CARRIED)
def test_an_engine_that_offers_all_is_played_on_the_first(name):
    offered = {c: claims(c, survives=Context(1).survives) for c in STATE_FIRST}
    scenario = scenario_for(name, offered)
    first = CATALOG[name].carriers[0]
    assert (scenario.app, scenario.params) == (first.app, first.params)


@pytest.mark.parametrize("name", CARRIED)
def test_what_a_requirement_needs_is_what_its_scenario_prefers(name):
    # Else an engine that offers more than one carrier might be judged on one that does not serve.
    carriers = CATALOG[name].carriers
    for requirement, _ in JUDGES[name]:
        needs = KNOWN[requirement].needs
        serves = [
            (not needs.app or carrier.app in needs.app)
            and (not needs.inputs or carrier.inputs in needs.inputs)
            and (not needs.emit or carrier.emit in needs.emit)
            for carrier in carriers
        ]
        assert serves == sorted(serves, reverse=True)
        assert serves[0], requirement


@pytest.mark.parametrize("carrier", STATE_FIRST, ids=str)
def test_what_exactly_once_means_is_judged_on_every_app(carrier):
    found = judged({carrier: claims(carrier)})
    assert set(registry.EXACTLY_ONCE) <= found
    assert {id_ for id_, one in KNOWN.items() if one.tier == 0 and not one.needs.app} <= found


def test_a_weak_claim_for_one_app_does_not_hide_a_strong_one_for_another():
    weak = claims(EVERY, state="none", delivery="at-least-once", survives=())
    offered = {EVERY: weak, TWO: claims(TWO), PASSTHROUGH: claims(PASSTHROUGH)}
    assert set(registry.EXACTLY_ONCE) <= judged(offered)
    assert scenario_for("count-engine-death", offered).params == TWO.params
    assert "ST-TOTALS" in judged(offered)


def test_only_what_is_claimed_is_killed():
    def faults(name, *survives):
        scenario = scenario_for(name, {SOME: claims(SOME, survives=survives)})
        return [(step.do, step.target) for step in scenario.faults]

    assert faults("count-mixed-deaths", "engine") == [("kill", "engine")] * 2
    assert faults("count-mixed-deaths", "worker", "all-workers") == [("kill", "worker")] * 2
    assert faults("count-mixed-deaths", "worker") == [("kill", "worker"), ("pause", "engine")]
    assert faults("count-mixed-deaths", "worker", "engine") == [
        ("kill", "engine"),
        ("kill", "worker"),
    ]
    assert faults("count-mixed-deaths", "connection") == [("pause", "engine")] * 2
    assert faults("count-pause", "engine") == [("pause", "engine")]
    assert faults("count-pause", "worker") == [("pause", "worker")]


#: Scenarios with a second death of a worker if all-workers is claimed.
TWICE = ("count-mixed-deaths", "kafka-rebalance", "kafka-worker-in-transaction")


@pytest.mark.parametrize("name", CARRIED)
def test_no_second_worker_dies_unless_all_workers_is_claimed(name):
    """State in the memory of several workers is lost if two die before the first has it again."""

    def deaths(*survives):
        held = claims(EVERY, survives=survives, rescale="live", transport="kafka")
        scenario = draw(name, Context(1, carrier=EVERY, survives=survives))
        return decided(name, held, scenario), sum(step.do == "kill" for step in scenario.faults)

    if EVERY not in CATALOG[name].carriers:
        return
    asked, killed = deaths("worker", "connection")
    more_asked, more_killed = deaths("worker", "connection", "all-workers")
    assert asked <= more_asked
    if name in TWICE:
        assert asked == more_asked and asked
        assert (killed, more_killed) == (1, 2)


def test_the_reason_names_what_is_missing():
    with pytest.raises(NotClaimed, match=r"^offers none of count every, count some$"):
        played_on("count-edges", Context(1), {TWO: claims(TWO)}, KNOWN)
    scenario = draw("count", Context(1, carrier=SOME))
    with pytest.raises(NotClaimed, match=r"^offers no emit every$"):
        check_claims(KNOWN["ST-EVERY-POINT"].needs, claims(SOME), scenario)


def test_every_app_is_a_carrier():
    assert {carrier.app for carrier in STATE_FIRST} == {
        "passthrough",
        "double",
        "count",
        "market-spread",
    }
    assert len(STATEFUL) == 6
