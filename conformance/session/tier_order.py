"""Outcomes in the order of tiers: which count, and which are blocked by a tier below."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.spec import load
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.scenarios import Scenarios
from tickproof.conformance.suites.catalog import CATALOG, JUDGES, seconds
from tickproof.conformance.suites.requirement import Requirement
from tickproof.conformance.verdicts import (
    MISSED_FAULT,
    SEVERITY,
    WORTH_ANOTHER_RUN,
    Outcome,
    Reason,
    Verdict,
)

#: In the folder of a session: a tier is finished and does not hold.
BROKEN_FILE: Final = "broken"
#: Verdicts of runs in which everything was done that was asked for.
_PLAYED: Final = (Verdict.PASS, Verdict.FAIL)
#: Seconds that a run takes beside its input, about: only to tell how much is left.
_LIFE_S: Final = 2.0
OnEvent = Callable[[dict[str, Any]], None]


class TierOrder:
    """Puts outcomes into the order of tiers, as they come from tests of several at a time.

    No process waits for the slowest test of a tier, so tests of the next one have already
    run when a tier turns out to be broken. Their outcomes do not count: they are blocked, and have
    the verdict as evidence, "played".
    ``runs`` gets a note of that; None for a session that is over. ``expected`` has requirement and
    scenario of each test; None: as the engine's claims say.
    """

    def __init__(
        self,
        engine: Path,
        request: Request,
        selected: Mapping[str, Requirement],
        runs: Path | None,
        on_event: OnEvent,
        expected: Iterable[tuple[str, str]] | None = None,
    ) -> None:
        self._runs, self.on_event = runs, on_event
        self._blocking = not request.only
        #: Scenarios to play again, each once: the machine left their outcomes open.
        self._again: set[str] = set()
        self._played_again: set[str] = set()
        self._tier_of = {id_: requirement.tier for id_, requirement in selected.items()}
        #: Requirement and scenario of each outcome that is still to come.
        self.awaited = _expected(engine, request, selected) if expected is None else set(expected)
        #: The first run that met a full disk: one cause, and one kit-error.
        self.full: Outcome | None = None
        self._stopped = ""
        self._found: list[Outcome] = []
        self._played: set[str] = set()
        #: What blocks outcomes, with the tier of the tests that it left nothing to judge.
        self._causes: list[tuple[int, Outcome]] = []
        self.tiers = set(self._tier_of.values())
        self._waiting = sorted(self.tiers)
        #: Requirements that did not hold in a tier that is finished.
        self.broken: list[str] = []
        self._decided_so_far: dict[str, Outcome] = {}
        self._begin(self._waiting[0])

    @property
    def outcomes(self) -> list[Outcome]:
        """One for each requirement of the finished tiers, and for what blocks one of them."""
        return list(self._decided_so_far.values())

    def add(self, outcome: Outcome, causes: Iterable[Outcome] = ()) -> None:
        """Take the outcome of one test, and the failures that block it.

        These may be of a requirement of another tier, or of none that was selected: they
        count with the tier of the test. What the machine left open is kept for another run, and
        is awaited until that is over.
        """
        if outcome.reason == Reason.NO_SPACE:
            if self.full is not None:
                return
            self.full = outcome
        if self._leaves_open(outcome):
            self._again.add(outcome.scenario)
            return
        self._found.append(outcome)
        self._causes += [(self._tier_of[outcome.requirement], cause) for cause in causes]
        self.awaited.discard((outcome.requirement, outcome.scenario))
        self._count(outcome.scenario)
        now = self._waiting[0] if self._waiting and not self.broken else None
        if now is not None and self._tier_of.get(outcome.requirement) == now:
            self._decided(outcome)
        while self._waiting and not self._undecided(self._waiting[0]):
            self._finish(self._waiting.pop(0))

    def _count(self, scenario: str) -> None:
        """Tell how much is played once nothing more is awaited of a scenario."""
        left = {name for _, name in self.awaited}
        if scenario in left or scenario in self._played:
            return
        self._played.add(scenario)
        done_s = sum(map(_seconds, self._played))
        self.on_event(
            {
                "event": "scenario-judged",
                "done": len(self._played),
                "of": len(self._played | left),
                "done_s": done_s,
                "of_s": done_s + sum(map(_seconds, left)),
            }
        )

    def _leaves_open(self, outcome: Outcome) -> bool:
        """Tell whether an outcome is an unknown that another run may decide."""
        open_ = outcome.verdict is Verdict.UNKNOWN and outcome.reason in WORTH_ANOTHER_RUN
        return open_ and outcome.scenario not in self._played_again

    def to_play_again(self) -> tuple[str, ...]:
        """Return the scenarios that the machine left open; what they give next counts."""
        again, self._again = self._again if not self.broken else set(), set()
        self._played_again |= again
        # What that run lacked, the next may have.
        self._found = [
            one
            for one in self._found
            if one.verdict is not Verdict.UNKNOWN or one.scenario not in again
        ]
        return tuple(sorted(again))

    def finish(self, tiers: Iterable[int]) -> None:
        """Finish tiers of which no more tests will come."""
        for tier in sorted(set(tiers) & set(self._waiting)):
            self._waiting.remove(tier)
            self._finish(tier)

    def stop(self, why: str) -> None:
        """Finish all tiers with what was judged so far; ``why`` the rest was not, in words."""
        self._stopped = why
        self.finish(self.tiers)

    def points(self) -> list[Point]:
        """Return the points of the fault space that were played so far."""
        return [Point.from_json(row) for row in _points(self._found)]

    def scenarios(self, tiers: Iterable[int]) -> set[str]:
        """Return the scenarios that tests of some tiers still need."""
        return {scenario for tier in tiers for _, scenario in self._undecided(tier)}

    def _undecided(self, tier: int) -> list[tuple[str, str]]:
        return sorted(pair for pair in self.awaited if self._tier_of[pair[0]] == tier)

    def _finish(self, tier: int) -> None:
        if self.broken:
            self._block(tier)
        else:
            lost = [self._lost(*pair) for pair in self._undecided(tier)]
            for outcome in lost if not self._stopped else ():
                self._decided(outcome)
            found = [one for one in self._found if self._tier_of.get(one.requirement) == tier]
            causes = self._new_causes(tier, found)
            for outcome in causes:
                self._decided(outcome)
            earlier = [*self._decided_so_far.values()]
            decided = folded(by_requirement([*earlier, *found, *lost, *causes]))
            # A failure that nobody asked for is not told beside the one that it is folded into.
            self._decided_so_far = {
                one.requirement: one
                for one in decided
                if one.requirement in self._tier_of or one.verdict is not Verdict.BLOCKED
            }
            bad = {Verdict.FAIL, Verdict.GAP_FIXED, Verdict.KIT_ERROR}
            if self._blocking:
                self.broken += [
                    one.requirement
                    for one in decided
                    if one.verdict in bad and one.reason != Reason.NO_SPACE
                ]
            if self.broken and self._runs is not None:
                (self._runs / BROKEN_FILE).touch()  # what has not begun need not be played
        if self._waiting:
            self._begin(self._waiting[0])

    def _lost(self, requirement: str, scenario: str) -> Outcome:
        """Return the outcome of a test that no process decided."""
        if self._stopped:
            return Outcome(
                requirement,
                Verdict.UNKNOWN,
                scenario,
                reason=Reason.INTERRUPTED,
                expected="an outcome",
                actual=f"none: the session was {self._stopped}",
            )
        return Outcome(
            requirement,
            Verdict.KIT_ERROR,
            scenario,
            reason=Reason.NOT_DECIDED,
            expected="an outcome",
            actual="none: the process that tested it ended",
        )

    def _new_causes(self, tier: int, found: Iterable[Outcome]) -> list[Outcome]:
        """Return the failures that block tests of a tier and that no test of it shows itself."""
        failed = (Verdict.FAIL, Verdict.KNOWN_GAP)
        known = {one.requirement for one in found if one.verdict in failed}
        causes: dict[str, Outcome] = {}
        for of_tier, cause in self._causes:
            if of_tier == tier and cause.requirement not in known:
                causes.setdefault(cause.requirement, cause)
        return list(causes.values())

    def _begin(self, tier: int) -> None:
        """Tell of a tier, and of those of its outcomes that came before its turn."""
        self.on_event({"event": "tier-started", "tier": tier})
        for outcome in self._found if not self.broken else ():
            if self._tier_of.get(outcome.requirement) == tier:
                self._decided(outcome)

    def _decided(self, outcome: Outcome) -> None:
        self.on_event({"event": "decided", "outcome": outcome.to_json()})

    def _block(self, tier: int) -> None:
        more = " and more" if len(self.broken) > 3 else ""
        why = f"{', '.join(self.broken[:3])}{more} did not hold"
        for requirement in (id_ for id_, of in self._tier_of.items() if of == tier):
            if requirement in self._decided_so_far:
                continue  # it failed in the run of another
            outcome = self._so_far(requirement)
            if outcome is None or outcome.verdict is not Verdict.NOT_CLAIMED:
                played = {"played": str(outcome.verdict)} if outcome else {}
                outcome = Outcome(
                    requirement,
                    Verdict.BLOCKED,
                    reason=Reason.LOWER_TIER,
                    actual=why,
                    evidence=played,
                    blocked_by=list(self.broken),
                )
            self._decided(outcome)
            self._decided_so_far[requirement] = outcome

    def _so_far(self, requirement: str) -> Outcome | None:
        """Return what the tests of a requirement found that were over by now."""
        found = by_requirement(one for one in self._found if one.requirement == requirement)
        return found[0] if found else None


@functools.cache
def _seconds(scenario: str) -> float:
    """Estimate how long a scenario takes, in seconds."""
    return _LIFE_S + (seconds(scenario) if scenario in CATALOG else 0.0)


def _expected(
    engine: Path, request: Request, selected: Mapping[str, Requirement]
) -> set[tuple[str, str]]:
    """Return requirement and scenario of each test that has to have an outcome."""
    asked = Scenarios(load(engine), request).tests()
    judged = {id_ for judges in JUDGES.values() for id_, _ in judges}
    tests = {(id_, scenario) for id_, scenario, _ in asked if id_ in selected}
    return tests | {(id_, "") for id_ in selected.keys() - judged}


def by_requirement(found: Iterable[Outcome]) -> list[Outcome]:
    """Return one outcome for each requirement, in the order in which they came."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in found:
        groups.setdefault(outcome.requirement, []).append(outcome)
    return [combined(group) for group in groups.values()]


