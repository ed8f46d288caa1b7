"""Runs of a failure that lack one of its faults, or lose no frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.explain.conftest import mutant_run as mutant_run
from tests.explain.conftest import recorded as recorded
from tickproof.conformance.engines import spec
from tickproof.conformance.fault_steps import FaultStep, fault_step
from tickproof.conformance.resources import fixtures
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import variants


def scenario(*faults: FaultStep) -> Scenario:
    recipe = {"kind": "counts", "records": 2_000, "seed": 1, "partitions": 2, "keys": 9, "tick": 9}
    params = {"emit": "every"}
    return Scenario("mine", "count", params, recipe, faults=faults, rate=4_000)


LOSING = fault_step("kill", "engine", "losing", fraction=0.3)
WORKER = fault_step("kill", "worker", "fetched", fraction=0.6)
AGAIN = fault_step("kill", "engine", "recovery")


@pytest.mark.parametrize(
    ("faults", "changed"),
    [
        ((LOSING, WORKER), {
            "without kill 1": (WORKER,),
            "kill 1 after output was acknowledged, from 30% of the input on: no frame is lost": (
                replace(LOSING, at="accepted"), WORKER,
            ),
            "without kill 2": (LOSING,),
        }),
        # A fault that comes at the recovery from another one makes no sense without that.
        ((WORKER, AGAIN), {"without kill 2": (WORKER,)}),
        ((WORKER,), {}),
        ((), {}),
    ],
)  # fmt: skip
def test_a_variant_lacks_one_thing(
    faults: tuple[FaultStep, ...], changed: dict[str, tuple[FaultStep, ...]]
) -> None:
    found = variants.variants(scenario(*faults))
    assert {one.changed: one.scenario.faults for one in found} == changed


def test_the_variants_of_a_failed_run_are_played(
    tmp_path: Path, mutant_run: Callable[[str, str, str], Path]
) -> None:
    run = mutant_run("offset-not-state", "count-two-worker-deaths", "EO-TWO-DEATHS")
    engine = spec.load(fixtures() / "engines" / "miniature" / "engine.toml")  # which is sound
    said: list[str] = []
    assert variants.tried(run, engine, tmp_path / "variants", 6, said.append) == [
        {"changed": "without kill 1", "verdicts": {"pass": 2}, "reasons": {}},
        {"changed": "without kill 2", "verdicts": {"pass": 2}, "reasons": {}},
    ]
    assert said == [
        *[f"{run.name}, without kill 1: pass"] * 2,
        *[f"{run.name}, without kill 2: pass"] * 2,
    ]


def test_a_run_that_failed_in_nothing_that_a_schedule_asks_has_no_variants(
    tmp_path: Path, recorded: Any
) -> None:
    run = recorded.run("count-two-worker-deaths")
    engine = spec.load(fixtures() / "engines" / "miniature" / "engine.toml")
    assert variants.tried(run, engine, tmp_path / "variants", 6, print) == []
    assert not (tmp_path / "variants").exists()
