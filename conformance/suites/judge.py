"""What a judge is: the tests by scenario, and what they raise.

A test is a pure function of a History: it returns (pass), raises Fail with a
counterexample, or raises Unknown with a reason code where the evidence is missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.history.folder import History
from tickproof.conformance.requirements.registry import Needs
from tickproof.conformance.scenario import Scenario, survived
from tickproof.conformance.verdicts import DOES_NOT_APPLY

Judge = Callable[[History], None]
F = TypeVar("F", bound=Judge)

#: Scenario name -> the (requirement, test) pairs that it decides.
JUDGES: dict[str, list[tuple[str, Judge]]] = {}


class Fail(TickproofError):
    """The promise does not hold: here is a counterexample."""

    def __init__(self, code: str, expected: str, actual: str, **evidence: Any) -> None:
        super().__init__(f"{code}: expected {expected}; got {actual}")
        self.code, self.expected, self.actual, self.evidence = code, expected, actual, evidence


class BrokenOff(Fail):
    """The engine ended the run, so that it leaves nothing to judge."""


class Unknown(TickproofError):
    """The test ran, but the evidence for a pass is missing."""

    def __init__(self, reason: str, expected: str, actual: str, **evidence: Any) -> None:
        super().__init__(f"{reason}: expected {expected}; got {actual}")
        self.reason, self.expected, self.actual, self.evidence = reason, expected, actual, evidence


class NotClaimed(TickproofError):
    """The engine does not promise this."""


class Blocked(TickproofError):
    """A tier below this one does not hold, so there is nothing to ask here."""


class KitError(TickproofError):
    """The kit could not play or record the run."""


def decides(requirement: str, scenario: str) -> Callable[[F], F]:
    """Mark a test: it decides ``requirement`` on the run of ``scenario``."""

    def mark(function: F) -> F:
        JUDGES.setdefault(scenario, []).append((requirement, function))
        return pytest.mark.decides(requirement, scenario)(function)

    return mark


def import_suites() -> None:
    """Import every test module, so that JUDGES is complete."""
    package = Path(__file__).parent
    for path in sorted(package.glob("test_*.py")):
        importlib.import_module(f"{__package__}.{path.stem}")


def check_transport(needs: Needs, transport: str) -> None:
    """Raise NotClaimed where a requirement says nothing of engines that speak ``transport``."""
    if not needs.applies_over(transport):
        spoken = " or ".join(needs.transport)
        about = f"about the transport {spoken}; it speaks {transport}"
        raise NotClaimed(f"{DOES_NOT_APPLY}: {about}")


def check_hosts(needs: Needs, placement: Mapping[str, str]) -> None:
    """Raise NotClaimed where a requirement is about several hosts and [hosts] is missing."""
    if needs.hosts and not placement:
        about = "about engines on several hosts; its engine.toml has no [hosts]"
        raise NotClaimed(f"{DOES_NOT_APPLY}: {about}")


def check_claims(needs: Needs, claims: Mapping[str, Any], scenario: Scenario) -> None:
    """Raise NotClaimed where app or ``claims`` (as in run.json) are not what a test needs."""
    check_transport(needs, claims.get("transport", "log"))
    played = {"app": scenario.app, **scenario.params}
    for name in ("app", "inputs", "emit"):
        wanted = getattr(needs, name)
        if wanted and played.get(name) not in wanted:
            raise NotClaimed(f"offers no {name} {' or '.join(wanted)}".replace("no app ", ""))
    for name in ("state", "delivery", "rescale"):
        wanted = getattr(needs, name)
        if wanted and claims[name] not in wanted:
            raise NotClaimed(f"claims {name} = {claims[name]}")
    if needs.latency and not claims.get("latency"):
        raise NotClaimed("claims no service level (latency)")
    for do, claimed in (("rescale", ("restart", "live")), ("scale", ("live",))):
        if any(step.do == do for step in scenario.faults) and claims["rescale"] not in claimed:
            raise NotClaimed(f"claims rescale = {claims['rescale']}")
    missing = {*needs.survives, *scenario.needs} - set(survived(claims["survives"]))
    if missing:
        raise NotClaimed(f"does not claim to survive: {', '.join(sorted(missing))}")
