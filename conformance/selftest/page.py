"""A selftest as one HTML page: the score, what is wrong, every mutant and every sound engine."""

from __future__ import annotations

from pathlib import Path

from tickproof.conformance.report import templates, whole_file
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.selftest import matrix
from tickproof.conformance.selftest.model import SelfTest
from tickproof.conformance.selftest.terminal import score
from tickproof.conformance.suites import registry


def html(report: SelfTest) -> str:
    """Return the page of a selftest."""
    known = registry.load()
    return templates.render(
        "selftest.html.j2",
        report=report,
        verdict=report.conclusion.look,
        score=score(report),
        problems=matrix.problems(report),
        sound=matrix.sound_rows(report),
        mutants=[subject for subject in report.subjects if subject.kind == "mutant"],
        requirements=[
            (known[requirement], rows) for requirement, rows in matrix.by_requirement(report)
        ],
    )


def write(report: SelfTest, folder: Path) -> Path:
    """Write report.html beside selftest.json; returns its path. Raises OSError."""
    return whole_file.write(folder / PAGE_NAME, html(report))
