"""Reports of hand-made outcomes, recorded runs, and a real browser."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.explain.conftest import mutant_run as mutant_run
from tests.explain.conftest import recorded as recorded
from tickproof.conformance.jobs.requirements import JB
from tickproof.conformance.report import document, json_report
from tickproof.conformance.report.json_report import Report
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Outcome, Verdict

_IDS = {
    Verdict.PASS: "PR-HELLO",
    Verdict.FAIL: "EO-WORKER-DEATH",
    Verdict.UNKNOWN: "EO-PAUSE",
    Verdict.BLOCKED: "DL-NO-LOSS",
    Verdict.NOT_CLAIMED: "MS-TWO-STREAMS",
    Verdict.KNOWN_GAP: "ST-SOME",
    Verdict.GAP_FIXED: "EO-TAIL",
    Verdict.KIT_ERROR: "PR-STOP",
}


@pytest.fixture
def ids() -> dict[Verdict, str]:
    """The requirement that stands for each verdict; ids are never reused, so they stay."""
    return _IDS


@pytest.fixture
def hostile() -> str:
    """What an engine may put into any text: colours, markup, NUL, half a surrogate."""
    return "\x1b[31mred\x1b[0m [bold]x[/bold] \x00 \udc80 <&> ]]>"


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    """Make an outcome of the requirement that stands for a verdict."""

    def make(verdict: Verdict, **fields: object) -> Outcome:
        given = {"reason": "CODE", "expected": "a", "actual": "b", "seconds": 1.5} | fields
        if verdict is Verdict.BLOCKED:
            given.setdefault("blocked_by", [_IDS[Verdict.FAIL]])
        return Outcome(_IDS[verdict], verdict, **given)

    return make


@pytest.fixture
def make_report(tmp_path: Path) -> Callable[..., Report]:
    """Build a report of hand-made outcomes; everything decided counts as selected."""

    def make(*outcomes: Outcome, selected: tuple[str, ...] = (), name: str = "toy") -> Report:
        known = {**registry.load(), **JB}
        ids = selected or tuple(dict.fromkeys(o.requirement for o in outcomes))
        return json_report.build(
            engine=document.engine_facts(name, "1.0", "python", tmp_path / "engine.toml"),
            outcomes=outcomes,
            selected={id_: known[id_] for id_ in ids},
            folder=tmp_path,
            profile="quick",
            seed=42,
            selection=json_report.Selection(tiers=[], only=[]),
            started=datetime(2024, 8, 8, tzinfo=UTC),
            ended=datetime(2024, 8, 8, 0, 1, tzinfo=UTC),
        )

    return make


@pytest.fixture
def one_of_each(make_report: Callable[..., Report], outcome: Callable[..., Outcome]) -> Report:
    """A report with one result of each verdict."""
    return make_report(*(outcome(verdict) for verdict in Verdict))


@pytest.fixture(scope="session")
def failed_run(mutant_run: Any) -> Path:
    """Return a run that a mutant failed."""
    return mutant_run("offset-not-state", "count-engine-death", "EO-ENGINE-DEATH")
