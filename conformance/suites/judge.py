"""What the tests of the suites are written with: marks, verdict exceptions, evidence.

A test is a pure function of a History: it returns (pass), raises Fail with a
counterexample, or raises Unknown with a reason code where the evidence is missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tickproof.conformance.checkers.findings import Finding, Findings
from tickproof.conformance.errors import TickproofError
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.requirements.registry import Needs
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.verdicts import Reason

Judge = Callable[[History], None]
F = TypeVar("F", bound=Judge)

#: Scenario name -> the (requirement, test) pairs that it decides.
JUDGES: dict[str, list[tuple[str, Judge]]] = {}


class Fail(TickproofError):
    """The promise does not hold: here is a counterexample."""

    def __init__(self, code: str, expected: str, actual: str, **evidence: Any) -> None:
        super().__init__(f"{code}: expected {expected}; got {actual}")
        self.code, self.expected, self.actual, self.evidence = code, expected, actual, evidence


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


def check_claims(needs: Needs, claims: Mapping[str, Any], scenario: Scenario) -> None:
    """Raise NotClaimed where ``claims`` (as in run.json) do not hold what a test needs."""
    for name in ("state", "delivery"):
        wanted = getattr(needs, name)
        if wanted and claims[name] not in wanted:
            raise NotClaimed(f"claims {name} = {claims[name]}")
    if needs.latency and not claims.get("latency"):
        raise NotClaimed("claims no service level (latency)")
    asked = {step.needs for step in scenario.faults if step.needs}
    missing = (set(needs.survives) | asked) - set(claims["survives"])
    if missing:
        raise NotClaimed(f"does not claim to survive: {', '.join(sorted(missing))}")


def stimulus(history: History) -> str:
    """Say in one line what was done to the engine."""
    scenario = Scenario.from_json(history.run["scenario"])
    params = " ".join(f"{k}={v}" for k, v in scenario.params.items())
    parts = [
        f"{scenario.app} {params}".strip(),
        f"{history.input_records:,} records in {len(history.partitions)} partitions",
        f"{scenario.workers} workers",
    ]
    parts += [f"on an engine kept from {e.served} runs" for e in history.all(events.TakenOver)]
    parts += [str(step) for step in scenario.faults]
    return "; ".join(parts)


def require_completed(history: History) -> None:
    """Expect that the run went from deploy to the engine's end."""
    ended = history.ended
    if ended["how"] == "engine-failure" and ended["code"] == "TIME_LIMIT":
        raise Unknown(Reason.TIME_LIMIT, "a run from deploy to the end", ended["message"])
    if ended["how"] == "engine-failure":
        refused = history.all(events.Refused)[-1:]
        why = "".join(f"; the log had refused {row.op}: {row.text}" for row in refused)
        raise Fail(
            ended["code"], "a run from deploy to the end", ended["message"] + why,
            stderr=history.stderr_tail(),
        )  # fmt: skip
    if ended["how"] != "completed":
        raise KitError(ended["message"])


def require_no(history: History, findings: Findings, kinds: Iterable[str]) -> None:
    """Expect none of the given kinds; the first finding is the counterexample.

    What an engine answered wrongly outweighs its failure: it says more. What it did not
    answer follows from a failure. A run that did not complete is no pass.
    """
    kinds = tuple(kinds)
    if history.ended["how"] == "engine-failure":
        raise_first(findings, (kind for kind in kinds if kind != "lost"))
        require_completed(history)
    raise_first(findings, kinds)
    for event in history.all(events.OddOutput)[:1]:
        raise Fail(
            Reason.WRONG_SIZE, f"output records of {event.expected} bytes",
            f"{event.count} with {_size(event.record_size)} from writer {event.writer}",
        )  # fmt: skip
    require_completed(history)
    if findings.checked == 0 and history.input_records:
        raise Unknown(Reason.NOT_SEEN, "output to judge", "none was checked")


def _size(size: int) -> str:
    return "several sizes" if size < 0 else f"{size} bytes"


def raise_first(findings: Findings, kinds: Iterable[str]) -> None:
    """Raise Fail for the first finding of the given kinds, if there is one."""
    found: Finding | None = findings.first(kinds)
    if found is None:
        return
    counts = {kind: count for kind, count in findings.counts.items() if count}
    raise Fail(
        found.kind, found.expected, f"{found.actual} ({found.summary})",
        where=found.where, counts=counts,
    )  # fmt: skip


def require_fired(history: History, count: int = 1, *, in_flight: bool = True) -> list[FiredFault]:
    """Return the faults of the run, or raise Unknown: they missed, or met nothing."""
    if history.ended["how"] == "engine-failure" and len(history.faults) < count:
        require_completed(history)
    if len(history.faults) < count:
        why = "; ".join(row.why for row in history.missed_faults) or "their moment did not come"
        raise Unknown(
            Reason.KILL_MISSED, f"{count} faults carried out", f"{len(history.faults)} ({why})"
        )
    for fault in history.faults[:count] if in_flight else ():
        if fault.in_flight <= 0:
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT, "records fetched and not yet released at the fault",
                f"none: {fault.fetched} fetched, {fault.released} released", fault=fault.text,
            )  # fmt: skip
    return history.faults


def fault_facts(faults: Iterable[FiredFault]) -> list[dict[str, Any]]:
    """Return the evidence of faults for a report."""
    return [
        {"fault": f.text, "pids": list(f.pids), "fetched": f.fetched, "released": f.released,
         "in_flight": f.in_flight, "backlog": f.backlog, "remaining": f.remaining,
         "outputs": f.outputs}
        for f in faults
    ]  # fmt: skip
