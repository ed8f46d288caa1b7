"""Find the noisy seconds of a run: pure functions of what was recorded beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np

from tickproof.conformance.engines.fair_clock import Demand, Interval, withheld_s
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import ANY_CORE

SECOND_NS: Final = 1_000_000_000
#: A record that is due so short before a hiccup may still be under way when it comes.
UNDER_WAY_NS: Final = 100_000_000
#: Two samples closer than this are one: the kernel counts CPU time in steps of 10 ms.
CLOSE_NS: Final = 500_000_000
NOT_RECORDED: Final = -1


@dataclass(frozen=True)
class Seconds:
    """One element for each second of a run, from its first intended time on.

    hiccup_ns: the longest hiccup that reached into the second, over all cores; -1 where not
    every recorder was running. foreign_s, steal_s: CPU seconds a second of processes that are
    neither kit nor engine, and those that the hypervisor gave to others; engine_wait_s:
    seconds a second that threads of the engine were ready and did not run. Each is that of the
    worst pair of samples that touches the second; NaN where no samples were taken around it.
    """

    starts_ns: np.ndarray
    hiccup_ns: np.ndarray
    foreign_s: np.ndarray
    steal_s: np.ndarray
    engine_wait_s: np.ndarray


def seconds(history: History) -> Seconds:
    """Return the seconds of a run, from its first intended record to the last published one."""
    publishes, machine = history.publishes["t_ns"], history.machine
    begins = publishes if len(publishes) else machine["t_ns"]
    pace = history.record.pace
    t0_ns = pace.t0_ns if pace else int(begins.min(initial=np.iinfo("i8").max))
    end_ns = int(begins.max(initial=0))
    count = max(0, -(-(end_ns - t0_ns) // SECOND_NS))
    starts = t0_ns + SECOND_NS * np.arange(count, dtype="<i8")
    # Nothing of the run is left in what follows its last record.
    ends = np.minimum(starts + SECOND_NS, end_ns)
    kept = _spaced(machine["t_ns"])
    samples = machine["t_ns"][kept]
    waited = _waited(history.usage, machine["t_ns"])[kept]
    return Seconds(
        starts,
        _hiccups(history.hiccups, starts, ends),
        _worst(samples, _foreign(history)[kept], starts, ends),
        _worst(samples, machine["steal_s"][kept], starts, ends),
        _worst(samples, waited, starts, ends),
    )


def noisy(seconds: Seconds, *, hiccup_us: float, foreign: float) -> np.ndarray:
    """Tell of each second whether it was noisy: bool.

    ``foreign``: in cores, what others may take, on this machine or beside it. A second after
    a noisy one is noisy too, as queues empty slowly. So is one without samples.
    """
    stalled = (seconds.hiccup_ns == NOT_RECORDED) | (seconds.hiccup_ns > hiccup_us * 1_000)
    loud = stalled | ~(seconds.foreign_s + seconds.steal_s <= foreign)
    loud[1:] |= loud[:-1].copy()
    return loud


def disturbed(seconds: Seconds, *, foreign: float) -> np.ndarray:
    """Tell of each second whether processes of others took more than ``foreign`` cores: bool.

    Unlike a hiccup, or a generator that is late, that is nothing an engine does by being slow.
    Time that the hypervisor gave to others is no part of it: where it caps a machine, who asks
    for more loses more. A second without samples is not disturbed.
    """
    return seconds.foreign_s > foreign


def withheld(history: History) -> list[tuple[int, int]]:
    """Return (start_ns, end_ns): how much of each second between samples the machine withheld.

    The same that stops the clock of time limits during a run, from what was sampled beside it:
    of the engine's threads, not of the kit's. No samples, nothing withheld.
    """
    machine, usage = history.machine, history.usage
    kept = _spaced(machine["t_ns"])
    if len(kept) < 2:
        return []
    samples = machine[kept]
    cores = max(1, reduce(or_, map(int, np.unique(usage["affinity"])), 0).bit_count())
    waited = np.diff(_waited(usage, machine["t_ns"])[kept])
    used = np.diff(samples["engine_s"] + samples["kit_s"])
    stolen = np.diff(samples["steal_s"]) / cores
    starts, ends = samples["t_ns"][:-1].tolist(), samples["t_ns"][1:].tolist()
    found = []
    for start, end, wait_s, used_s, stolen_s in zip(
        starts, ends, waited.tolist(), used.tolist(), stolen.tolist(), strict=True
    ):
        seen = Interval((end - start) / 1e9, stolen_s, engine=Demand(wait_s, used_s, cores))
        found.append((start, start + int(withheld_s(seen) * 1e9)))
    return [(start, end) for start, end in found if end > start]


def withheld_between_s(history: History, from_ns: int, to_ns: int) -> float:
    """Return how many seconds of a time the machine withheld."""
    overlap = (min(end, to_ns) - max(start, from_ns) for start, end in withheld(history))
    return sum(max(0, one) for one in overlap) / 1e9


def _spaced(samples: np.ndarray) -> np.ndarray:
    """Return the indices of samples to keep so that no two are close, the last among them."""
    kept: list[int] = []
    for at, t_ns in enumerate(samples.tolist()):  # one a second: few
        if not kept or t_ns - samples[kept[-1]] >= CLOSE_NS:
            kept.append(at)
    if len(kept) > 1:
        kept[-1] = len(samples) - 1
    return np.array(kept, int)


def _foreign(history: History) -> np.ndarray:
    """Return the CPU seconds of others up to each sample.

    Where kit and engine have cores of their own, only what ran on those counts.
    """
    machine = history.machine
    pinned = history.record.cores
    own = [*pinned.kit, *pinned.engine]
    if not (pinned.kit and pinned.engine) or pinned.shared:
        return machine["busy_s"] - machine["kit_s"] - machine["engine_s"]
    rows = history.others
    rows = rows[np.isin(rows["core"], [*own, ANY_CORE])]
    up_to = np.concatenate(([0.0], np.cumsum(rows["cpu_s"])))
    return up_to[np.searchsorted(rows["t_ns"], machine["t_ns"], side="right")]


def _waited(usage: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return how long the engine's threads waited for a core up to each sample, in seconds."""
    rows = usage[np.lexsort((usage["t_ns"], usage["pid"]))]
    same = rows["pid"][1:] == rows["pid"][:-1]
    grown = np.where(same, np.diff(rows["wait_ns"]), 0).clip(0)
    at = np.searchsorted(samples, rows["t_ns"][1:])
    held = at < len(samples)
    each = np.bincount(at[held], grown[held], len(samples))
    return np.cumsum(each[: len(samples)]) / 1e9


