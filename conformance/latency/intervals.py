"""A run second by second, and whether its load was sustained.

Backlog is what was due and is not done. An engine of micro-batches has a backlog that rises
and falls by a batch, however sound it is; growth is what remains between the highest points.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency.percentiles import Interval, histogram
from tickproof.conformance.latency.phases import Phase
from tickproof.conformance.latency.samples import Answers, Timetable, latencies
from tickproof.conformance.latency.statistics import least_slope, theil_sen

SECOND_NS: Final = 1_000_000_000
#: Backlog is looked at so often, and its highest point taken over at least so long.
_LOOK_NS: Final = 10_000_000
_WINDOW_NS: Final = 100_000_000
#: Teeth behind a growth: fewer say nothing.
_FEWEST: Final = 6
#: A growth is surely more than this share of the rate; in all it is at least this share of
#: the usual backlog, and what is due in so many seconds: a busy machine leaves as much.
_LEAST_OF_RATE: Final = 0.001
_LEAST_OF_BACKLOG: Final = 0.12
_LEAST_S: Final = 0.05
#: Shares of a growth that have to come in the first and in the second half of the time: a
#: single step is no growth, nor is one that comes to rest, as in an engine that warms up.
_EARLY: Final = 0.2
_LATE: Final = 0.35
#: What an engine may have in its hands at the end of a phase counts as done if it comes
#: within this time, or twice its usual lag.
_GRACE_NS: Final = 1_000_000_000
#: Releases tell what is done where they come at least so many times in a phase.
_RELEASES: Final = 8


@dataclass(frozen=True)
class Steps:
    """A count that only rises: from ``t_ns[i]`` on it is ``totals[i]``. Both int64, ascending."""

    t_ns: np.ndarray
    totals: np.ndarray

    def at(self, t_ns: np.ndarray) -> np.ndarray:
        """Return the count at each time."""
        place = np.searchsorted(self.t_ns, t_ns, side="right")
        if not len(self.totals):
            return np.zeros(len(place), np.int64)
        return np.where(place > 0, self.totals[place - 1], 0)

    def reached(self, total: float) -> int | None:
        """Return the first time at which the count is at least ``total``, None if never."""
        at = int(np.searchsorted(self.totals, total))
        return int(self.t_ns[at]) if at < len(self.t_ns) else None

    @classmethod
    def of_events(cls, t_ns: np.ndarray) -> Steps:
        """Count events at the given times, in any order."""
        return cls(np.sort(t_ns), np.arange(1, len(t_ns) + 1))

    @classmethod
    def of_partitions(cls, rows: np.ndarray, field: str) -> Steps:
        """Add up the ends that the partitions of a table (FETCH, RELEASE) have reached."""
        times, gains = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        where = rows["stream"].astype(np.int64) << 16 | rows["partition"]
        for one in np.unique(where):
            mine = rows[where == one]
            reached = np.maximum.accumulate(mine[field].astype(np.int64))
            times.append(mine["t_ns"])
            gains.append(np.diff(reached, prepend=0))
        t_ns, gained = np.concatenate(times), np.concatenate(gains)
        t_ns, gained = t_ns[gained > 0], gained[gained > 0]
        order = np.argsort(t_ns, kind="stable")
        return cls(t_ns[order], np.cumsum(gained[order]))


@dataclass(frozen=True)
class Load:
    """Records due and records done; ``weight``: records of the input behind each."""

    due: Steps
    done: Steps
    weight: float = 1.0

    def backlog(self, t_ns: np.ndarray) -> np.ndarray:
        """Return the records of the input (float) that are due and not done at each time."""
        return np.maximum(self.due.at(t_ns) - self.done.at(t_ns), 0) * self.weight


def loads(
    history: History, table: Timetable, answers: Answers, start_ns: int, end_ns: int
) -> list[Load]:
    """Return the ways in which work was due and done between two times.

    By answers, always. For market-spread, where few records have an answer, also by all
    records: released, if the engine releases at least _RELEASES times in that time, else
    fetched.
    """
    due = np.diff(table.plan.sum(axis=1).astype(np.int64))
    whole = Steps(table.due_ns(np.arange(len(due))), np.cumsum(due))
    weight = int(due.sum()) / len(answers) if len(answers) else 1.0
    arrived = Steps.of_events(answers.arrived_ns[answers.answered])
    intended = Steps(answers.intended_ns, np.arange(1, len(answers) + 1))
    found = [Load(intended, arrived, weight)]
    if apps.of(history).sparse:
        released = Steps.of_partitions(history.releases, "offset")
        steady = end_ns - start_ns
        regular = _longest_rest(released, start_ns, end_ns) <= steady / _RELEASES
        fetched = Steps.of_partitions(history.fetches, "end")
        found.append(Load(whole, released if regular else fetched))
    return found


def _longest_rest(done: Steps, start_ns: int, end_ns: int) -> int:
    """Return for how long (ns) a count stood still at most between two times."""
    moved = done.t_ns[slice(*np.searchsorted(done.t_ns, [start_ns, end_ns]))]
    return int(np.diff(np.concatenate(([start_ns], moved, [end_ns]))).max())


def growth(load: Load, start_ns: int, end_ns: int) -> float:
    """Return by how many records a second the backlog grew between two times; 0.0: it did not.

    The slope of Theil and Sen through the highest points of its teeth. It counts where its
    lower bound (99.9 %, Kendall) is above a thousandth of the rate, where it adds an eighth of
    the usual backlog and 50 ms of load at least, and where it came neither in one step nor
    to rest.
    """
    if end_ns - start_ns < _FEWEST * _WINDOW_NS:
        return 0.0
    edges = _teeth(load.done, start_ns, end_ns)
    if len(edges) - 1 < _FEWEST:
        return 0.0
    highest = np.array(
        [
            load.backlog(np.append(np.arange(low, high, _LOOK_NS), high - 1)).max()
            for low, high in pairwise(edges.tolist())
        ]
    )
    seen_s = edges[1:] / 1e9
    slope, lower = theil_sen(seen_s, highest), least_slope(seen_s, highest)
    seconds = (end_ns - start_ns) / 1e9
    ends = load.due.at(np.array([start_ns, end_ns]))
    rate = (ends[1] - ends[0]) * load.weight / seconds
    first, middle, last = (float(np.median(part)) for part in np.array_split(highest, 3))
    rise = last - first
    lasting = middle - first >= _EARLY * rise and last - middle >= _LATE * rise
    least = max(_LEAST_OF_BACKLOG * float(np.median(highest)), _LEAST_S * rate)
    much = slope * seconds >= least
    return slope if lower > _LEAST_OF_RATE * rate and much and lasting else 0.0


def _teeth(done: Steps, start_ns: int, end_ns: int) -> np.ndarray:
    """Return times between which the backlog rises and falls at least once (int64, ascending).

    Each is one at which something was done, and lies at least half as far behind the one
    before as the usual time in which nothing is done: half of all time lies in longer ones.
    """
    moved = done.t_ns[slice(*np.searchsorted(done.t_ns, [start_ns, end_ns]))]
    rests = np.sort(np.diff(np.concatenate(([start_ns], moved, [end_ns]))))
    usual = rests[np.searchsorted(np.cumsum(rests), (end_ns - start_ns) // 2)]
    least = max(_WINDOW_NS, int(usual) // 2)
    edges = [start_ns]
    while (place := int(np.searchsorted(moved, edges[-1] + least))) < len(moved):
        edges.append(int(moved[place]))
    return np.array(edges)


def achieved(load: Load, start_ns: int, end_ns: int) -> float:
    """Return the share of what was due between two times that was done, 0.0 to 1.0.

    What was due a little before the end has until the end: a second, or twice the usual
    lag, but at most half of the time. 1.0 where nothing was due.
    """
    before, last = load.due.at(np.array([start_ns, end_ns]) - 1)
    if last <= before:
        return 1.0
    looks = np.arange(start_ns, end_ns, _LOOK_NS)
    # The lag: for how long as much as is done now has been due.
    done = np.minimum(load.done.at(looks), load.due.at(looks))
    oldest = np.searchsorted(load.due.totals, done, side="right")
    oldest = np.minimum(oldest, len(load.due.t_ns) - 1)
    lag = np.maximum(looks - load.due.t_ns[oldest], 0)
    grace = min(max(_GRACE_NS, 2 * int(np.median(lag))), (end_ns - start_ns) // 2)
    wanted = load.due.at(np.array([end_ns - grace - 1]))[0] - before
    done_by_end = load.done.at(np.array([end_ns]))[0] - before
    return float(np.clip(done_by_end / wanted, 0.0, 1.0)) if wanted > 0 else 1.0


@dataclass(frozen=True)
class Sustained:
    """Measure of a sustained load. achieved: share. backlog_growth: records a second, 0.0: none."""

    achieved: float
    backlog_growth: float


def sustained(found: list[Load], start_ns: int, end_ns: int) -> Sustained:
    """Return the worst of several ways to see a load between two times."""
    return Sustained(
        min(achieved(load, start_ns, end_ns) for load in found),
        max(growth(load, start_ns, end_ns) for load in found),
    )


def interval_histograms(answers: Answers, phase: np.ndarray, start_ns: int) -> list[Interval]:
    """Return a histogram for each second from ``start_ns`` on and each phase with answers in it.

    ``phase``: Phase of each record. Raises ValueError for a latency out of range.
    """
    found = []
    last = int(answers.intended_ns[-1]) if len(answers) else start_ns - 1
    for start in range(start_ns, last + 1, SECOND_NS):
        here = slice(*np.searchsorted(answers.intended_ns, [start, start + SECOND_NS]))
        mine, phases_here = answers.where(here), phase[here]
        for one in Phase:
            values = latencies(mine.where(phases_here == one))
            if len(values):
                found.append(Interval(start, SECOND_NS, one.tag, histogram(values)))
    return found