def _points(found: Iterable[Outcome]) -> list[dict[str, str]]:
    """Return the points of the fault space that outcomes are of, as `Point.to_json` has them."""
    return [
        point
        for outcome in found
        if outcome.verdict in _PLAYED
        for point in outcome.evidence.get("points", ())
    ]


def folded(found: list[Outcome]) -> list[Outcome]:
    """Return the outcomes with one failure for each cause.

    A run that broke off fails what made it special only where a plain run does not break off
    in the same way: then that is the failure, and it blocks the other.
    """
    reasons = {one.requirement: one.reason for one in found if one.verdict is Verdict.FAIL}

    def fold(outcome: Outcome) -> Outcome:
        general = outcome.general
        if outcome.verdict is not Verdict.FAIL or general in ("", outcome.requirement):
            return outcome
        if reasons.get(general) != outcome.reason:
            return outcome
        return replace(outcome, verdict=Verdict.BLOCKED, blocked_by=[general])

    after = [fold(outcome) for outcome in found]
    roots = {
        one.requirement: now.blocked_by
        for one, now in zip(found, after, strict=True)
        if one.verdict is not now.verdict
    }
    # What a folded failure blocked is blocked by what that one is folded into.
    return [
        replace(one, blocked_by=[root for by in one.blocked_by for root in roots.get(by, [by])])
        if one.blocked_by
        else one
        for one in after
    ]


def combined(found: list[Outcome]) -> Outcome:
    """Return the worst of several outcomes of one requirement, with the time of all.

    Of equals one on a recorded market is shown, because its counts are asked for, and a claim that
    is missing before an app that is.
    A gap that one test shows is not fixed because another test does not show it.
    """
    considered = found
    if any(outcome.verdict is Verdict.KNOWN_GAP for outcome in found):
        considered = [outcome for outcome in found if outcome.verdict is not Verdict.GAP_FIXED]
    if points := _points(found):
        # A point of the fault space that was missed is not covered, which the report says.
        considered = [
            one
            for one in considered
            if one.verdict is not Verdict.UNKNOWN or one.reason not in MISSED_FAULT
        ]

    def rank(outcome: Outcome) -> tuple[int, bool, bool]:
        claims = not outcome.actual.startswith("offers ")
        return SEVERITY.index(outcome.verdict), "by_symbol" in outcome.evidence, claims

    worst = max(considered, key=rank)
    evidence = worst.evidence | ({"points": points} if points else {})
    seconds = round(sum(outcome.seconds for outcome in found), 3)
    return replace(worst, seconds=seconds, evidence=evidence)