def _worst(
    samples: np.ndarray, total: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Return the fastest growth a second of ``total`` between samples that touch each second."""
    found = np.full(len(starts), np.nan)
    if len(samples) < 2:
        return found
    rates = (np.diff(total) * 1e9 / np.diff(samples)).clip(0)
    seen = (starts >= samples[0]) & (ends <= samples[-1])
    first = np.searchsorted(samples, starts, side="right") - 1
    last = np.searchsorted(samples, ends, side="left") - 1
    for at in np.flatnonzero(seen):
        found[at] = rates[first[at] : max(first[at], last[at]) + 1].max()
    return found


def _hiccups(cores: dict[int, np.ndarray], starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the longest hiccup of each second over all cores; NOT_RECORDED without one of them."""
    longest = np.full(len(starts), 0 if cores else NOT_RECORDED, "<i8")
    if not len(starts):
        return longest
    unseen = np.zeros(len(starts), bool)
    for rows in cores.values():
        woke, late = rows["t_ns"], rows["late_ns"]
        due = woke - late
        # The rows of a long hiccup are due in each second that it covers.
        for t_ns in (due - UNDER_WAY_NS, due, woke):
            at = (t_ns - starts[0]) // SECOND_NS
            inside = (at >= 0) & (at < len(starts))
            np.maximum.at(longest, at[inside], late[inside])
        if len(rows):
            unseen |= (starts < due[0]) | (ends > woke[-1])
        else:
            unseen[:] = True
    longest[unseen] = NOT_RECORDED
    return longest
