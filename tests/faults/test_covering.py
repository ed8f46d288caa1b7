"""Points cover what they claim to cover, held against a search that tries everything."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import LONG, examples
from tickproof.conformance.explore.generation import MOST_RECORDS
from tickproof.conformance.fault_steps import GRACE_S, KillEngineStep
from tickproof.conformance.faults import schedule_file
from tickproof.conformance.faults.kinds import faults_of
from tickproof.conformance.faults.space import sessions
from tickproof.conformance.faults.space.covering import Space, pairs_of
from tickproof.conformance.faults.space.dimensions import (
    DIMENSIONS,
    Carrier,
    Point,
    Strike,
    Value,
    When,
)
from tickproof.conformance.faults.space.exclusions import EXCLUSIONS, OF_HOSTS
from tickproof.conformance.faults.space.offers import EVERYTHING, Offer, space_of
from tickproof.conformance.faults.space.scenarios import scenario
from tickproof.generators import recipes

ON_HOSTS = tuple(replace(offer, hosts=True) for offer in EVERYTHING)
OVER_KAFKA = tuple(
    Offer(offer.carrier, ("connection", "engine", "worker"), over_kafka=True)
    for offer in EVERYTHING
)
VALUES = [value for kind in DIMENSIONS.values() for value in kind]
SOUND = [pair for one in EXCLUSIONS for pair in one.pairs()]


def completed(chosen: list[Value], excluded: set[frozenset[Value]]) -> bool:
    """Tell whether some point holds these values: the slow and obvious way."""
    if any(frozenset(pair) in excluded for pair in itertools.combinations(chosen, 2)):
        return False
    missing = [kind for kind in DIMENSIONS.values() if kind not in map(type, chosen)]
    return not missing or any(completed([*chosen, value], excluded) for value in missing[0])


@LONG
@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES)), max_size=12))
def test_all_pairs_that_can_be_are_covered_and_no_others(more):
    excluded = [*SOUND, *(pair for pair in more if type(pair[0]) is not type(pair[1]))]
    space = Space(excluded)
    points = list(space.covering(1))
    assert pairs_of(points) == space.pairs
    table = {frozenset(pair) for pair in excluded}
    for a, b in itertools.islice(itertools.combinations(VALUES, 2), 0, None, 37):
        if type(a) is not type(b):
            assert ((a, b) in space.pairs) == completed([a, b], table)


def test_an_array_is_near_the_smallest_that_there_can_be():
    points = sessions.points_of(EVERYTHING, "full")
    largest = sorted((len(kind) for kind in DIMENSIONS.values()), reverse=True)
    assert len(points) < 1.6 * largest[0] * largest[1]


def test_consecutive_seeds_go_through_all_points():
    points = sessions.points_of(EVERYTHING, "quick")
    seeds = -(-len(points) // sessions.QUICK)
    played = {
        one for seed in range(7, 7 + seeds) for one in sessions.drawn(EVERYTHING, "quick", seed)
    }
    assert played == set(points)
    assert sessions.coverage(EVERYTHING, "quick", played).share == 1.0


@pytest.mark.parametrize("survives", [(), ("engine",), ("worker",), ("connection", "worker")])
def test_a_point_asks_for_nothing_that_is_not_claimed(survives):
    offered = (Offer(Carrier.COUNT_SOME, survives), Offer(Carrier.DOUBLE, ("engine",)))
    for point in sessions.points_of(offered, "full"):
        assert point.strike is not Strike.SCALE_ENGINE and point.when is not When.SCALING
        (offer,) = [one for one in offered if one.carrier is point.carrier]
        drawn = scenario(point, offer.survives, "space-1", 1, "full")
        assert {fault.needs for fault in faults_of(drawn.faults)} - {None} <= set(offer.survives)


@pytest.mark.parametrize("commits", [True, False])
def test_over_kafka_a_point_has_only_what_there_is(commits):
    offered = tuple(replace(offer, commits=commits) for offer in OVER_KAFKA)
    points = sessions.points_of(offered, "full")
    found = {value for point in points for value in point.values}
    assert not found & {Strike.LATE_SINK, When.CUTTING, When.DRAINING}
    assert not any("state" in strike.value for strike in found & set(Strike))
    assert found >= {Strike.KILL_ENGINE, Strike.REFUSE_SINK, When.COMMITTING, When.RECOVERY}
    assert (When.SECOND_CUT in found) is commits


def test_what_points_already_cover_is_not_drawn_again():
    space = space_of(EVERYTHING, "full")
    first = list(itertools.islice(space.covering(1), 40))
    rest = list(space.covering(2, pairs_of(first)))
    assert pairs_of([*first, *rest]) == space.pairs
    assert len(rest) < len(list(space.covering(2)))


def test_an_engine_is_ended_by_either_signal():
    points = sessions.points_of(EVERYTHING, "full")
    drawn = [
        step.grace_s
        for number, point in enumerate(points)
        for step in scenario(point, EVERYTHING[0].survives, "space-1", number, "full").faults
        if point.strike is Strike.KILL_ENGINE and isinstance(step, KillEngineStep)
    ]
    assert set(drawn) == {0.0, GRACE_S}


def test_hosts_are_struck_where_an_engine_runs_on_some():
    struck = {one.strike for one in sessions.points_of(EVERYTHING, "full")}
    assert struck == set(Strike) - OF_HOSTS
    on_hosts = sessions.points_of(ON_HOSTS, "full")
    assert {one.strike for one in on_hosts} == set(Strike)
    assert not any(one.when is When.SCALING for one in on_hosts if one.strike in OF_HOSTS)


@pytest.mark.parametrize(
    ("profile", "offered"),
    [("quick", EVERYTHING), ("full", EVERYTHING), ("full", ON_HOSTS), ("full", OVER_KAFKA)],
)
def test_every_point_is_a_recipe_and_a_schedule(profile, offered):
    for number, point in enumerate(sessions.points_of(offered, profile)):
        drawn = scenario(point, EVERYTHING[0].survives, "space-1", number, profile)
        placed = {"partitioner": "murmur2"} if offered is OVER_KAFKA else {}
        recipes.complete(drawn.recipe | placed)
        assert drawn.recipe["records"] <= MOST_RECORDS
        text = schedule_file.to_toml(schedule_file.from_scenario(drawn))
        assert schedule_file.to_scenario(schedule_file.parse(text, "it")).faults == drawn.faults
        assert Point.from_json(drawn.point) == point
