"""Judges, and what they raise.

A judge is a pure function of a History: it returns (pass), raises Fail with a
counterexample, or raises Unknown with a reason code if the evidence is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tickproof.conformance.checkers.findings import Finding
from tickproof.conformance.errors import TickproofError
from tickproof.conformance.history.folder import History

Judge = Callable[[History], None]


class Fail(TickproofError):
    """The promise does not hold: here is a counterexample."""

    def __init__(self, code: str, expected: str, actual: str, **evidence: Any) -> None:
        super().__init__(f"{code}: expected {expected}; got {actual}")
        self.code, self.expected, self.actual, self.evidence = code, expected, actual, evidence


class WrongOutput(Fail):
    """A finding of a checker; ``explain.words`` has what was expected and what came."""

    def __init__(self, finding: Finding, counts: dict[str, int]) -> None:
        TickproofError.__init__(self, f"{finding.kind} at {finding.where}")
        self.code, self.finding = finding.kind, finding
        self.evidence = {"where": finding.where, "counts": counts}


class BrokenOff(Fail):
    """The engine ended the run, so that it leaves nothing to judge."""


class Unknown(TickproofError):
    """The judge ran, but the evidence for a pass is missing."""

    def __init__(self, reason: str, expected: str, actual: str, **evidence: Any) -> None:
        super().__init__(f"{reason}: expected {expected}; got {actual}")
        self.reason, self.expected, self.actual, self.evidence = reason, expected, actual, evidence


class NotClaimed(TickproofError):
    """The engine does not promise this."""


class Blocked(TickproofError):
    """A tier below this one does not hold, so there is nothing to ask here."""


class NotPlayed(TickproofError):
    """A run that would end as another did: before the app runs, without an answer.

    requirement: what the other failed, for a reason; it is not asked again.
    """

    def __init__(self, requirement: str, reason: str, why: str) -> None:
        super().__init__(why)
        self.requirement, self.reason = requirement, reason


class KitError(TickproofError):
    """The kit could not play or record the run."""
