"""From what a test raised to an Outcome; the same for a live run and for `check`."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from tickproof.conformance import apps
from tickproof.conformance.explain.words import ending, words
from tickproof.conformance.faults.kinds import faults_of
from tickproof.conformance.faults.schedule_file import PREFIX, from_scenario, to_toml
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.sessions import met
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites import breaches, registry, scales
from tickproof.conformance.suites.judge import (
    Blocked,
    BrokenOff,
    Fail,
    NotClaimed,
    NotPlayed,
    Unknown,
    WrongOutput,
)
from tickproof.conformance.suites.labels import labelled
from tickproof.conformance.text import counted
from tickproof.conformance.verdicts import Outcome, Reason, Verdict


def outcome_of(
    requirement: str, scenario: str, error: BaseException | None, history: History | None
) -> Outcome:
    """Return the outcome of a test that raised ``error`` (None: it passed)."""
    base = Outcome(requirement, Verdict.PASS, scenario)
    if history is not None:
        base = replace(
            base, stimulus=stimulus(history), evidence=_evidence(history), run=str(history.folder)
        )
    match error:
        case None:
            return base
        case BrokenOff() if history is not None:
            breach = breaches.of(history)
            mine = requirement == breach.requirement
            return replace(
                base,
                verdict=Verdict.FAIL if mine else Verdict.BLOCKED,
                reason=breach.reason,
                expected=registry.load()[breach.requirement].title,
                actual=ending(history),
                evidence=base.evidence | error.evidence,
                blocked_by=[] if mine else [breach.requirement],
                general=breach.general,
            )
        case Fail():
            evidence = base.evidence | error.evidence
            if history is not None and "where" in evidence:
                evidence["where"] = labelled(history, evidence["where"])
            if history is not None and (said := history.stderr_tail()):
                evidence.setdefault("stderr", said)
            expected, actual = _seen(error)
            return replace(
                base,
                verdict=Verdict.FAIL,
                reason=error.code,
                expected=expected,
                actual=actual,
                evidence=evidence,
            )
        case Unknown():
            return replace(
                base,
                verdict=Verdict.UNKNOWN,
                reason=error.reason,
                expected=error.expected,
                actual=error.actual,
                evidence=base.evidence | error.evidence,
            )
        case Blocked():
            return replace(
                base, verdict=Verdict.BLOCKED, reason=Reason.LOWER_TIER, actual=str(error)
            )
        case NotPlayed():
            return replace(
                base,
                verdict=Verdict.BLOCKED,
                reason=error.reason,
                actual=str(error),
                blocked_by=[error.requirement],
            )
        case NotClaimed():
            return replace(base, verdict=Verdict.NOT_CLAIMED, actual=str(error))
        case _:
            return replace(
                base,
                verdict=Verdict.KIT_ERROR,
                reason=type(error).__name__,
                expected="the kit to play, record and judge the run",
                actual=str(error)[:2000],
            )


def _seen(error: Fail) -> tuple[str, str]:
    """Return what a failed judge expected, and what it got."""
    if not isinstance(error, WrongOutput):
        return error.expected, error.actual
    expected, actual, summary = words(error.finding)
    return expected, f"{actual} ({summary})"


def sentence(error: Fail) -> str:
    """Return a failed judge in one sentence: its code, what was expected and what was got."""
    expected, actual = _seen(error)
    return f"{error.code}: expected {expected}; got {actual}"


def cause_of(outcome: Outcome) -> Outcome | None:
    """Return the failure of the requirement that blocks another, from the run that shows it.

    None for an outcome that no run blocked, or whose run was not played.
    """
    if outcome.verdict is not Verdict.BLOCKED or outcome.reason == Reason.LOWER_TIER:
        return None
    if not outcome.run:
        return None
    (blocker,) = outcome.blocked_by
    return replace(outcome, requirement=blocker, verdict=Verdict.FAIL, blocked_by=[], seconds=0.0)


def with_causes(outcomes: Iterable[Outcome], gaps: Mapping[str, str]) -> list[Outcome]:
    """Apply known gaps, and add the failures that block some outcomes and are not among them."""
    found = list(outcomes)
    known = {outcome.requirement for outcome in found if outcome.verdict is Verdict.FAIL}
    for cause in filter(None, map(cause_of, found)):
        if cause.requirement not in known:
            known.add(cause.requirement)
            found.append(cause)
    return [with_known_gaps(outcome, gaps) for outcome in found]


def reported(
    selected: Mapping[str, registry.Requirement], outcomes: Collection[Outcome]
) -> dict[str, registry.Requirement]:
    """Return the requirements of a report: the selected, and what blocks or failed beside them.

    A requirement that one run blocked may have failed in another: then only the failure of what
    blocked it is left to tell of it.
    """
    failed = (Verdict.FAIL, Verdict.KNOWN_GAP)
    beside = {blocker for outcome in outcomes for blocker in outcome.blocked_by}
    beside |= {outcome.requirement for outcome in outcomes if outcome.verdict in failed}
    return {**selected, **{id_: one for id_, one in registry.load().items() if id_ in beside}}


def with_known_gaps(outcome: Outcome, gaps: Mapping[str, str]) -> Outcome:
    """Apply engine.toml's known_gaps: a fail listed there is known, a pass is an error.

    A requirement that a run blocked counts as failed: nothing was seen of its promise.
    """
    why = gaps.get(outcome.requirement)
    if why is None or outcome.reason == Reason.LOWER_TIER:
        return outcome
    if outcome.verdict in (Verdict.FAIL, Verdict.BLOCKED):
        return replace(outcome, verdict=Verdict.KNOWN_GAP, evidence=outcome.evidence | {"gap": why})
    if outcome.verdict is Verdict.PASS:
        return replace(
            outcome,
            verdict=Verdict.GAP_FIXED,
            reason=Reason.GAP_FIXED,
            expected=f"the gap listed in known_gaps: {why}",
            actual="the promise holds: remove the entry",
        )
    return outcome


def _evidence(history: History) -> dict[str, Any]:
    evidence: dict[str, Any] = {
        "records": history.input_records,
        "outputs": history.record.outputs,
        "ended": history.ended.how,
    }
    if history.faults:
        evidence["faults"] = _fault_facts(history)
    if history.faults or history.scenario.startswith(PREFIX):
        with contextlib.suppress(ValueError):  # it says more than a schedule can
            evidence["schedule"] = to_toml(from_scenario(history.record.scenario))
    scenario = history.record.scenario
    if scenario.point and len(history.faults) == len(scenario.faults):
        point = Point.from_json(scenario.point)
        evidence["points"] = [met(point, history.faults).to_json()]
    if scaled := scales.costs(history):
        evidence["scales"] = [asdict(one) for one in scaled]
    if history.record.by_symbol:
        evidence["by_symbol"] = history.record.by_symbol
        evidence["inputs"] = history.params["inputs"]
    if history.record.input.symbols:
        evidence["symbols"] = history.record.input.symbols
    if history.record.input.warnings:
        evidence["warnings"] = history.record.input.warnings
    return evidence


def stimulus(history: History) -> str:
    """Say in one line what was done to the engine."""
    sizes = (
        f"{counted(history.input_records, 'record')} in "
        f"{counted(len(history.partitions), 'partition')}"
    )
    kept = [
        f"on an engine kept from {counted(e.served, 'run')}" for e in history.all(events.TakenOver)
    ]
    return played(history.record.scenario, sizes, kept)


def played(scenario: Scenario, sizes: str = "", kept: Iterable[str] = ()) -> str:
    """Return in one line what a scenario plays; ``sizes``: of its input."""
    params = " ".join(f"{k}={v}" for k, v in scenario.params.items())
    parts = [f"{scenario.app} {params}".strip(), sizes, counted(scenario.workers, "worker"), *kept]
    if scenario.checkpoints:
        parts.append(counted(scenario.checkpoints, "checkpoint"))
    return "; ".join(filter(None, [*parts, *map(str, faults_of(scenario.faults))]))


def _fault_facts(history: History) -> list[dict[str, Any]]:
    """Return the evidence of faults for a report."""
    app = apps.of(history)
    return [
        {
            "fault": f.text,
            "pids": list(f.pids),
            "fetched": f.fetched,
            "released": f.released,
            "in_flight": app.in_flight(f),
            "backlog": f.backlog,
            "remaining": f.remaining,
            "outputs": f.outputs,
        }
        for f in history.faults
    ]
