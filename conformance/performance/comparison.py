"""Subjects side by side: the first is the one that the others are held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.errors import RequestError
from tickproof.conformance.latency.statistics import Ratio, ratio
from tickproof.conformance.performance.subject import Figure, Subject
from tickproof.conformance.text import shown, told_apart
from tickproof.conformance.verdicts import (
    DOES_NOT_APPLY,
    EXIT_FAIL,
    EXIT_NOT_JUDGED,
    EXIT_OK,
    JUDGED,
    Verdict,
)

#: How good a verdict is for a user of the engine, best first. A gap that is fixed is a promise
#: that holds; one that is not made, or said not to hold, is worth the same.
_GOOD: Final = {
    Verdict.PASS: 0, Verdict.GAP_FIXED: 0, Verdict.NOT_CLAIMED: 1, Verdict.KNOWN_GAP: 1,
    Verdict.UNKNOWN: 2, Verdict.BLOCKED: 2, Verdict.FAIL: 3, Verdict.KIT_ERROR: 4,
}  # fmt: skip
_LOAD: Final = 1000
#: What is worse than this does not hold, whatever it is held against.
_NO_WORSE: Final = _GOOD[Verdict.UNKNOWN]


@dataclass(frozen=True)
class VerdictRow:
    """One requirement; ``verdicts`` of all subjects, None if one says nothing of it.

    applies: whether it could say something of each subject. not_asked: why each was not asked
    for it, "" if it was, or if its session says nothing of that.
    """

    id: str
    title: str
    tier: int
    verdicts: tuple[Verdict | None, ...]
    applies: tuple[bool, ...]
    not_asked: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """True if two subjects that say something of it differ."""
        return len({one for one in self.verdicts if one is not None}) > 1

    def worse(self) -> list[int]:
        """Return which subjects are worse off than the first."""
        first, *rest = self.verdicts
        return [
            number
            for number, one in enumerate(rest, 1)
            if first is not None and one is not None and _GOOD[one] > _GOOD[first]
        ]

    def compared(self, at: int) -> bool:
        """True if it was judged for the first subject and for another one, or is worse there."""
        return {self.verdicts[0], self.verdicts[at]} <= JUDGED or at in self.worse()

    def lacks(self, at: int) -> bool:
        """True if it was judged for the first subject and, though it applies, not for another."""
        return self.verdicts[0] in JUDGED and self.applies[at] and not self.compared(at)

    def alone(self, at: int) -> bool:
        """Return True if only another subject than the first was asked for it."""
        return self.verdicts[0] is None and self.applies[0] and self.verdicts[at] is not None

    def asked(self, at: int) -> bool:
        """Return True if a subject was asked for it, and says how that came out."""
        return self.verdicts[at] is not None and not self.not_asked[at]


@dataclass(frozen=True)
class FigureCell:
    """A figure of one subject: its median over ``runs``, and over that of the first.

    ratio: None for the first, and where there are too few runs for an interval.
    """

    median: float
    runs: int
    ratio: Ratio | None
    worse: bool = False


@dataclass(frozen=True)
class FigureRow:
    """One figure of all subjects, None where one has none."""

    name: str
    unit: str
    better: str
    cells: tuple[FigureCell | None, ...]

    def compared(self, at: int) -> bool:
        """Return True if another subject has enough runs for a ratio to the first."""
        cell = self.cells[at]
        return cell is not None and cell.ratio is not None

    def lacks(self, at: int) -> bool:
        """Return True if the first subject has the figure, and another has no ratio to it."""
        return self.cells[0] is not None and not self.compared(at)


@dataclass(frozen=True)
class NotAsked:
    """Requirements that ``engine`` was not asked for one and the same reason, and ``other`` was."""

    engine: str
    other: str
    why: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Overlap:
    """What of the first subject was compared with ``engine``, by requirement or figure.

    missing: judged or measured for the first alone. extra: requirements of the engine alone;
    failed: those of them that do not hold. not_asked: what claims and apps left out on one side.
    """

    engine: str
    compared: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    failed: tuple[str, ...]
    not_asked: tuple[NotAsked, ...]

    @property
    def whole(self) -> bool:
        """True if nothing of the first is missing, and nothing fails that it cannot be held to."""
        return not self.missing and not self.failed


@dataclass(frozen=True)
class Comparison:
    """All that is compared. threshold: a figure has to be worse by more than this part.

    names: of the subjects, none twice. basis: under what load figures were measured.
    only_common: pass over what was not judged for all. notes: what a reader has to know of the
    sessions.
    """

    names: tuple[str, ...]
    verdicts: tuple[VerdictRow, ...]
    figures: tuple[FigureRow, ...]
    threshold: float
    basis: str = ""
    only_common: bool = False
    notes: tuple[str, ...] = ()

    @property
    def undecided(self) -> list[tuple[str, FigureRow, Ratio]]:
        """(subject, figure, ratio) of what looks worse, and may be chance."""
        return [
            (self.names[at], row, cell.ratio)
            for row in self.figures
            for at, cell in enumerate(row.cells)
            if cell is not None and cell.ratio is not None and not cell.worse
            if _worse_by(cell.ratio.estimate, row.better) > 1 + self.threshold
        ]

    @property
    def regressions(self) -> list[tuple[str, str]]:
        """(subject, requirement or figure) of all that is worse than with the first subject."""
        found = [(self.names[at], row.id) for row in self.verdicts for at in row.worse()]
        return found + [
            (self.names[at], row.name)
            for row in self.figures
            for at, cell in enumerate(row.cells)
            if cell is not None and cell.worse
        ]

    @property
    def overlaps(self) -> list[Overlap]:
        """The overlap of the first subject with each of the others."""
        return [self._overlap(at) for at in range(1, len(self.names))]

    def _overlap(self, at: int) -> Overlap:
        rows, figures = self.verdicts, self.figures
        extra = [row for row in rows if row.alone(at)]
        return Overlap(
            self.names[at],
            (
                *(one.id for one in rows if one.compared(at)),
                *(one.name for one in figures if one.compared(at)),
            ),
            (
                *(one.id for one in rows if one.lacks(at)),
                *(one.name for one in figures if one.lacks(at)),
            ),
            tuple(row.id for row in extra),
            tuple(row.id for row in extra if (one := row.verdicts[at]) and _GOOD[one] > _NO_WORSE),
            (*self._not_asked(at, 0), *self._not_asked(0, at)),
        )

    def _not_asked(self, at: int, other: int) -> Iterator[NotAsked]:
        """Yield what one subject was not asked and another one was, by reason."""
        ids: dict[str, list[str]] = {}
        for row in self.verdicts:
            if row.not_asked[at] and row.asked(other):
                ids.setdefault(row.not_asked[at], []).append(row.id)
        for why, found in ids.items():
            yield NotAsked(self.names[at], self.names[other], why, tuple(found))

    @property
    def status(self) -> int:
        """The exit status: nothing that was not compared is green."""
        if self.regressions:
            return EXIT_FAIL
        overlaps = self.overlaps
        if not all(one.compared for one in overlaps):
            return EXIT_NOT_JUDGED
        whole = self.only_common or all(one.whole for one in overlaps)
        return EXIT_OK if whole else EXIT_NOT_JUDGED

    @property
    def same(self) -> Counter[Verdict]:
        """Requirements that came out the same for all subjects."""
        rows = [row.verdicts for row in self.verdicts if not row.changed]
        return Counter(row[0] for row in rows if row[0] is not None and None not in row)


def compare(
    subjects: Sequence[Subject], threshold: float, *, only_common: bool = False
) -> Comparison:
    """Hold subjects against the first of them.

    Raises RequestError for jobs beside engines, and for figures of different loads.
    """
    if len(kinds := {one.of_job: one.where for one in subjects}) > 1:
        raise RequestError(
            "SESSION: expected sessions of engines, or sessions of jobs, because nothing is asked "
            f"of both; got {kinds[True]} of a job and {kinds[False]} of an engine"
        )
    basis = _one_load(subjects)
    results = {id_: one for subject in subjects for id_, one in subject.results.items()}
    verdicts = [
        VerdictRow(
            id_,
            one.title,
            one.tier,
            tuple(
                subject.results[id_].verdict if id_ in subject.results else None
                for subject in subjects
            ),
            tuple(
                not subject.not_asked.get(id_, "").startswith(DOES_NOT_APPLY)
                for subject in subjects
            ),
            tuple(subject.not_asked.get(id_, "") for subject in subjects),
        )
        for id_, one in results.items()
    ]
    figures = {name: one for subject in subjects for name, one in subject.figures.items()}
    rows = [
        FigureRow(
            one.name,
            one.unit,
            one.better,
            tuple(
                _cell(
                    subjects[0].figures.get(name),
                    subject.figures.get(name),
                    threshold,
                    first=number == 0,
                )
                for number, subject in enumerate(subjects)
            ),
        )
        for name, one in figures.items()
    ]
    verdicts.sort(key=lambda row: row.tier)
    named, which = told_apart([one.engine for one in subjects], [one.where for one in subjects])
    notes = [*filter(None, [which]), *dict.fromkeys(said for one in subjects for said in one.notes)]
    made = [one.made for one in subjects]
    if len({*filter(None, made)}) > 1:
        each = "; ".join(f"{name}: {how}" for name, how in zip(named, made, strict=True) if how)
        notes.append(f"These sessions were not made alike: {each}")
    return Comparison(
        tuple(named), tuple(verdicts), tuple(rows), threshold, basis, only_common, tuple(notes)
    )


def _one_load(subjects: Sequence[Subject]) -> str:
    """Return the load of all figures in words; raises RequestError with what differs."""
    loads: dict[str, Subject] = {}
    for one in subjects:
        if one.basis:
            loads.setdefault(_words(one.basis), one)
    if len(loads) > 1:
        all_of_them = frozenset.intersection(
            *(frozenset(one.basis.items()) for one in loads.values())
        )
        said = "; ".join(
            f"{one.where}: {_words(dict(one.basis.items() - all_of_them))}"
            for one in loads.values()
        )
        raise RequestError(f"SESSION: figures of different loads cannot be compared: {said}")
    return next(iter(loads), "")


def _words(load: Mapping[str, str]) -> str:
    return shown(", ".join(f"{key} {load[key]}" for key in sorted(load)), _LOAD)


def _cell(
    before: Figure | None, after: Figure | None, threshold: float, *, first: bool
) -> FigureCell | None:
    if after is None:
        return None
    median, runs = float(np.median(after.values)), len(after.values)
    found = None if first or before is None else ratio(before.values, after.values)
    if found is None:
        return FigureCell(median, runs, None)
    least = found.low if after.better == "lower" else found.high
    return FigureCell(median, runs, found, worse=_worse_by(least, after.better) > 1 + threshold)


def _worse_by(times: float, better: str) -> float:
    """Return how many times worse a figure is that is so many times another one."""
    return times if better == "lower" else 1 / times
