"""A search as one HTML page: what it tried, and the failure that it found, with its story."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from tickproof.conformance.report import templates, whole_file
from tickproof.conformance.report.document import PAGE_NAME, Document, Model
from tickproof.conformance.report.json_report import FaultSpace, Result
from tickproof.conformance.report.page import MOST_PAIRS, entries
from tickproof.conformance.verdicts import SEVERITY, Verdict

_SENTENCES: Final = {
    Verdict.PASS: "No schedule broke it.",
    Verdict.FAIL: "A schedule broke it.",
    Verdict.UNKNOWN: "No run had its evidence.",
    Verdict.KIT_ERROR: "The kit itself broke: this says nothing of the engine.",
}


class Failure(Model):
    """A failure that a search found: the result of the smallest schedule, and its history."""

    kind: str = Field(description="requirement and code")
    confidence: str = Field(description="how many runs of the smallest schedule failed: 3 of 3")
    first: str = Field(description="the schedule that failed first, as TOML")
    smallest: str = Field(description="the smallest that fails, as TOML")
    shape: str = Field(description="how it was shrunk, in words")
    shrink_seconds: float
    others: dict[str, int] = Field(description="other failures on the way, and how often")
    saved: str = Field(description="where the smallest schedule was saved")
    result: Result


class SearchReport(Document):
    """A search that has ended."""

    FILE_NAME = "explore.json"

    kind: Literal["explore"] = "explore"
    engine: str = Field(description="name and version")
    command: str = Field(description="searches the same again")
    seed: int
    verdicts: dict[Verdict, int]
    faults_fired: int
    faults_missed: int
    failure: Failure | None = None
    broke: Result | None = Field(default=None, description="the kit's own error that ended it")
    fault_space: FaultSpace | None = None
    interrupted: str = Field(default="", description="what ended it early, in words")

    @property
    def result(self) -> Result | None:
        """The result that the search ended with, if it did."""
        return self.failure.result if self.failure else self.broke

    @property
    def verdict(self) -> Verdict:
        """The verdict of the search on the engine."""
        if self.result is not None:
            return self.result.verdict
        return Verdict.PASS if self.verdicts.get(Verdict.PASS) else Verdict.UNKNOWN


def html(report: SearchReport, folder: Path) -> str:
    """Return the page of a search; ``folder``: what the run of its failure is named from."""
    (entry,) = entries([report.result], folder) if report.result else (None,)
    counts = report.verdicts
    return templates.render(
        "explore.html.j2",
        report=report,
        failure=report.failure,
        entry=entry,
        sentence=_SENTENCES[report.verdict],
        runs=sum(counts.values()),
        counts=[
            (one, report.verdicts[one]) for one in reversed(SEVERITY) if one in report.verdicts
        ],
        most_pairs=MOST_PAIRS,
    )


def write(report: SearchReport, folder: Path) -> Path:
    """Write report.html beside explore.json; returns its path. Raises OSError."""
    return whole_file.write(folder / PAGE_NAME, html(report, folder))
