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


def test_at_least_once_is_judged_as_that(tmp_path: Path) -> None:
    """Increments that come before their offsets are right for a job that claims no more."""
    claims = 'state = "exactly-once"\ndelivery = "exactly-once"'
    weaker = claims.replace("exactly", "at-least")
    job = copy("totals-sql", tmp_path, twin="late", replaced={claims: weaker})
    found = judged(job, tmp_path)
    assert found["JB-LOST"].verdict is Verdict.PASS, said(found)
    assert found["JB-TWICE"].verdict is Verdict.NOT_CLAIMED, said(found)
    assert Verdict.FAIL not in {one.verdict for one in found.values()}, said(found)


def test_state_that_is_not_restored_gives_other_values(tmp_path: Path) -> None:
    found = judged(copy("totals-kafka", tmp_path, twin="forgets"), tmp_path)
    assert found["JB-VALUES"].verdict is Verdict.FAIL, said(found)
