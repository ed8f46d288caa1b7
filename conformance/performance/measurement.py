"""Figures of a recorded round, which a verdict rests on, from its folders alone.

The answers are judged first, by the judges of the suites: a fast answer that is wrong
earns no figure.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.explain.outcomes import sentence
from tickproof.conformance.history import seal
from tickproof.conformance.history.folder import History, made_input_removed
from tickproof.conformance.history.rows import TICK, TICKS_FILE
from tickproof.conformance.history.run_record import Ending
from tickproof.conformance.hosts.model import Attestation, HostError
from tickproof.conformance.latency import intervals, percentiles, statistics
from tickproof.conformance.latency.figures import QUANTILES, RunFigures
from tickproof.conformance.latency.intervals import SECOND_NS
from tickproof.conformance.latency.phases import Phase, phases, recovery
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.latency.samples import (
    Answers,
    Timetable,
    answers,
    latencies,
    lateness_ns,
    steady_ns,
    timetable,
)
from tickproof.conformance.performance.limits import ACHIEVED_LEAST, KILL_MISSED
from tickproof.conformance.suites.judge import Fail, KitError, Unknown
from tickproof.conformance.suites.require import earns_figures, require_correct
from tickproof.conformance.usage import noise

HOST_FILE: Final = "host.json"
HLOG_FILE: Final = "latency.hlog"
#: A trend with a p-value below this is no accident.
SURE: Final = 0.01
#: Percentiles of bytes in sockets.
_OF_QUEUES: Final = ("p50", "p99")


class RecordedRun:
    """One recorded run with a pace; limit_us: p99 is back under it after a kill.

    null: the run of the null engine, which answers nothing but what is tagged, if anything is.
    """

    def __init__(self, folder: Path, limit_us: float = 0.0, *, null: bool = False) -> None:
        self.history = History(folder)
        self._limit_us, self._null = limit_us, null

    @cached_property
    def table(self) -> Timetable:
        """Times at which records were due and published."""
        return timetable(self.history)

    @cached_property
    def answers(self) -> Answers:
        """The answers that are measured."""
        found = answers(self.history)
        return found.where(found.tagged) if self._null and found.tagged.any() else found

    @cached_property
    def steady_ns(self) -> int:
        """The end of the warm-up."""
        return steady_ns(self.history)

    @cached_property
    def kill_ns(self) -> int | None:
        """Time of the kill, None without one."""
        return self.history.faults[0].t_ns if self.history.faults else None

    @property
    def until_ns(self) -> int:
        """The end of the steady phase that comes first: the kill, or the end of the input."""
        return self.table.end_ns if self.kill_ns is None else self.kill_ns

    @cached_property
    def recovery_s(self) -> float | None:
        """Seconds from the kill until p99 is back under its limit."""
        if self.kill_ns is None:
            return None
        return recovery(self.answers, self.kill_ns, self._limit_us)

    @cached_property
    def phases(self) -> np.ndarray:
        """Phase of each answer."""
        came_back = float("inf") if self.recovery_s is None else self.recovery_s
        return phases(self.answers, self.steady_ns, self.kill_ns, came_back, self._limit_us)

    @cached_property
    def is_steady(self) -> np.ndarray:
        """True for answers that are neither of the warm-up nor of a recovery (bool)."""
        return (self.phases == Phase.STEADY) | (self.phases == Phase.RECOVERED)

    @cached_property
    def _as_of_kill(self) -> Answers:
        """The answers; one that a kill delayed counts with what it had waited by then."""
        if self.kill_ns is None:
            return self.answers
        arrived = self.answers.arrived_ns.copy()
        held = (self.answers.intended_ns < self.kill_ns) & (arrived > self.kill_ns)
        arrived[held] = self.kill_ns
        return replace(self.answers, arrived_ns=arrived)

    @cached_property
    def steady(self) -> Answers:
        """The answers that are neither of the warm-up nor of a recovery."""
        return self._as_of_kill.where(self.is_steady)

    def quiet(self, noisy: np.ndarray) -> Answers:
        """Return the steady answers that are not ``noisy``, see there."""
        return self._as_of_kill.where(self.is_steady & ~noisy)

    @cached_property
    def load(self) -> intervals.Sustained:
        """The measure of the load, over the first steady phase."""
        found = intervals.loads(
            self.history, self.table, self.answers, self.steady_ns, self.until_ns
        )
        return intervals.sustained(found, self.steady_ns, self.until_ns)

    @property
    def sustained(self) -> bool:
        """True if percentiles of this run mean anything."""
        return self.load.achieved >= ACHIEVED_LEAST and self.load.backlog_growth <= 0

    @cached_property
    def medians_us(self) -> np.ndarray:
        """Median latency of each whole second of the first steady phase that has answers."""
        found = []
        for start in range(self.steady_ns, self.until_ns - SECOND_NS + 1, SECOND_NS):
            values = latencies(self.answers.due(start, start + SECOND_NS))
            if len(values):
                found.append(float(np.median(values)) / 1_000)
        return np.array(found)

    def late_us(self) -> dict[str, float]:
        """Return the percentiles of how late the generator was, without the warm-up."""
        ticks = self.history.table(TICKS_FILE, TICK)
        late = lateness_ns(ticks, self.table.t0_ns, self.table.tick_ns)
        return _percentiles(late[(self.steady_ns - self.table.t0_ns) // self.table.tick_ns :])

    def hiccup_us(self) -> dict[str, float]:
        """Return the percentiles of all hiccups between warm-up and the end of the input."""
        found = [
            rows["late_ns"][(rows["t_ns"] >= self.steady_ns) & (rows["t_ns"] <= self.table.end_ns)]
            for rows in self.history.hiccups.values()
        ]
        return _percentiles(np.concatenate([np.empty(0, np.int64), *found]))

    def noisy(self, profile: Profile) -> tuple[np.ndarray, float]:
        """Return which answers noise may have delayed (bool), and the share of noisy seconds.

        Those are the answers that waited in a noisy second, as long as the largest limit allows:
        what is slower than that cannot hide behind noise that comes later. Of the seconds those
        of the warm-up are left out.
        """
        seconds = noise.seconds(self.history)
        noisy = noise.noisy(seconds, hiccup_us=profile.host.hiccup_us, foreign=profile.host.foreign)
        if not len(noisy):
            return np.ones(len(self.answers), bool), 1.0
        due = self.answers.intended_ns
        longest_ns = round(max(profile.limits.values(), default=0.0) * 1_000)
        until = np.minimum(np.maximum(self.answers.arrived_ns, due), due + longest_ns)
        first, last = (
            ((t_ns - seconds.starts_ns[0]) // SECOND_NS).clip(0, len(noisy) - 1)
            for t_ns in (due, until)
        )
        before = np.concatenate(([0], np.cumsum(noisy)))  # noisy seconds before each
        measured = noisy[seconds.starts_ns + SECOND_NS > self.steady_ns]
        share = float(measured.mean()) if len(measured) else 1.0
        return before[last + 1] > before[first], share

    def disturbed(self, profile: Profile) -> float:
        """Return the share of the seconds after the warm-up in which others took too much."""
        seconds = noise.seconds(self.history)
        found = noise.disturbed(seconds, foreign=profile.host.foreign)
        measured = found[seconds.starts_ns + SECOND_NS > self.steady_ns]
        return float(measured.mean()) if len(measured) else 0.0

    def queues(self) -> dict[str, dict[str, float]]:
        """Return the percentiles of bytes in the engine's sockets, between warm-up and the end.

        Empty where nobody looked at them.
        """
        rows = self.history.usage
        within = (rows["t_ns"] >= self.steady_ns) & (rows["t_ns"] <= self.table.end_ns)
        rows = rows[within & (rows["recv_queue"] >= 0)]
        looks, which = np.unique(rows["t_ns"], return_inverse=True)
        if not len(looks):
            return {}
        return {
            name: _of_bytes(np.bincount(which, rows[column]))
            for name, column in (("received", "recv_queue"), ("sent", "send_queue"))
        }

    def write_hlog(self) -> None:
        """Write the latencies by second and phase into the run's folder; raises OSError."""
        record = self.history.record
        epoch_ns = round(record.started * 1e9) - record.started_ns
        rows = intervals.interval_histograms(self.answers, self.phases, self.table.t0_ns)
        percentiles.write_hlog(self.history.folder / HLOG_FILE, rows, epoch_ns=epoch_ns)
        seal.renew(self.history.folder, HLOG_FILE)


