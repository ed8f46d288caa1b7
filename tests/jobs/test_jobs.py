"""The kit's own jobs on a real broker: a sound one passes, a twin fails what names its mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.twins import copy, judged
from tests.kafka.presence import expect_broker
from tickproof.conformance.verdicts import Outcome, Verdict


@pytest.fixture(autouse=True)
def _broker() -> None:
    expect_broker()


def said(outcomes: dict[str, Outcome]) -> str:
    return "\n".join(f"{one.requirement} {one.verdict} {one.actual}" for one in outcomes.values())


def test_a_sound_job_passes(tmp_path: Path) -> None:
    found = judged(copy("totals-sql", tmp_path), tmp_path)
    assert {one.verdict for one in found.values()} == {Verdict.PASS, Verdict.NOT_CLAIMED}, said(
        found
    )
    assert found["JB-COMMIT"].evidence["timeouts"] == {"session": "6 s, asked for 45 s"}


def test_offsets_committed_before_the_write_lose_without_an_oracle_too(tmp_path: Path) -> None:
    found = judged(copy("totals-sql", tmp_path, twin="early", oracle=False), tmp_path)
    lost = found["JB-LOST"]
    assert lost.verdict is Verdict.FAIL, said(found)
    assert "fewer than the" in " ".join(lost.story["lines"])
