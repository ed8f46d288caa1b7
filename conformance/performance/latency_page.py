"""A latency session as one HTML page: verdict, limits, percentiles, latency over time, host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from markupsafe import Markup

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.latency.figures import QUANTILES, QUEUES, RunFigures
from tickproof.conformance.latency.intervals import SECOND_NS
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.latency.samples import latencies
from tickproof.conformance.performance.decision import LimitDecision
from tickproof.conformance.performance.latency_document import LatencySession
from tickproof.conformance.performance.latency_terminal import milliseconds, said
from tickproof.conformance.performance.measurement import RecordedRun, untouched
from tickproof.conformance.report import latency_charts, processes, templates, whole_file
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.latency_charts import Percentiles, Seconds
from tickproof.conformance.report.processes import ProcessUse
from tickproof.conformance.usage import noise
from tickproof.conformance.verdicts import Verdict

#: What is drawn of each second.
LINES: Final[Mapping[str, float]] = {"p50": 0.5, "p99": 0.99, "max": 1.0}
#: Runs whose latency over time is drawn: the slowest ones.
_RUNS: Final = 3
#: A second with fewer answers has no p99.
_FEW: Final = 10

_SENTENCES: Final = {
    Verdict.PASS: "It answers in time: every limit of the profile holds.",
    Verdict.FAIL: "It does not answer in time.",
    Verdict.UNKNOWN: "Whether it answers in time could not be decided.",
    Verdict.KIT_ERROR: "The kit itself broke: this says nothing of the engine.",
}


@dataclass(frozen=True)
class LimitRow:
    """A limit as judged over all runs; times in milliseconds, as text."""

    percentile: str
    limit: str
    low: str
    median: str
    high: str
    runs: int
    verdict: Verdict
    reason: str


def html(document: LatencySession, folder: Path) -> str:
    """Return the page of a session.

    folder: has the runs as run-N; one that cannot be read costs its picture only.
    """
    profile, runs, decision = document.profile, document.runs, document.decision
    return templates.render(
        "latency.html.j2",
        document=document,
        queue_words=QUEUES,
        verdict=decision.verdict,
        sentence=_SENTENCES.get(decision.verdict, ""),
        limits=[_limit(one) for one in decision.limits],
        percentiles=_percentiles(profile, runs),
        over_time=[(run, *_over_time(folder, run, profile)) for run in _slowest(runs)],
        reasons=[(one.code, said(one, document.host)) for one in decision.reasons],
    )


def write(document: LatencySession, folder: Path) -> Path:
    """Write report.html beside latency.json; returns its path. Raises OSError."""
    return whole_file.write(folder / PAGE_NAME, html(document, folder))


def _limit(found: LimitDecision) -> LimitRow:
    values = [us for us in found.values_us if us is not None]
    return LimitRow(
        found.percentile,
        milliseconds(found.limit_us),
        milliseconds(min(values, default=None)),
        milliseconds(float(np.median(values)) if values else None),
        milliseconds(max(values, default=None)),
        len(values),
        found.verdict,
        found.reason,
    )


def _percentiles(profile: Profile, runs: Sequence[RunFigures]) -> Markup | None:
    lines = [
        Percentiles("floor", f"floor of run {run.number}", run.floor) for run in runs if run.floor
    ]
    lines += [
        Percentiles("outputs", f"run {run.number}, seed {run.seed}", run.percentiles)
        for run in runs
        if run.percentiles
    ]
    if not lines:
        return None
    title = "Latency by percentile: each run, the floor of the kit, and the limits"
    return latency_charts.by_percentile(lines, profile.limits, QUANTILES, title)


def _slowest(runs: Sequence[RunFigures]) -> list[RunFigures]:
    """Return the slowest runs by p99, those without percentiles first."""
    ordered = sorted(runs, key=lambda run: -run.percentiles.get("p99", math.inf))
    return ordered[:_RUNS]


def _over_time(
    folder: Path, run: RunFigures, profile: Profile
) -> tuple[Markup | str, Sequence[ProcessUse], Markup | None]:
    """Draw a run and its processes; say why where it cannot be drawn."""
    played = folder / f"run-{run.number}"

    def read() -> tuple[Seconds, list[ProcessUse]]:
        recorded = RecordedRun(played)
        used = processes.of_run(recorded.history, recorded.table.t0_ns)
        return _seconds(recorded, profile), used

    try:
        seconds, used = untouched(played, read)
    except (HistoryError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}", (), None
    usage = processes.picture(used, seconds.seconds, f"Processes of run {run.number}")
    if not any(np.isfinite(values).any() for values in seconds.lines_us.values()):
        return "it has no answers", used, usage
    drawn = latency_charts.over_time(seconds, f"Latency of run {run.number} over time")
    return drawn, used, usage


def _seconds(run: RecordedRun, profile: Profile) -> Seconds:
    """Return the percentiles of each second by intended time, and which seconds were noisy."""
    t0_ns, end_ns = run.table.t0_ns, run.table.end_ns
    starts = np.arange(t0_ns, max(end_ns, t0_ns + 1), SECOND_NS)
    lines = {name: np.full(len(starts), np.nan) for name in LINES}
    for number, start in enumerate(starts.tolist()):
        values = latencies(run.answers.due(start, start + SECOND_NS)) / 1e3
        for name, share in LINES.items():
            if len(values) > (_FEW if name == "p99" else 0):
                lines[name][number] = np.quantile(values, share, method="inverted_cdf")
    seen = noise.seconds(run.history)
    loud = noise.noisy(seen, hiccup_us=profile.host.hiccup_us, foreign=profile.host.foreign)
    noisy = [
        ((start - t0_ns) / 1e9, (start - t0_ns) / 1e9 + 1)
        for start in seen.starts_ns[loud].tolist()
    ]
    kill_s = None if run.kill_ns is None else (run.kill_ns - t0_ns) / 1e9
    return Seconds(
        (starts - t0_ns) / 1e9 + 0.5,
        lines,
        max((end_ns - t0_ns) / 1e9, 1.0),
        noisy,
        (run.steady_ns - t0_ns) / 1e9,
        kill_s,
    )
