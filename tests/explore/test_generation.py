"""Schedules are drawn from the seed alone, and ask for nothing that an engine does not claim."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.long import LONG
from tickproof.conformance.engines.spec import load
from tickproof.conformance.explore import generation
from tickproof.conformance.explore.generation import MOST_FAULTS, MOST_RECORDS, drawn, offers
from tickproof.conformance.fault_steps import KINDS, WAYS, PartitionStep, PauseStep
from tickproof.conformance.faults.kinds import faults_of
from tickproof.conformance.faults.space.dimensions import Carrier, Point
from tickproof.conformance.faults.space.offers import Offer, space_of
from tickproof.conformance.faults.space.offers import offers as space_offers
from tickproof.conformance.faults.space.sessions import coverage
from tickproof.conformance.resources import fixtures
from tickproof.generators import recipes

TOML = """
[engine]
name = "e"
version = "1"
language = "none"
argv = ["/bin/true"]
transports = ["log"]
[claims]
state = "{state}"
delivery = "at-least-once"
survives = [{survives}]
rescale = "none"
[apps.double]
[apps.count]
emit = ["every", "some"]
[apps.count.some]
state = "none"
"""


def engine(tmp_path, state="exactly-once", survives='"worker"'):
    path = tmp_path / "engine.toml"
    path.write_text(TOML.format(state=state, survives=survives))
    return load(path)


SURVIVES = st.lists(st.sampled_from(["worker", "coordinator", "engine", "connection"]), unique=True)
OFFERS = st.builds(
    Offer, st.sampled_from(Carrier), SURVIVES.map(tuple), st.booleans(), st.booleans()
)


@given(st.data(), OFFERS)
def test_what_is_drawn_stays_within_the_claims(data, offer):
    scenario = data.draw(generation.scenarios([offer]))
    assert (scenario.app, scenario.params) == (offer.app, offer.params)
    assert 1 <= len(scenario.faults) <= MOST_FAULTS
    assert 0 < scenario.recipe["records"] <= MOST_RECORDS
    assert {fault.needs for fault in faults_of(scenario.faults)} - {None} <= set(offer.survives)
    assert offer.scales or all(step.do != "scale" for step in scenario.faults)
    assert offer.hosts or all(step.target != "host" for step in scenario.faults)
    recipes.complete(scenario.recipe)
    assert scenario.faults[0].at != "recovery"
    assert all(step.at != "drained" for step in scenario.faults[:-1])
    fractions = [
        step.fraction for step in scenario.faults if step.at not in ("recovery", "drained")
    ]
    assert fractions == sorted(set(fractions))


def test_the_same_seed_draws_the_same_and_another_seed_others(tmp_path):
    offered = offers(engine(tmp_path, survives='"worker", "engine"'))
    first = list(itertools.islice(drawn(offered, 1), 40))
    assert list(itertools.islice(drawn(offered, 1), 40)) == first
    other = list(itertools.islice(drawn(offered, 2), 40))
    assert sum(a == b for a, b in zip(first, other, strict=True)) < 10
    assert len({scenario.name for scenario in first}) == 40


@LONG
def test_the_same_seed_draws_the_same_in_another_process():
    code = (
        "import itertools\n"
        "from tickproof.conformance.explore.generation import drawn\n"
        "from tickproof.conformance.faults.space.dimensions import Carrier\n"
        "from tickproof.conformance.faults.space.offers import Offer\n"
        "offer = Offer(Carrier.COUNT_EVERY, ('worker', 'engine'))\n"
        "print(list(itertools.islice(drawn([offer], 7), 12)))\n"
    )
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert said[0].stdout == said[1].stdout != ""


def test_worst_moments_are_all_drawn():
    offered = offers(load(fixtures() / "engines" / "miniature" / "engine.toml"))
    steps = [s for scenario in itertools.islice(drawn(offered, 3), 300) for s in scenario.faults]
    assert {step.at for step in steps} == {
        "fetched",
        "losing",
        "staged",
        "accepted",
        "committing",
        "checkpoint",
        "recovery",
        "drained",
    }
    assert {step.do for step in steps} >= {
        "kill",
        "pause",
        "cut",
        "late",
        "fill",
        "refuse",
        "scale",
    }
    deaths = sum(step.do == "kill" for step in steps)
    assert deaths > len(steps) / 3
    assert any(step.cut for step in steps)
    assert any(step.burst for step in steps)


@LONG
def test_on_hosts_every_fault_of_a_network_is_drawn():
    spec = load(fixtures() / "engines" / "miniature" / "engine.toml")
    offered = offers(spec, on_hosts=True)
    steps = [s for scenario in itertools.islice(drawn(offered, 3), 300) for s in scenario.faults]
    of_hosts = [step for step in steps if step.target == "host"]
    assert {step.do for step in of_hosts} == {do for do, target in KINDS if target == "host"}
    assert {(step.peer, step.way) for step in of_hosts if isinstance(step, PartitionStep)} == {
        (peer, way) for peer in ("", "log") for way in WAYS
    }
    assert any(step.target != "host" for step in steps)
    # [hosts] is missing where an engine runs on one machine alone.
    alone = load(fixtures() / "engines" / "single" / "engine.toml")
    assert offers(alone, on_hosts=True) == offers(alone)


def test_only_apps_with_exact_state_are_offered(tmp_path):
    found = offers(engine(tmp_path))
    assert [(one.app, one.params) for one in found] == [
        ("double", {}),
        ("count", {"emit": "every"}),
    ]
    assert offers(engine(tmp_path, state="at-least-once")) == []


def test_points_come_in_turn_with_others_until_all_pairs_are_covered(tmp_path):
    spec = engine(tmp_path)
    claimed = space_offers(spec)
    turns = 2 * len(list(space_of(claimed, "full").covering(5)))
    found = list(itertools.islice(generation.led(offers(spec), claimed, 5), turns + 4))
    points = [Point.from_json(one.point) for one in found if one.point]
    assert coverage(claimed, "full", points).share == 1.0
    assert [bool(one.point) for one in found] == [True, False] * (turns // 2) + [False] * 4


@pytest.mark.parametrize(("lasting", "slower"), [(0.0, 1), (2.0, 4)])
def test_an_input_outlasts_a_fault_that_lasts(lasting, slower):
    step = PauseStep("fetched", target="worker", seconds=lasting)
    assert generation.pace(1_000, 1.0, (step,)) == 1_000 / slower
