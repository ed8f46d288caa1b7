"""Figures over all runs of an engine: faults that were carried out, silences after kills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history.folder import opened
from tickproof.conformance.performance.recovery import APPS, silences
from tickproof.conformance.performance.survey.result import Recovery
from tickproof.conformance.report.json_report import Report


@dataclass
class RunFigures:
    """Sums over the runs of one engine.

    deaths: faults that killed processes. silences_s: after each kill that shows it.
    """

    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    deaths: int = 0
    silences_s: list[float] = field(default_factory=list)

    @property
    def recovery(self) -> Recovery:
        """Quantiles of the silences: each is one that was measured."""
        if not self.silences_s:
            return Recovery(samples=0, p50_s=None, p95_s=None, longest_s=None)
        p50, p95 = np.quantile(self.silences_s, (0.5, 0.95), method="inverted_cdf").tolist()
        longest = max(self.silences_s)
        return Recovery(
            samples=len(self.silences_s),
            p50_s=round(p50, 3),
            p95_s=round(p95, 3),
            longest_s=round(longest, 3),
        )


def of_sessions(sessions: Iterable[tuple[Path, Report]]) -> RunFigures:
    """Add up the runs of sessions: the folder of each engine, and the report that lies there.

    A run that the kit could not record to its end has no figures.
    """
    found = RunFigures()
    for folder, report in sessions:
        # A folder keeps sessions that came before.
        names = {Path(result.run).parts[1] for result in report.requirements if result.run}
        for name in sorted(names):
            for record in sorted((folder / "runs" / name).rglob("run.json")):
                _add(found, record.parent)
    return found


def _add(found: RunFigures, run: Path) -> None:
    try:
        with opened(run) as history:
            faults = [fault_of(fired.step) for fired in history.faults]
            deaths = sum(fault.kills for fault in faults)
            completed = history.ended.completed
            shows = completed and history.app in APPS and deaths
            seen = silences(history) if shows else []
    except (HistoryError, OSError, ValueError):
        return
    found.runs += 1
    found.faults.update(fault.do for fault in faults)
    found.deaths += deaths
    found.silences_s += seen
