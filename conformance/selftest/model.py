"""selftest.json: every trial of a selftest, and what follows from them.

A trial is one scenario on one engine, a cell one test of it. The problems, the score and
the exit status follow from the trials and from what the mutants name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from tickproof.conformance.report.document import Document, Model
from tickproof.conformance.verdicts import JUDGED, Conclusion, Verdict, concluded

#: Verdicts that no sound engine may get.
_WRONG: Final = (Verdict.FAIL, Verdict.GAP_FIXED, Verdict.KNOWN_GAP)


class Cell(Model):
    """One test on one run.

    reason: code of a fail or an unknown; said: what was seen; headline: of the failure.
    """

    requirement: str
    test: str
    verdict: Verdict
    reason: str
    said: str
    headline: str = ""


class Trial(Model):
    """One scenario on one engine. played: whether there was a run; run: where, if it was kept."""

    subject: str
    scenario: str
    seed: int
    played: bool
    seconds: float = Field(ge=0)
    cells: list[Cell]
    run: str = ""


class Kill(Model):
    """How a requirement that a mutant names judged it.

    killed: a test of it failed the mutant, and said what it should, in its headline too.
    verdict: the worst of its tests.
    """

    requirement: str
    killed: bool
    verdict: Verdict
    reason: str
    said: str
    headline: str = ""


class Subject(Model):
    """An engine that was tried. what: its defect, or its difference; kills: of a mutant only.

    not_claimed: patterns of requirements that a sound variant may leave out; None: any.
    undecided: patterns of those that may stay unknown.
    """

    id: str
    kind: Literal["mutant", "sound"]
    base: str
    what: str
    kills: list[Kill] = []
    not_claimed: list[str] | None = None
    undecided: list[str] = []

    def leaves_out(self, requirement: str) -> bool:
        """Return True if its engine.toml need not claim a requirement."""
        return self.not_claimed is None or _among(requirement, self.not_claimed)

    def stays_open(self, requirement: str) -> bool:
        """Return True if the kit need not decide a requirement."""
        return _among(requirement, self.undecided)

    @property
    def killed(self) -> bool:
        """True if each requirement that the mutant names failed it, as it should."""
        return all(kill.killed for kill in self.kills)


class SelfTest(Document):
    """One selftest: what was tried, how it came out, and what is wrong with the kit.

    runs: scenarios played on sound engines. uncovered: requirements without a mutant.
    survivors: mutants that a requirement they name did not fail. accused: "subject:
    requirement (test)" for each sound engine that was failed, or that claims too little.
    unknown, broken: the same for unknowns of sound engines, and for kit-errors.
    """

    FILE_NAME = "selftest.json"

    kind: Literal["selftest"] = "selftest"
    seed: int
    started: datetime
    ended: datetime
    selection: str
    runs: int
    subjects: list[Subject]
    uncovered: list[str]
    survivors: list[str]
    accused: list[str]
    unknown: list[str]
    broken: list[str]
    killed: int
    mutants: int
    exit_status: int
    trials: list[Trial]
    interrupted: str = Field(
        default="", description="what ended it early; mutants that nothing had killed are left out"
    )

    @model_validator(mode="after")
    def _follows_from_subjects(self) -> Self:
        mutants = [subject for subject in self.subjects if subject.kind == "mutant"]
        if self.mutants != len(mutants) or self.killed != sum(m.killed for m in mutants):
            raise ValueError("mutants, killed: not the counts of the subjects listed")
        if self.survivors != [m.id for m in mutants if not m.killed]:
            raise ValueError("survivors: not the mutants listed that were not killed")
        expected = self.conclusion.status
        if self.exit_status != expected and not self.interrupted:
            raise ValueError(f"exit_status: expected {expected}, got {self.exit_status}")
        return self

    @property
    def conclusion(self) -> Conclusion:
        """How the kit came out, but for what ended the selftest early."""
        wrong = self.uncovered or self.survivors or self.accused
        return conclusion_of(bool(self.broken), bool(wrong), bool(self.unknown), self.trials)

    @property
    def of_sound(self) -> Counter[Verdict]:
        """Count the cells of the sound engines by verdict."""
        sound = {subject.id for subject in self.subjects if subject.kind == "sound"}
        return Counter(
            cell.verdict for trial in self.trials if trial.subject in sound for cell in trial.cells
        )


def conclusion_of(broken: bool, wrong: bool, unknown: bool, trials: Iterable[Trial]) -> Conclusion:
    """Return how a kit came out that broke, is wrong, or left something undecided."""
    judged = any(cell.verdict in JUDGED for trial in trials for cell in trial.cells)
    return concluded(broken=broken, wrong=wrong, unknown=unknown, judged=judged)


def accusations(subject: Subject, trial: Trial) -> tuple[list[str], list[str]]:
    """Return what a sound engine was wrongly accused of, and what stayed unknown."""
    accused, unknown = [], []
    for cell in trial.cells:
        line = f"{subject.id}: {cell.requirement} ({cell.test}, seed {trial.seed}): {cell.verdict}"
        said = f"{line} {cell.reason}: {cell.said}"
        if cell.verdict in _WRONG:
            accused.append(said)
        elif cell.verdict in (Verdict.UNKNOWN, Verdict.BLOCKED):
            if not subject.stays_open(cell.requirement):
                unknown.append(said)
        elif cell.verdict is Verdict.NOT_CLAIMED and not subject.leaves_out(cell.requirement):
            accused.append(f"{line}: {cell.said}; expected it among its not_claimed")
    return accused, unknown


def _among(requirement: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(requirement, pattern) for pattern in patterns)