def untouched(folder: Path, look: Callable[[], Any]) -> Any:
    """Call ``look``, and remove the input where it was made again for it."""
    with made_input_removed(folder):
        return look()


def figures(folder: Path, number: int, profile: Profile, *, hlog: bool = False) -> RunFigures:
    """Return the figures of round ``number`` from its folders run-N and floor-N in ``folder``.

    hlog: write the .hlog files of both too. Raises HistoryError for a folder that is not
    whole, OSError.
    """
    run = RecordedRun(folder / f"run-{number}", profile.limits.get("p99", 0.0))
    null = RecordedRun(folder / f"floor-{number}", null=True)
    ended, wrong = _judged(run.history)
    found = RunFigures(
        number,
        run.history.record.seed,
        run.history.folder.name,
        ended,
        wrong,
        host_changed=_host_changed(run.history.folder),
        floor=_floor(null),
    )
    if hlog and found.floor:
        null.write_hlog()
    if ended != "completed" or wrong:
        return found
    if hlog:
        run.write_hlog()
    return _measured(found, run, null, profile)


def _measured(
    found: RunFigures, run: RecordedRun, null: RecordedRun, profile: Profile
) -> RunFigures:
    """Add the figures of a run that completed with the right answers."""
    noisy, share = run.noisy(profile)
    values, quiet = latencies(run.steady), latencies(run.quiet(noisy))
    change, sure = _trend(run, null if found.floor else None)
    if run.kill_ns is not None:
        left = recovery(run.answers, run.kill_ns, profile.limits["p99"], ~noisy)
        found = replace(found, recovery_s=run.recovery_s, quiet_recovery_s=left)
    return replace(
        found,
        samples=len(values),
        unanswered=len(run.steady) - len(values),
        percentiles=_percentiles(values) if run.sustained else {},
        quiet_samples=len(quiet),
        quiet_percentiles=_percentiles(quiet) if run.sustained else {},
        late=run.late_us(),
        hiccup=run.hiccup_us(),
        noisy=share,
        disturbed=run.disturbed(profile),
        achieved=run.load.achieved,
        backlog_growth=run.load.backlog_growth,
        trend=change,
        trend_sure=sure,
        queues=run.queues(),
    )


