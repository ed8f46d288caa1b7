"""A search as one HTML page: what it tried, and the failure that it found, with its story."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tickproof.conformance.faults.space.sessions import Coverage
from tickproof.conformance.report import templates, whole_file
from tickproof.conformance.report.document import PAGE_NAME, this_host, this_kit
from tickproof.conformance.report.json_report import Result
from tickproof.conformance.report.page import MOST_PAIRS, entries
from tickproof.conformance.verdicts import SEVERITY, Verdict

_SENTENCES: Final = {
    Verdict.PASS: "No schedule broke it.",
    Verdict.FAIL: "A schedule broke it.",
    Verdict.UNKNOWN: "No run had its evidence.",
    Verdict.KIT_ERROR: "The kit itself broke: this says nothing of the engine.",
}


@dataclass(frozen=True)
class Failure:
    """What a search found. result: of the smallest schedule, or of the kit where that broke.

    first, smallest: the schedules, as TOML. confidence: how many of its runs failed, "3 of 3".
    shape: how it was shrunk, in words. saved: where it was saved. others: kind of each other
    failure to its number.
    """

    result: Result
    first: str = ""
    smallest: str = ""
    confidence: str = ""
    shape: str = ""
    saved: str = ""
    others: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchReport:
    """A search that has ended. command: what searches the same again; engine: with version.

    interrupted: what ended it early, in words, or "".
    """

    engine: str
    command: str
    seed: int
    verdicts: Counter[Verdict]
    fired: int
    missed: int
    covered: Coverage
    failure: Failure | None = None
    interrupted: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the search says of the engine."""
        if self.failure is not None:
            return self.failure.result.verdict
        return Verdict.PASS if self.verdicts[Verdict.PASS] else Verdict.UNKNOWN


def html(report: SearchReport, folder: Path) -> str:
    """Return the page of a search; ``folder``: what the run of its failure is named from."""
    failure, covered = report.failure, report.covered
    (entry,) = entries([failure.result], folder) if failure else (None,)
    verdicts = report.verdicts
    return templates.render(
        "explore.html.j2",
        report=report,
        failure=failure,
        entry=entry,
        sentence=_SENTENCES[report.verdict],
        counts=[(one, verdicts[one]) for one in reversed(SEVERITY) if verdicts[one]],
        pairs=len(covered.all_pairs),
        most_pairs=MOST_PAIRS,
        missing=sorted((str(one), str(other)) for one, other in covered.missing),
        kit=this_kit(),
        host=this_host(),
    )


def write(report: SearchReport, folder: Path) -> Path:
    """Write report.html beside explore.json; returns its path. Raises OSError."""
    return whole_file.write(folder / PAGE_NAME, html(report, folder))
