"""The engine of one process keeps what it claims; `tickproof selftest` tries it on everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.long import few
from tickproof.conformance.engines import spec
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest import trial
from tickproof.conformance.verdicts import Verdict


def deciding(requirement: str) -> str:
    """Return the first scenario that decides a requirement."""
    return next(iter(trial.tests_of({requirement})))


@pytest.mark.parametrize(
    "requirement",
    few(["EO-TWO-STREAMS-DEATH", "EO-DAMAGED-CHECKPOINT", "EO-ENGINE-DEATH", "EO-SINK-CUT"], 2),
)
def test_single_counts_exactly_once(requirement: str, tmp_path: Path) -> None:
    toml = spec.find("single", fixtures())
    task = trial.Task("single", toml, deciding(requirement), 1, tmp_path)
    found = {cell.requirement: (cell.verdict, cell.said) for cell in trial.attempt(task).cells}
    assert found[requirement][0] is Verdict.PASS, found[requirement]
    assert {verdict for verdict, _ in found.values()} <= {Verdict.PASS, Verdict.NOT_CLAIMED}, found