def _percentiles(values_ns: np.ndarray) -> dict[str, float]:
    return percentiles.percentiles_us(values_ns.clip(0)) if len(values_ns) else {}


def _of_bytes(sums: np.ndarray) -> dict[str, float]:
    found = {name: np.quantile(sums, QUANTILES[name], method="inverted_cdf") for name in _OF_QUEUES}
    return {name: float(value) for name, value in found.items()} | {"max": float(sums.max())}


def floor_of(folder: Path) -> dict[str, float]:
    """Return the percentiles of a recorded floor, microseconds; empty where it fell behind."""
    return _floor(RecordedRun(folder, null=True))


def _floor(null: RecordedRun) -> dict[str, float]:
    if not null.history.ended.completed or not null.sustained:
        return {}
    return _percentiles(latencies(null.steady))


def _judged(history: History) -> tuple[Ending, str]:
    """Return how a run ended, and what was wrong with it, or "".

    A run that was broken off by nobody knows whom counts as the kit's failure.
    """
    how = history.ended.how
    try:
        if how == "engine-failure":
            require_correct(history)  # a wrong answer says more than the failure after it
        earns_figures(history)
    except Fail as fail:
        failed = how == "engine-failure" and fail.code == history.ended.code
        return (how if failed else "completed"), sentence(fail)
    except (Unknown, KitError) as error:
        # Where the kill did not come, or no answer, figures say so.
        told = isinstance(error, Unknown) and error.reason in (KILL_MISSED, "NOT_SEEN")
        return ("completed", "") if told else ("kit-error", str(error))
    return how, ""


def _trend(run: RecordedRun, null: RecordedRun | None) -> tuple[float, bool]:
    """Return the relative change of the median over the run, and whether it is one.

    It is none where the floor's median moved by as much.
    """
    medians = run.medians_us
    if len(medians) < 2:
        return 0.0, False
    change = statistics.relative_change(medians)
    moved = abs(change) * float(np.median(medians))
    if null is not None and len(null.medians_us) >= 2:
        still = null.medians_us
        moved -= abs(statistics.relative_change(still)) * float(np.median(still))
    return change, moved > 0 and statistics.mann_kendall(medians) < SURE


def _host_changed(folder: Path) -> list[str]:
    """Return the probes whose value was another after the run."""
    path = folder / HOST_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        before, after = (Attestation.from_json(data[name]) for name in ("before", "after"))
        return before.changed(after)
    except (OSError, ValueError, KeyError, TypeError, HostError) as error:
        raise HistoryError(f"{path}: expected the host before and after: {error}") from error
