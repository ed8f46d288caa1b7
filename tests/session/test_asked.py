"""How many requirements engines over Kafka are asked, by what they claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.engines.spec import find, load
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.scenarios import Scenarios
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.judge import NotClaimed
from tickproof.conformance.suites.requirement import check_claims, check_transport

EVERYTHING = tuple(range(6))


def asked(name: str) -> set[str]:
    """Return the requirements that an engine is asked on this machine, without other hosts."""
    spec, known = load(find(name, fixtures())), registry.load()
    made = Scenarios(spec, Request(out=Path("unused"), seed=1, tiers=EVERYTHING))
    found = set()
    for requirement, scenario, _ in made.tests():
        needs = known[requirement].needs
        try:
            drawn = made.draw(scenario)
            check_transport(needs, spec.transports[0])
            if needs.hosts or not spec.offers(drawn.app, drawn.params):
                continue
            check_claims(needs, spec.claims(drawn.app, drawn.params), drawn)
        except NotClaimed:
            continue
        found.add(requirement)
    return found


@pytest.mark.parametrize(
    "name", ["kafka-miniature", "kafka-go", "kafka-streams", "kafka-java", "kafka-rust"]
)
def test_real_engines_get_the_whole_test(name: str) -> None:
    assert len(asked(name)) >= 95


def test_what_is_asked_over_the_log_alone_is_about_the_log() -> None:
    over_log = [one.id for one in registry.load().values() if one.needs.transport == ("log",)]
    assert len(over_log) <= 20
