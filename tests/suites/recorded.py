"""Small real runs of the miniature, one for each scenario of the catalog, played once.

Those of tier 5 are imagined: on a machine with other tests no time would be worth a verdict.

All processes of a session under pytest-xdist share them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.suites import imagined
from tickproof.conformance.engines import isolation, network
from tickproof.conformance.engines.isolation import Isolation
from tickproof.conformance.engines.spec import EngineSpec, load
from tickproof.conformance.fault_steps import DownStep, FaultStep, FillStep, LastingStep
from tickproof.conformance.faults.kinds import loses_power
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.judge import Unknown
from tickproof.conformance.suites.scales import require_input, require_scaled
from tickproof.conformance.suites.scenarios import Context

SEED = 11
#: Short, so that the silence of market-two-fresh is short too.
FRESHNESS_S = 2.0
#: Records of a run, and seconds over which its input is paced where faults need that.
RECORDS, PACED_S = 12_000, 0.4
#: An input large enough that the engine cannot hold all of it while the sink stands still.
STALLED_RECORDS = 60_000
#: More faults than that find no room in so short an input.
MOST_FAULTS = 5
MOST_CHECKPOINTS = 30
#: Of the runs whose faults are those of a network.
HOSTS = 3
#: On a busy machine the moment of a fault may pass in a run as short as these.
TRIES = 5
#: What run.json says of a run over Kafka. Their judges see runs over the log here: the values are
#: judged alike.
KAFKA = {"session_s": 3.0, "transaction_s": 10.0, "transaction_version": 2}


def shared(tmp_path_factory) -> Recorded:
    """Return the recorded runs of this session, the same for all its processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "recorded"
    folder.mkdir(exist_ok=True)
    return Recorded(folder)


def shorter(step: FaultStep) -> FaultStep:
    """Return a step that lasts less long; a full disk does not: the engine is killed meanwhile."""
    if isinstance(step, LastingStep) and not isinstance(step, FillStep):
        return replace(step, seconds=min(step.seconds, 0.3))
    return replace(step, down_s=min(step.down_s, 0.3)) if isinstance(step, DownStep) else step


def small(name: str) -> Scenario:
    """Return a scenario of the catalog with less input, shorter pauses and stalls."""
    drawn = draw(name, Context(SEED, freshness_s=FRESHNESS_S))
    if drawn.pace is not None:
        return imagined.smaller(drawn)
    if len(drawn.faults) > MOST_FAULTS:
        return drawn
    records = drawn.recipe.get("records", 0)
    fewer = min(records, STALLED_RECORDS if drawn.sink.stall_after else RECORDS)
    recipe = drawn.recipe | ({"records": fewer} if records else {})
    faults = tuple(
        replace(shorter(step), burst=step.burst * fewer // records) for step in drawn.faults
    )
    # A network that stands still takes TCP some time.
    paced_s = PACED_S * (4 if any(step.target == "host" for step in faults) else 1)
    return replace(
        drawn,
        recipe=recipe,
        rate=drawn.rate and fewer / paced_s,
        faults=faults,
        checkpoints=min(drawn.checkpoints, MOST_CHECKPOINTS),
        sink=replace(drawn.sink, stall_s=min(drawn.sink.stall_s, 1.5)),
    )


def _fired(history: History) -> bool:
    """Tell whether every fault fired and met something before the input was at its end."""
    late = [
        one
        for one in history.faults
        if one.step.at == "fetched" and one.step.fraction < 0.9 and not one.remaining
    ]
    unmet = [one for one in history.all(events.Network) if not one.packets]
    missed = history.all(events.FaultMissed, events.LinkMissed)
    return not late and not unmet and not missed and _worked(history)


def _worked(history: History) -> bool:
    """Tell whether there was work for the workers that each scale brought, for each of them."""
    if not history.record.scenario.name.endswith("-scale"):
        return True
    begun = [one.t_ns for one in history.all(events.Scaled)]
    ended = [*(one.t_ns for one in history.faults[1:]), None]
    try:
        require_scaled(history)
        for begin_ns, end_ns in zip(begun, ended, strict=True):
            require_input(history, begin_ns, end_ns)
    except Unknown:
        return False
    return True


class Recorded:
    """Run folders by scenario, played when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        toml = folder / "engine" / "engine.toml"
        with self._alone("engine"):
            if not toml.exists():
                shutil.copytree(fixtures() / "engines" / "miniature", toml.parent)
                text = toml.read_text("utf-8")
                assert "freshness_s = 5.0" in text
                text = text.replace("freshness_s = 5.0", f"freshness_s = {FRESHNESS_S}")
                toml.write_text(text, "utf-8")
        self.spec: EngineSpec = load(toml, registry.load())

    def run(self, name: str) -> Path:
        """Return the folder of a scenario's run."""
        folder = self.folder / name
        with self._alone(name):
            scenario = small(name)
            on_hosts = any(step.target == "host" for step in scenario.faults)
            if on_hosts and (why := network.obstacle()):
                pytest.skip(f"no hosts: {why}")
            if loses_power(scenario.faults) and (why := isolation.disk_obstacle()):
                pytest.skip(f"no power can be lost: {why}")
            for _ in range(0 if folder.exists() else TRIES):
                shutil.rmtree(folder, ignore_errors=True)
                played = play if scenario.pace is None else imagined.play
                more: dict[str, Any] = {"isolation": Isolation(hosts=HOSTS)} if on_hosts else {}
                facts = {"kafka": KAFKA} if name.startswith("kafka-") else {}
                more |= {"facts": facts} if facts else {}
                played(scenario, self.spec, folder, seed=SEED, **more)
                if _fired(History(folder)):
                    break
        return folder

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Keep the other processes of the session out."""
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
