"""A run of tier 5 by its numbers: what was due and answered when, and which of it to trust.

Pure functions of a history. Noise only ever makes latency worse: what holds in noisy
seconds holds, and what is broken in them has to be broken in quiet ones, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tickproof.conformance.errors import HistoryError, InvalidFile
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency.figures import QUANTILES, shown_us
from tickproof.conformance.latency.intervals import Load, Steps, growth
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.latency.samples import Answers, Timetable, answers, timetable
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.suites.evidence import cached
from tickproof.conformance.suites.judge import Unknown
from tickproof.conformance.usage import noise
from tickproof.conformance.verdicts import Reason

SECOND_NS: Final = 1_000_000_000
#: Probes and other orders are compared within a partition and so many nanoseconds.
WINDOW_NS: Final = 100_000_000
#: Fewer probes in a window have no median worth the name.
_PROBES: Final = 5
#: What is done by the end of the schedule and the limit of p99 more.
ACHIEVED: Final = 0.999
#: A level that is new: so many times the old one, and so much (ns) above it.
TIMES: Final = 2.0
STEADY_NS: Final = 10_000_000
AHEAD_NS: Final = 1_000_000
#: The rate is looked at at the end of each of so many last seconds.
_ENDS: Final = 3
#: A backlog grows that would add so much of the limit of p99 over the measured time.
_PART_OF_P99: Final = 0.25
#: Seconds on each side of a rise; samples behind the median of a second.
_SIDE: Final = 3
_SAMPLES: Final = 20
#: Of the seconds on each side of a rise, so many agree.
_AGREE: Final = 0.8


@dataclass(frozen=True)
class Service:
    """The measured part of a run, from the end of its warm-up to the end of its schedule.

    answers: of the records due in it. starts_ns: its seconds. quiet: which of them were
    (bool). calm: which answers were under way in quiet seconds only (bool).
    """

    profile: Profile
    table: Timetable
    start_ns: int
    end_ns: int
    answers: Answers
    starts_ns: np.ndarray
    quiet: np.ndarray
    calm: np.ndarray

    def since(self, begins_ns: np.ndarray) -> np.ndarray:
        """Return how long each answer took (float64 ns); inf where none came."""
        waited = (self.answers.arrived_ns - begins_ns).astype(np.float64)
        return np.where(self.answers.answered, waited, np.inf)

    @property
    def p99_us(self) -> float:
        """The limit of p99; of a profile that has none, its highest one."""
        limits = self.profile.limits
        return limits.get("p99", max(limits.values()))

    def lateness(self, start_ns: int, end_ns: int) -> np.ndarray:
        """Return by how much each tick due in [start, end) was published late (ns, ascending)."""
        due = self.table.due_ns(np.arange(len(self.table.published_ns)))
        chosen = (due >= start_ns) & (due < end_ns)
        return np.sort((self.table.published_ns - due)[chosen])

    def at_seconds(self, t_ns: np.ndarray) -> np.ndarray:
        """Return the number of the second that each time lies in, the nearest for others."""
        at = (t_ns - self.starts_ns[0]) // SECOND_NS
        return np.clip(at, 0, len(self.starts_ns) - 1)


@cached
def every_answer(history: History) -> Answers:
    """Return what the run measures, from its first tick on."""
    return answers(history)


@cached
def service(history: History) -> Service:
    """Return the numbers of a run; raises HistoryError where it was no run of tier 5."""
    try:
        profile = Profile.from_json(history.record.service.profile)
        pace = history.record.scenario.pace
        if pace is None:
            raise TypeError("no pace")
    except (TypeError, InvalidFile) as error:
        path = history.folder / "run.json"
        why = f"service.profile, scenario.pace: {error!r}: expected a run of tier 5"
        raise HistoryError(f"{path}: {why}") from error
    table, found = timetable(history), every_answer(history)
    start_ns = table.t0_ns + round(pace.warm_up_s * 1e9)
    measured = found.due(start_ns, table.end_ns)
    looked = noise.seconds(history)
    host = profile.host
    loud = noise.noisy(looked, hiccup_us=host.hiccup_us, foreign=host.foreign)
    begins = np.arange(start_ns, table.end_ns, SECOND_NS)
    quiet = _quiet(begins, looked.starts_ns, loud)
    return Service(
        profile,
        table,
        start_ns,
        table.end_ns,
        measured,
        begins,
        quiet,
        _calm(measured, begins, quiet),
    )


def _quiet(begins: np.ndarray, looked_ns: np.ndarray, loud: np.ndarray) -> np.ndarray:
    """Return which seconds touch none that was noisy; where nobody looked, it was."""
    quiet = np.zeros(len(begins), bool)
    for number, begin in enumerate(begins.tolist()):  # one a second: few
        touched = (looked_ns < begin + SECOND_NS) & (looked_ns + SECOND_NS > begin)
        quiet[number] = touched.any() and not loud[touched].any()
    return quiet


def _calm(found: Answers, begins: np.ndarray, quiet: np.ndarray) -> np.ndarray:
    """Return which answers were under way in quiet seconds only."""
    if not len(begins):
        return np.zeros(len(found), bool)
    last = np.where(found.answered, found.arrived_ns, found.intended_ns)
    ends = [
        np.clip((t - begins[0]) // SECOND_NS, 0, len(begins) - 1) for t in (found.intended_ns, last)
    ]
    noisy_before = np.concatenate(([0], np.cumsum(~quiet)))
    return noisy_before[ends[1] + 1] == noisy_before[ends[0]]


# -- limits ------------------------------------------------------------------------------


def percentile(values: np.ndarray, name: str) -> float:
    """Return a percentile: the smallest value with its share of ``values`` at or below it."""
    rank = math.ceil(len(values) * QUANTILES[name] - 1e-9) - 1
    return float(np.partition(values, rank)[rank])


def excess_us(found: Service, name: str, waits: np.ndarray) -> float | None:
    """Return the percentile that passes its limit, of quiet seconds alone; None: it holds.

    ``waits``: ns, one for each answer. Raises Unknown where there are too few, or where the
    excess is gone with the noise.
    """
    limit, needed = found.profile.limits[name], samples_needed(QUANTILES[name])
    if len(waits) < needed:
        raise Unknown(Reason.TOO_FEW_SAMPLES, f"{needed:,} samples for {name}", f"{len(waits):,}")
    value = percentile(waits, name) / 1_000
    if value <= limit:
        return None
    calm = waits[found.calm]
    seen = f"{name} {shown_us(value)}, limit {shown_us(limit)}"
    if len(calm) < needed:
        raise Unknown(
            Reason.HOST_NOISE,
            f"{needed:,} samples for {name} from quiet seconds",
            f"{len(calm):,}: {found.quiet.sum()} of {len(found.quiet)} seconds were quiet; {seen}",
        )
    value = percentile(calm, name) / 1_000
    if value <= limit:
        raise Unknown(
            Reason.HOST_NOISE,
            "a limit passed in quiet seconds, or in none",
            f"{seen}; {shown_us(value)} without the noisy seconds",
        )
    return value


# -- late as early -----------------------------------------------------------------------


def medians(found: Service) -> np.ndarray:
    """Return the median latency (ns) of each second, NaN where there are too few samples."""
    at = found.at_seconds(found.answers.intended_ns)
    waits = found.since(found.answers.intended_ns)
    edges = np.searchsorted(at, np.arange(len(found.starts_ns) + 1))
    # A median of inf (most of a second unanswered) is a level, too.
    return np.array(
        [
            percentile(waits[low:high], "p50") if high - low >= _SAMPLES else np.nan
            for low, high in pairwise(edges.tolist())
        ]
    )


def rise(early: np.ndarray, late: np.ndarray, levels: np.ndarray) -> int | None:
    """Return the second from which the levels are new and stay so, None: there is none.

    Of several that one which divides them best. ``early``, ``late``: which seconds may stand
    before and after it (bool). The level before is the median of those before; of the seconds
    on both sides _AGREE lie on their side.
    """
    known = ~np.isnan(levels)
    best, where = 0.0, None
    for split in range(1, len(levels)):
        before = levels[:split][(early & known)[:split]]
        after = levels[split:][(late & known)[split:]]
        if min(len(before), len(after)) < _SIDE:
            continue
        old = float(np.median(before))
        bar = max(TIMES * old, old + STEADY_NS)
        shares = float((before <= bar).mean()), float((after > bar).mean())
        if min(shares) >= _AGREE and after[-1] > bar and sum(shares) > best:
            best, where = sum(shares), split
    return where


def too_low_to_rise(levels: np.ndarray) -> bool:
    """Tell whether no level can be new, whatever was before it: all are below the least rise.

    As noise only makes levels higher, this holds without a quiet second, too.
    """
    known = levels[~np.isnan(levels)]
    ends = (known[split:] for split in range(len(known) - _SIDE + 1))
    return all((end > STEADY_NS).mean() < _AGREE for end in ends)


# -- probes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """Rejected orders beside the probes of their window. behind: far behind these.

    count: of all that could be compared. probes_ns, others_ns: medians (NaN without any).
    """

    count: int
    behind: int
    probes_ns: float
    others_ns: float


def compared(found: Service, fetches: np.ndarray, *, calm: bool) -> Compared:
    """Hold each ordinary rejected order against the probes of its partition and moment.

    It is far behind where it took more than TIMES the median of these, and AHEAD_NS more.
    ``fetches``: FETCH rows, which tell the partition. calm: only what was under way in quiet
    seconds.
    """
    chosen = found.answers.answered & (found.answers.fetched_ns >= 0)
    mine = found.answers.where(chosen & found.calm if calm else chosen)
    rows = fetches[np.argsort(fetches["t_ns"], kind="stable")]
    if not len(mine) or not len(rows):
        return Compared(0, 0, math.nan, math.nan)
    at = np.minimum(np.searchsorted(rows["t_ns"], mine.fetched_ns), len(rows) - 1)
    window = (mine.intended_ns - found.start_ns) // WINDOW_NS << 16 | rows["partition"][at]
    _, window = np.unique(window, return_inverse=True)
    took = mine.arrived_ns - mine.intended_ns
    middle, count = _medians(window[mine.tagged], took[mine.tagged], int(np.max(window)) + 1)
    usable = ~mine.tagged & (count[window] >= _PROBES)
    beside, others = middle[window[usable]], took[usable]
    behind = (others > TIMES * beside) & (others > beside + AHEAD_NS)
    if not len(others):
        return Compared(0, 0, math.nan, math.nan)
    return Compared(
        len(others), int(behind.sum()), float(np.median(beside)), float(np.median(others))
    )


def _medians(groups: np.ndarray, values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper median of each of ``count`` groups (0 for an empty one), and its size."""
    sizes = np.bincount(groups, minlength=count)
    order = np.lexsort((values, groups))
    heads = np.cumsum(sizes) - sizes
    held = sizes > 0
    middle = np.zeros(count, np.int64)
    middle[held] = values[order][(heads + sizes // 2)[held]]
    return middle, sizes


# -- sustained ---------------------------------------------------------------------------


def ways(history: History, found: Service) -> dict[str, Load]:
    """Return the ways to see what was due and done: answered, and fetched."""
    everything = every_answer(history)
    due = np.diff(found.table.plan.sum(axis=1).astype(np.int64))
    whole = Steps(found.table.due_ns(np.arange(len(due))), np.cumsum(due))
    return {
        "answered": Load(
            Steps(everything.intended_ns, np.arange(1, len(everything) + 1)),
            Steps.of_events(everything.arrived_ns[everything.answered]),
            int(due.sum()) / max(len(everything), 1),
        ),
        "fetched": Load(whole, Steps.of_partitions(history.fetches, "end")),
    }


def late_share(found: Service, load: Load) -> float:
    """Return which part of what was due was done in time (see share), 0.0 to 1.0.

    The best of what is seen at the end of each of the last seconds: a single late answer at
    the end of the schedule is no missing rate.
    """
    ends = [found.end_ns - back * SECOND_NS for back in range(_ENDS)]
    grace_ns = round(found.p99_us * 1_000)
    return max(share(load, found.start_ns, end, grace_ns) for end in ends)


def share(load: Load, start_ns: int, end_ns: int, grace_ns: int) -> float:
    """Return which part of what was due in [start, end) was done by end and grace, 0.0 to 1.0."""
    before, due = load.due.at(np.array([start_ns - 1, end_ns - 1]))
    done = load.done.at(np.array([end_ns + grace_ns]))[0]
    return float(np.clip((done - before) / (due - before), 0, 1)) if due > before else 1.0


def backlog_growth(found: Service, load: Load, start_ns: int, end_ns: int) -> float:
    """Return by how many records a second the backlog grew between two times; 0.0: it did not.

    Less than what adds a part of the limit of p99 over the measured time is none: it may as
    well be an engine that warms up, or whose batches wander.
    """
    grown = growth(load, start_ns, end_ns)
    least = _PART_OF_P99 * found.p99_us / 1e6 * found.profile.load.rate
    return grown if grown * (found.end_ns - found.start_ns) / 1e9 >= least else 0.0


def longest_quiet(found: Service) -> tuple[int, int]:
    """Return begin and end (ns) of the longest row of quiet seconds; equal: there is none."""
    best = (found.start_ns, found.start_ns)
    begin: int | None = None
    for start, quiet in zip(
        [*found.starts_ns.tolist(), found.end_ns], [*found.quiet, False], strict=True
    ):
        if quiet and begin is None:
            begin = start
        elif not quiet and begin is not None:
            best = max(best, (begin, start), key=lambda pair: pair[1] - pair[0])
            begin = None
    return best
