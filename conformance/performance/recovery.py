"""Measure how long output stopped after a kill, from the history of a paced run alone.

Taken partition by partition: a worker that lives on goes on delivering, which says nothing
about the partitions of the dead one. Only new output counts, not what is delivered again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.checkers.expected import Groups, answered, payload_words
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import App
from tickproof.conformance.suites.evidence import outputs
from tickproof.generators.layouts import opaque
from tickproof.generators.placement import OWN, Placement

#: Of the time before the kill, the last part of this length shows the engine's usual silences.
USUAL: Final = 0.5
#: A run has fewer records than this many bits count.
_N_BITS: Final = 36
#: Faults that are the death of a process.
#: Apps of which it can be told what brings something new, and to which partition it belongs.
APPS: Final[tuple[App, ...]] = ("passthrough", "count")


@dataclass(frozen=True)
class Recovery:
    """Seconds, each the worst of all partitions; None where nothing came after the kill.

    output_s: longest silence between two new outputs, from the last before the kill on.
    release_s: the same between two RELEASEs. usual_output_s, usual_release_s: the longest
    in the second half of the time before the kill.
    """

    output_s: float | None
    release_s: float | None
    usual_output_s: float | None
    usual_release_s: float | None


def recovery(history: History) -> Recovery:
    """Measure a run of count or passthrough with one kill that was carried out."""
    kill_ns = history.faults[0].t_ns
    t_ns, partition = _new_outputs(history)
    released = history.releases
    lists = [
        [t_ns[partition == p] for p in range(len(history.partitions))],
        [released["t_ns"][released["partition"] == p] for p in range(len(history.partitions))],
    ]
    began_ns = min((int(t[0]) for t in lists[0] if len(t)), default=kill_ns)
    half_ns = kill_ns - int((kill_ns - began_ns) * USUAL)
    after = [_worst([silence(t, kill_ns) for t in times]) for times in lists]
    before = [_worst([silence(t[t <= kill_ns], half_ns) for t in times]) for times in lists]
    return Recovery(*after, *before)


def silences(history: History) -> list[float]:
    """Return the seconds without output after each kill of a run of one of APPS.

    The longest silence of a partition, from its last output before the kill on and up to the
    next fault; the worst of all partitions. A kill after which none had anything new left to
    come before the next fault is left out.
    """
    faults = history.faults
    struck_ns = [fault.struck_ns or fault.t_ns for fault in faults]
    t_ns, partition = _new_outputs(history)
    found = []
    for number, fault in enumerate(faults):
        if not fault_of(fault.step).kills:
            continue
        until_ns = min(struck_ns[number + 1 :], default=np.iinfo(np.int64).max)
        times = [t_ns[partition == p] for p in np.unique(partition)]
        after = [silence(_up_to(t, until_ns), struck_ns[number]) for t in times]
        found += [max(seen)] if (seen := [one for one in after if one is not None]) else []
    return found


def _up_to(t_ns: np.ndarray, until_ns: int) -> np.ndarray:
    """Return the times before ``until_ns``, and that one itself where something comes later."""
    before = t_ns[t_ns < until_ns]
    return np.append(before, until_ns) if len(before) < len(t_ns) else before


def silence(t_ns: np.ndarray, kill_ns: int) -> float | None:
    """Return the longest gap in seconds from the last time before the kill on.

    t_ns: ascending int64. None where nothing came after the kill; the kill itself stands
    for the last time before it where there is none.
    """
    after = t_ns[t_ns > kill_ns]
    if not len(after):
        return None
    last = t_ns[t_ns <= kill_ns].max(initial=0) or kill_ns
    return float(np.diff(after, prepend=last).max()) / 1e9


def _worst(silences: list[float | None]) -> float | None:
    """Return the longest; a partition that stays silent for good is worse than any."""
    ended = [one for one in silences if one is not None]
    return max(ended) if ended and len(ended) == len(silences) else None


def _new_outputs(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Return arrival time and input partition of every output that brought something new.

    A point of app count is new if it lies beyond all earlier ones of its key, a payload
    of passthrough if it is the first that answers its record.
    """
    log = outputs(history)
    if history.app == "count":
        key, n = np.array(log.payloads["key"]), log.payloads["n"].astype(np.int64)
        new = np.flatnonzero(beyond(key, n))
        partitioner = history.record.input.recipe.get("partitioner", OWN)
        placement = Placement(len(history.partitions), partitioner=partitioner)
        return log.t_ns(new), placement.of_keys(key[new])
    dtype = opaque(history.partitions[0].record_size)
    words = [payload_words(part) for part in history.inputs(dtype)]
    row = answered(np.concatenate(words), payload_words(log.payloads))
    rows, new = np.unique(row, return_index=True)
    rows, new = rows[rows >= 0], new[rows >= 0]
    ends = np.cumsum([len(part) for part in words])
    arrived = np.argsort(new)
    return log.t_ns(new[arrived]), np.searchsorted(ends, rows[arrived], side="right")


def beyond(key: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return which rows have a larger n than every earlier row of the same key."""
    groups = Groups.of(key)
    # Keys ascend above, n below: one running maximum serves all keys.
    ordinal = np.repeat(np.arange(len(groups.keys)), groups.count)
    height = (ordinal << _N_BITS) | n[groups.order].clip(0, (1 << _N_BITS) - 1)
    new = np.ones(len(key), bool)
    new[groups.order[1:]] = height[1:] > np.maximum.accumulate(height)[:-1]
    return new
