"""Engines over Kafka on several hosts: workers on theirs, the broker on one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.judging import judge_of
from tests.long import LONG
from tickproof.conformance.engines import network
from tickproof.conformance.engines.isolation import Isolation
from tickproof.conformance.engines.spec import EngineSpec, load
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.scenarios import Context

pytestmark = pytest.mark.skipif(bool(network.obstacle()), reason=f"no hosts: {network.obstacle()}")


@pytest.fixture
def miniature(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> EngineSpec:
    monkeypatch.setenv(shared_broker.VARIABLE, json.dumps(asdict(broker.address)))
    return load(fixtures() / "engines" / "kafka-miniature")


@LONG
def test_a_host_of_workers_dies_and_is_back(miniature: EngineSpec, tmp_path: Path) -> None:
    scenario = draw("count-host-death", Context(seed=5, transport="kafka"))
    scenario = replace(scenario, recipe=scenario.recipe | {"records": 40_000})
    play(scenario, miniature, tmp_path / "run", seed=5, isolation=Isolation(hosts=3))
    history = History(tmp_path / "run")
    judge_of("NE-PLACES", "count-net-partition")(history)
    judge_of("NE-HOST-DEATH", "count-host-death")(history)
    placed = history.all(events.Placed)[0].placed
    assert sorted(one.host for one in placed) == ["host-2", "host-3"]
    # The dead one's processes were on it, and whoever held the connection at that moment.
    (fault,) = history.faults
    (over,) = history.all(events.Network)
    struck = {one.pid for one in placed if one.host == over.host}
    assert struck and struck <= set(fault.pids)
    # All that the workers read and wrote came from their hosts.
    used = {pid for look in history.all(events.Activity) for one in look.used for pid in one.pids}
    assert {one.pid for one in placed} <= used


@LONG
def test_every_fault_of_the_network_leaves_a_sound_engine_sound(
    kafka: None, tmp_path: Path
) -> None:
    asked = "NE-PLACES,NE-PARTITION,NE-ONE-WAY,NE-CUT-OFF,NE-MUTE,NE-HOST-DEATH,NE-SLOW,NE-PACKETS"
    command = [sys.executable, "-m", "tickproof", "run", "kafka-miniature", "--hosts", "3"]
    words = ["--only", asked, "-n", "1", "--seed", "1", "--out", str(tmp_path)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "kafka-miniature" / "report.json").read_text())
    assert {one["verdict"] for one in report["requirements"]} == {"pass"}
