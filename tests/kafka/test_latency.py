"""Latency over Kafka: what is asked, at which load, and whole runs on a real broker."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.long import LONG
from tickproof.conformance.engines.spec import load
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.latency import profiles
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest import mutants
from tickproof.conformance.selftest.model import Cell
from tickproof.conformance.selftest.session import kill_of
from tickproof.conformance.selftest.trial import Task, attempt
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.verdicts import Verdict

CONTEXT = Context(7, latency="kafka", transport="kafka", recovery_s=30.0)
PROFILE = profiles.load("kafka")
SEED = 20_260


def test_every_requirement_of_tier_5_is_asked_over_kafka_of_who_claims_a_level() -> None:
    tier = [one for one in registry.load().values() if one.tier == registry.LATENCY_TIER]
    assert {one.family for one in tier} == {"LT", "HO"}
    assert all(one.needs.applies_over("kafka") for one in tier)
    assert load(fixtures() / "engines" / "kafka-miniature").service_level == PROFILE.name


def test_a_service_level_is_played_at_its_own_rate() -> None:
    drawn = draw("service", CONTEXT)
    assert drawn.rate == PROFILE.load.rate
    seconds = drawn.recipe["records"] / drawn.rate
    assert seconds == pytest.approx(PROFILE.load.warm_up_s + 14.0)
    assert drawn.recipe["tick"] == PROFILE.load.rate * PROFILE.load.tick_us // 1_000_000
    # Others over Kafka are slower than on the log.
    over_log = Context(7)
    assert draw("count-worker-death", CONTEXT).rate < draw("count-worker-death", over_log).rate


def test_after_a_death_it_is_that_rate_too() -> None:
    drawn = draw("service-recovery", CONTEXT)
    assert drawn.rate == PROFILE.load.rate and drawn.pace.tick_us == PROFILE.load.tick_us
    assert drawn.recipe["records"] / drawn.rate > CONTEXT.recovery_s
    assert draw("service-recovery", Context(7)).rate == 10_000


@pytest.fixture
def kit(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play runs of this process on the broker of the tests."""
    monkeypatch.setenv(shared_broker.VARIABLE, json.dumps(asdict(broker.address)))


def judged(subject: str, toml: Path, folder: Path) -> list[Cell]:
    return attempt(Task(subject, toml, "service", SEED, folder)).cells


@LONG
def test_who_is_slow_in_its_tail_alone_is_failed(kit: None, tmp_path: Path) -> None:
    mutant = mutants.find("mutant:kafka-stands-still", fixtures())
    cells = judged(mutant.id, mutants.make(mutant, fixtures(), tmp_path / "copy"), tmp_path)
    (found,) = (cell for cell in cells if cell.requirement == mutant.requirement)
    if found.verdict is Verdict.UNKNOWN:
        pytest.skip(f"{found.reason}: {found.said}")
    assert kill_of(mutant, mutant.requirement, cells).killed, found


@LONG
@pytest.mark.parametrize("variant", ["", "kafka-large-batches"])
def test_who_answers_in_time_is_not(variant: str, kit: None, tmp_path: Path) -> None:
    toml = fixtures() / "engines" / "kafka-miniature" / "engine.toml"
    if variant:
        found = mutants.find(f"variant:{variant}", fixtures())
        toml = mutants.make(found, fixtures(), tmp_path / "copy")
    cells = judged(variant or "kafka-miniature", toml, tmp_path)
    assert [cell for cell in cells if cell.verdict is Verdict.FAIL] == []
    assert len(cells) == 5
