"""A run over time as arrays: records in and out, what is under way, faults and recoveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.explain.picture import moments, steps
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history.events import Recovered
from tickproof.conformance.history.folder import History

#: A close look begins and ends so long before and after a fault, in seconds ...
BEFORE_S: Final = 0.05
AFTER_S: Final = 0.15
#: ... and goes on to the first fetch after it, if that comes within this time. A longer one would
#: show no milliseconds, and nothing that the whole run does not.
LONGEST_LOOK_S: Final = 1.5
#: The highest rank of a moment that a curve shows (see `picture.Moment`).
_RANK: Final = 1


@dataclass(frozen=True)
class Curves:
    """Records by time over equal spans. Arrays, but ``edges_s``, have one value for each span.

    edges_s: where spans begin and end, seconds from the start of the run, one more than spans.
    published, fetched, outputs: records a second; fetched again counts as fetched.
    backlog: records that were published and, at the end of a span, not answered yet. Where a
    record need not give an output: not yet released.
    """

    edges_s: np.ndarray
    published: np.ndarray
    fetched: np.ndarray
    outputs: np.ndarray
    backlog: np.ndarray


@dataclass(frozen=True)
class Mark:
    """Something that happened, at a time in seconds. strong: a fault, or what was wrong."""

    at_s: float
    text: str
    strong: bool


class RunCurves:
    """What the curves of a run are drawn from; raises HistoryError, as reading does.

    wrong_ns: when the output came that a counterexample shows (monotonic), None without one.
    """

    def __init__(self, history: History, wrong_ns: int | None = None) -> None:
        facts = Facts.of(history)
        #: Where time begins, monotonic nanoseconds.
        self.origin_ns = facts.origin
        #: How long the run took, in seconds.
        self.seconds = max((facts.end - facts.origin) / 1e9, 1e-3)
        published, fresh, _ = steps(history.publishes, "end")
        fetched, first, again = steps(history.fetches, "end", "base")
        arrivals = facts.log.arrivals
        self._lanes: Mapping[str, tuple[np.ndarray, np.ndarray]] = {
            "published": self._sums(published, fresh),
            "fetched": self._sums(fetched, first + again),
            "outputs": self._sums(arrivals["t_ns"], arrivals["count"]),
        }
        if facts.app.one_each:
            self._done = self._lanes["outputs"]
        else:
            released, done, _ = steps(history.releases, "offset")
            self._done = self._sums(released, done)
        self.marks = [
            Mark(self._at(one.t_ns), one.text, one.rank == 0)
            for one in moments(history)
            if one.rank <= _RANK
        ]
        if wrong_ns is not None:
            self.marks.append(Mark(self._at(wrong_ns), "wrong output", strong=True))
        #: When the engine let the log drop what it had read: after each cut, in seconds.
        self.cuts_s = np.unique((history.releases["t_ns"] - self.origin_ns) / 1e9)
        #: (fault, first fetch after it), in seconds, where the log could tell.
        self.recoveries = self._recoveries(history)

    def _at(self, t_ns: int) -> float:
        return (t_ns - self.origin_ns) / 1e9

    def _sums(self, t_ns: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return times in seconds, ascending, and the records until then; both begin with 0."""
        order = np.argsort(t_ns, kind="stable")
        times = (t_ns[order].astype(np.int64) - self.origin_ns) / 1e9
        sums = np.cumsum(counts[order].astype(np.int64))
        return np.concatenate(([-np.inf], times)), np.concatenate(([0], sums))

    def _recoveries(self, history: History) -> list[tuple[float, float]]:
        recovered = [self._at(one.t_ns) for one in history.all(Recovered)]
        faults = [(self._at(one.t_ns), fault_of(one.step)) for one in history.faults]
        found = []
        for number, (at_s, fault) in enumerate(faults):
            until_s = faults[number + 1][0] if number + 1 < len(faults) else self.seconds
            back = next((one for one in recovered if at_s < one <= until_s), None)
            if (fault.kills or fault.ends_engine) and back is not None:
                found.append((at_s, back))
        return found

    def over(self, from_s: float, to_s: float, spans: int) -> Curves:
        """Return the curves of a part of the run, in so many equal spans."""
        edges = np.linspace(from_s, to_s, spans + 1)
        width = (to_s - from_s) / spans
        until = {name: _until(lane, edges) for name, lane in self._lanes.items()}
        rates = {name: np.diff(sums) / width for name, sums in until.items()}
        backlog = np.maximum(until["published"] - _until(self._done, edges), 0)[1:]
        return Curves(edges, rates["published"], rates["fetched"], rates["outputs"], backlog)

    def close_looks(self, most: int) -> list[tuple[float, float]]:
        """Return (from, to) in seconds round the first faults, at most so many."""
        back = dict(self.recoveries)
        found: list[tuple[float, float]] = []
        for at_s in sorted(mark.at_s for mark in self.marks if mark.strong):
            if found and at_s < found[-1][1]:
                continue
            end_s = back.get(at_s, at_s)
            if end_s > at_s + LONGEST_LOOK_S:
                end_s = at_s
            found.append((max(at_s - BEFORE_S, 0.0), end_s + AFTER_S))
        return found[:most]


def _until(lane: tuple[np.ndarray, np.ndarray], times: np.ndarray) -> np.ndarray:
    """Return the records of a lane up to each time."""
    return lane[1][np.searchsorted(lane[0], times, side="right") - 1]
