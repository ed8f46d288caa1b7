"""selftest.json: every trial of a selftest, and what follows from them.

A trial is one scenario on one engine, a cell one test of it. The problems, the score and
the exit status follow from the trials and from what the mutants name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tickproof.conformance.report import whole_file
from tickproof.conformance.report.json_report import Host, Kit
from tickproof.conformance.verdicts import (
    EXIT_FAIL,
    EXIT_KIT_ERROR,
    EXIT_NOT_JUDGED,
    EXIT_OK,
    EXIT_UNKNOWN,
    JUDGED,
    Verdict,
)

FORMAT: Final = 1
FILE_NAME: Final = "selftest.json"
#: Verdicts that no sound engine may get.
_WRONG: Final = (Verdict.FAIL, Verdict.GAP_FIXED, Verdict.KNOWN_GAP)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cell(_Model):
    """One test on one run.

    reason: code of a fail or an unknown; said: what was seen; headline: of the failure.
    """

    requirement: str
    test: str
    verdict: Verdict
    reason: str
    said: str
    headline: str = ""


class Trial(_Model):
    """One scenario on one engine. played: whether there was a run; run: where, if it was kept."""

    subject: str
    scenario: str
    seed: int
    played: bool
    seconds: float = Field(ge=0)
    cells: list[Cell]
    run: str = ""


class Kill(_Model):
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


class Subject(_Model):
    """An engine that was tried. what: its defect, or its difference; kills: of a mutant only.

    not_claimed: patterns of requirements that a sound variant may leave out; None: any.
    """

    id: str
    kind: Literal["mutant", "sound"]
    base: str
    what: str
    kills: list[Kill] = []
    not_claimed: list[str] | None = None

    @property
    def killed(self) -> bool:
        """Whether each requirement that the mutant names failed it, as it should."""
        return all(kill.killed for kill in self.kills)


class SelfTest(_Model):
    """One selftest: what was tried, how it came out, and what is wrong with the kit.

    runs: scenarios played on sound engines. uncovered: requirements without a mutant.
    survivors: mutants that a requirement they name did not fail. accused: "subject:
    requirement (test)" for each sound engine that was failed, or that claims too little.
    unknown, broken: the same for unknowns of sound engines, and for kit-errors.
    """

    format: Literal[1] = FORMAT
    kit: Kit
    host: Host
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
        expected = status(
            bool(self.broken),
            bool(self.uncovered or self.survivors or self.accused),
            bool(self.unknown),
            self.trials,
        )
        if self.exit_status != expected and not self.interrupted:
            raise ValueError(f"exit_status: expected {expected}, got {self.exit_status}")
        return self

    @property
    def of_sound(self) -> Counter[Verdict]:
        """Count the cells of the sound engines by verdict."""
        sound = {subject.id for subject in self.subjects if subject.kind == "sound"}
        return Counter(
            cell.verdict for trial in self.trials if trial.subject in sound for cell in trial.cells
        )


def status(broken: bool, wrong: bool, unknown: bool, trials: Iterable[Trial]) -> int:
    """Return the exit status of a kit that broke, is wrong, or left something undecided.

    Trials that came to no judgement at all are not green.
    """
    if broken:
        return EXIT_KIT_ERROR
    if wrong:
        return EXIT_FAIL
    if not any(cell.verdict in JUDGED for trial in trials for cell in trial.cells):
        return EXIT_NOT_JUDGED
    return EXIT_UNKNOWN if unknown else EXIT_OK


def accusations(subject: Subject, trial: Trial) -> tuple[list[str], list[str]]:
    """Return what a sound engine was wrongly accused of, and what stayed unknown."""
    accused, unknown = [], []
    for cell in trial.cells:
        line = f"{subject.id}: {cell.requirement} ({cell.test}, seed {trial.seed}): {cell.verdict}"
        said = f"{line} {cell.reason}: {cell.said}"
        if cell.verdict in _WRONG:
            accused.append(said)
        elif cell.verdict in (Verdict.UNKNOWN, Verdict.BLOCKED):
            unknown.append(said)
        elif cell.verdict is Verdict.NOT_CLAIMED and not (
            subject.not_claimed is None
            or any(fnmatchcase(cell.requirement, pattern) for pattern in subject.not_claimed)
        ):
            accused.append(f"{line}: {cell.said}; expected it among its not_claimed")
    return accused, unknown


def write(report: SelfTest, folder: Path) -> Path:
    """Write selftest.json into a folder, whole or not at all; returns its path."""
    return whole_file.write(folder / FILE_NAME, report.model_dump_json(indent=1) + "\n")
