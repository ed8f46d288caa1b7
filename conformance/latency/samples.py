"""Latencies of a run from its folder: when each record was due, fetched and answered.

Pure functions of whole arrays. What is due when was fixed before the run began, so a slow
engine, and a late generator, both count in full. Whether answers are right is judged by
the checkers: an output that answers no input is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.apps.app import Lane
from tickproof.conformance.checkers.arrivals import first_covers
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.input_replay import recorded_plan
from tickproof.conformance.history.rows import TICK, TICKS_FILE, of_partition

#: Something that never happened.
NEVER: Final = -1


@dataclass(frozen=True)
class Answers:
    """The measured records, one element each, ascending by intended time.

    Records of one tick stand in order of stream, partition and offset. Times are monotonic
    nanoseconds (int64), NEVER (-1) where it did not happen.
    """

    intended_ns: np.ndarray
    published_ns: np.ndarray
    fetched_ns: np.ndarray
    arrived_ns: np.ndarray
    #: bool: a probe order of market-spread.
    tagged: np.ndarray

    def __len__(self) -> int:
        return len(self.intended_ns)

    @property
    def answered(self) -> np.ndarray:
        """True for each record that was answered (bool)."""
        return self.arrived_ns != NEVER

    def where(self, chosen: np.ndarray | slice) -> Answers:
        """Return the records of a mask or a slice."""
        return Answers(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def due(self, start_ns: int, end_ns: int) -> Answers:
        """Return the records due in [start, end), without a copy."""
        return self.where(slice(*np.searchsorted(self.intended_ns, [start_ns, end_ns])))


def latencies(answers: Answers) -> np.ndarray:
    """Return arrival minus intended time (int64 ns) of the answered records, in their order."""
    return (answers.arrived_ns - answers.intended_ns)[answers.answered]


@dataclass(frozen=True)
class Timetable:
    """Times at which records were due, and at which they were published.

    plan: uint64 (ticks + 1, partitions), see generators.partitions.BuiltInput. published_ns:
    int64, one a tick, NEVER for one that the run did not reach.
    """

    t0_ns: int
    tick_ns: int
    plan: np.ndarray
    published_ns: np.ndarray

    def due_ns(self, ticks: np.ndarray) -> np.ndarray:
        """Return the intended time of ticks, counted from 0."""
        return self.t0_ns + self.tick_ns * ticks

    def tick_of(self, column: int, offsets: np.ndarray) -> np.ndarray:
        """Return the tick (from 0) with which offsets of a partition are published."""
        ends = self.plan[1:, column].astype(np.int64)
        return np.searchsorted(ends, offsets, side="right")

    @property
    def end_ns(self) -> int:
        """The end of the last tick: from then on nothing more is due."""
        return self.t0_ns + self.tick_ns * (len(self.plan) - 1)


def timetable(history: History) -> Timetable:
    """Return the timetable of a run; raises HistoryError where it had no pace."""
    path = history.folder / "run.json"
    pace = history.record.pace
    if pace is None:
        raise HistoryError(
            f"{path}: pace: expected t0_ns, tick_ns, ticks as whole numbers: the run had no pace, "
            "or ended before its first tick"
        )
    plan = recorded_plan(history)
    if pace.ticks != len(plan) - 1:
        raise HistoryError(
            f"{path}: pace: {pace.ticks} ticks of {pace.tick_ns} ns, expected "
            f"{len(plan) - 1} as in the publication plan"
        )
    published = np.full(len(plan) - 1, NEVER, np.int64)
    rows = history.table(TICKS_FILE, TICK)
    if len(rows) > len(published):
        raise HistoryError(
            f"{history.folder / TICKS_FILE}: {len(rows)} ticks, expected at most {len(published)}"
        )
    published[: len(rows)] = rows["t_ns"]
    return Timetable(pace.t0_ns, pace.tick_ns, plan, published)


def steady_ns(history: History) -> int:
    """Return when the warm-up of a run with a pace was over."""
    began, pace = history.record.pace, history.record.scenario.pace
    assert began is not None and pace is not None
    return began.t0_ns + round(pace.warm_up_s * 1e9)


def answers(history: History) -> Answers:
    """Return what a run measures; raises HistoryError for a run without a pace."""
    table = timetable(history)
    app = apps.of(history)
    lanes = list(app.lanes(history))
    if not lanes:
        none = np.empty(0, np.int64)
        return Answers(none, none, none, none, np.empty(0, bool))
    words = np.concatenate([lane.words for lane in lanes])
    arrived = app.arrivals(words, app.output(history))
    ticks = np.concatenate([table.tick_of(lane.column, lane.offsets) for lane in lanes])
    fetched = np.concatenate([_fetched(history, lane) for lane in lanes])
    tagged = np.concatenate([lane.tagged for lane in lanes])
    order = np.argsort(ticks, kind="stable")  # lanes ascend already: a merge
    ticks = ticks[order]
    return Answers(
        table.due_ns(ticks),
        table.published_ns[ticks],
        fetched[order],
        arrived[order],
        tagged[order],
    )


def _fetched(history: History, lane: Lane) -> np.ndarray:
    part = history.partitions[lane.column]
    rows = of_partition(history.fetches, part.stream, part.partition)
    return first_covers(rows, part.records)[lane.offsets]


def lateness_ns(ticks: np.ndarray, t0_ns: int, tick_ns: int) -> np.ndarray:
    """Return how late each published tick was (int64): TICK rows, the first due at t0."""
    return ticks["t_ns"] - (t0_ns + tick_ns * np.arange(len(ticks), dtype=np.int64))
