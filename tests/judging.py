"""The judges of the kit, by what they decide."""

from __future__ import annotations

from tickproof.conformance.suites.catalog import JUDGES
from tickproof.conformance.suites.judge import Judge


def judge_of(requirement: str, scenario: str) -> Judge:
    """Return the judge that decides a requirement on the runs of a scenario."""
    return dict(JUDGES[scenario])[requirement]
