"""Runs of a failure that lack one of its faults, or lose no frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.long import LONG
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
    tmp_path: Path, failed_run: Callable[..., Path]
) -> None:
    engine = spec.load(fixtures() / "engines" / "miniature" / "engine.toml")
    said: list[str] = []
    run = failed_run(scenario(WORKER, fault_step("kill", "worker", "fetched", fraction=0.8)))
    rows = variants.tried(run, engine, tmp_path / "variants", 6, said.append)
    assert [(row["changed"], row["verdicts"]) for row in rows] == [
        ("without kill 1", {"pass": 2}),
        ("without kill 2", {"pass": 2}),
    ]
    assert len(said) == 4
