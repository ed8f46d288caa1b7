"""The matrix requirement x test x mutant, by row: what failed, passed, stayed unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tickproof.conformance.selftest.model import SelfTest, Subject
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Verdict


@dataclass
class Row:
    """One test of a requirement; each list holds ids of mutants that played its scenario.

    named: failed, and it is a requirement that the mutant names. others: failed besides.
    passed, unknown: what it could not tell from a sound engine, for want of a difference or
    of evidence. sound: how many runs of sound engines it passed.
    """

    requirement: str
    test: str
    named: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    sound: int = 0


def rows(report: SelfTest) -> list[Row]:
    """Return the rows in the order of the registry, then of the tests' names."""
    subjects = {subject.id: subject for subject in report.subjects}
    found: dict[tuple[str, str], Row] = {}
    for trial in report.trials:
        subject = subjects[trial.subject]
        for cell in trial.cells:
            key = cell.requirement, cell.test
            row = found.setdefault(key, Row(*key))
            if subject.kind == "sound":
                row.sound += cell.verdict is Verdict.PASS
                continue
            named = any(kill.requirement == cell.requirement for kill in subject.kills)
            lists = {
                Verdict.FAIL: row.named if named else row.others,
                Verdict.PASS: row.passed,
                Verdict.UNKNOWN: row.unknown,
            }
            if cell.verdict in lists:
                lists[cell.verdict].append(subject.id)
    order = list(registry.load())
    return sorted(found.values(), key=lambda row: (order.index(row.requirement), row.test))


@dataclass(frozen=True)
class SoundRow:
    """A sound engine: how often it was played, and how many verdicts it got of each kind."""

    subject: Subject
    runs: int
    passed: int
    not_claimed: int
    other: int


def sound_rows(report: SelfTest) -> list[SoundRow]:
    """Return a row for each sound engine."""
    found = []
    for subject in report.subjects:
        if subject.kind == "sound":
            trials = [trial for trial in report.trials if trial.subject == subject.id]
            counts = Counter(cell.verdict for trial in trials for cell in trial.cells)
            passed, absent = counts[Verdict.PASS], counts[Verdict.NOT_CLAIMED]
            runs = sum(trial.played for trial in trials)
            found.append(SoundRow(subject, runs, passed, absent, counts.total() - passed - absent))
    return found


def by_requirement(report: SelfTest) -> Iterator[tuple[str, list[Row]]]:
    """Yield each requirement of the matrix with its rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows(report):
        groups.setdefault(row.requirement, []).append(row)
    yield from groups.items()


def problems(report: SelfTest) -> list[tuple[str, list[str]]]:
    """Return what is wrong with the kit, worst first: (what, the cases); no empty ones."""
    survivors = []
    for subject in report.subjects:
        for kill in subject.kills:
            if not kill.killed:
                survivors.append(
                    f"{subject.id}: {kill.requirement} says {kill.verdict} {kill.reason}: "
                    f"{kill.said or 'nothing was wrong'}"
                    + (f" (headline: {kill.headline})" if kill.headline else "")
                )
    found = [
        ("the kit itself broke", report.broken),
        ("a sound engine was failed, or claims too little", report.accused),
        ("a mutant survived", survivors),
        ("a requirement has no mutant", report.uncovered),
        ("unknown on a sound engine", report.unknown),
    ]
    return [(what, cases) for what, cases in found if cases]
