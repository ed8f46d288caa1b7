"""A job on trial in a test of its own: the fixture ``tickproof`` of pytest.

def test_each_order_counts_once(tickproof):
    tickproof.job("job.toml").survives("worker").exactly_once()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads this module for every project that has the kit installed
    from tickproof.conformance.jobs.declaration import Claim, Death, Job
    from tickproof.conformance.report.json_report import Report


@dataclass(frozen=True)
class JobOnTrial:
    """A job with its claims; ``out``: where its runs and reports go."""

    job: Job
    out: Path
    seed: int

    def survives(self, *deaths: Death) -> JobOnTrial:
        """Claim to survive these deaths ("worker", "engine") in place of those of job.toml."""
        return replace(self, job=self.job.claiming(survives=list(deaths)))

    def exactly_once(self) -> Report:
        """Judge the job; the test fails with the report unless each record counts exactly once."""
        return self._judged("exactly-once")

    def at_least_once(self) -> Report:
        """Judge the job; the test fails with the report unless each record counts."""
        return self._judged("at-least-once")

    def _judged(self, claim: Claim) -> Report:
        from tickproof.conformance.jobs import session
        from tickproof.conformance.report import style

        job = self.job.claiming(state=claim, delivery=claim)
        console = style.console()
        with console.capture() as printed:
            report = session.run(job, session.Settings(self.out, self.seed), console)
        if report.exit_status:
            pytest.fail(printed.get(), pytrace=False)
        return report


@dataclass(frozen=True)
class Jobs:
    """The jobs that a test can name; ``folder``: that of the test."""

    folder: Path
    out: Path
    seed: int

    def job(self, path: str | Path) -> JobOnTrial:
        """Load a job.toml, or the one in a folder; raises InvalidFile with all its errors."""
        from tickproof.conformance.jobs import declaration

        return JobOnTrial(declaration.load(self.folder / path), self.out, self.seed)


@pytest.fixture
def tickproof(request: pytest.FixtureRequest) -> Jobs:
    """Return what loads a job.toml that lies beside the test.

    --tickproof-seed decides which kills its runs get; the default is the same in each session.
    """
    option = request.config.option
    return Jobs(request.path.parent, Path(option.tickproof_out), option.tickproof_seed)
