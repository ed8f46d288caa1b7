"""Verdicts: the closed set of answers, what goes with each, and the exit status."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


class Verdict(enum.StrEnum):
    """How one requirement came out; see docs/verdicts.md for the exact meaning."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    BLOCKED = "blocked"
    NOT_CLAIMED = "not-claimed"
    KNOWN_GAP = "known-gap"
    GAP_FIXED = "gap-fixed"
    KIT_ERROR = "kit-error"


#: Best to worst: the worst of a report is the verdict of the whole.
SEVERITY: tuple[Verdict, ...] = (
    Verdict.NOT_CLAIMED,
    Verdict.PASS,
    Verdict.KNOWN_GAP,
    Verdict.BLOCKED,
    Verdict.UNKNOWN,
    Verdict.GAP_FIXED,
    Verdict.FAIL,
    Verdict.KIT_ERROR,
)

EXIT_OK, EXIT_FAIL, EXIT_USAGE, EXIT_UNKNOWN, EXIT_KIT_ERROR = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Outcome:
    """One decided requirement.

    A fail, unknown or kit-error carries ``reason`` (a stable code), ``expected``
    and ``actual``; all text may come from an engine and is not safe to print raw.
    story: what `explain` tells of it: ``lines``, ``brief``, ``picture``; or empty.
    """

    requirement: str
    verdict: Verdict
    scenario: str = ""
    reason: str = ""
    stimulus: str = ""
    expected: str = ""
    actual: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    story: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        return asdict(self) | {"verdict": self.verdict.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """Rebuild an outcome; raises ValueError for a verdict that does not exist."""
        return cls(**data | {"verdict": Verdict(data["verdict"])})


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict. Nothing at all is a kit-error: no empty green."""
    found = set(verdicts)
    if not found - {Verdict.NOT_CLAIMED}:
        return Verdict.KIT_ERROR
    return max(found, key=SEVERITY.index)


def exit_status(verdicts: Iterable[Verdict]) -> int:
    """Return the process exit status for a set of verdicts."""
    found = set(verdicts)
    if worst(found) is Verdict.KIT_ERROR:
        return EXIT_KIT_ERROR
    if found & {Verdict.FAIL, Verdict.GAP_FIXED}:
        return EXIT_FAIL
    if found & {Verdict.UNKNOWN, Verdict.BLOCKED}:
        return EXIT_UNKNOWN
    return EXIT_OK
