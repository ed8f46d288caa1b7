"""What all parts of a story share: the facts of a run, and how they are put into words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.checkers.matching import Matching, Place
from tickproof.conformance.explain.aftermath import Aftermath, aftermaths, offsets_in, partitions_of
from tickproof.conformance.faults.kinds import names
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.suites.evidence import outputs_once
from tickproof.conformance.text import counted
from tickproof.conformance.verdicts import Reason

#: Records in and out together; beyond this a story is told without matching them.
_MOST_RECORDS: Final = 20_000_000
#: Bytes of input that are hashed for it at most.
_MOST_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class Part:
    """Sentences about what went wrong: ``said`` what was seen, ``point`` what it comes down to.

    headline: the one that says most; "" for the first of ``point``, or else of ``said``.
    mark_ns: the moment of it (monotonic ns), None where there is none; mark: what it is.
    """

    said: tuple[str, ...] = ()
    point: tuple[str, ...] = ()
    mark_ns: int | None = None
    mark: str = ""
    headline: str = ""


class Facts:
    """A history with times counted from its beginning and faults that have names."""

    def __init__(self, history: History) -> None:
        self.history, self.app = history, apps.of(history)
        self.log = outputs_once(history)
        self.origin = _origin_ns(history)
        self.end = _end_ns(history)
        self.aftermaths = aftermaths(history)

    @classmethod
    def of(cls, history: History) -> Facts:
        """Return the facts of a history, kept with it for its other stories."""
        if cls.__name__ not in history.cache:
            history.cache[cls.__name__] = cls(history)
        return history.cache[cls.__name__]

    @cached_property
    def matching(self) -> Matching | None:
        """What the outputs answer; None where the history is too large for it."""
        return _matching(self.history, self.log)

    def at(self, t_ns: int) -> str:
        """Return a time as seconds since the beginning: "0.840 s"."""
        return seconds(t_ns - self.origin)

    def name(self, after: Aftermath) -> str:
        """Return what a fault is called in a sentence: "the kill", "kill 2"."""
        named = names([one.fault.step for one in self.aftermaths])
        numbers = [one.number for one in self.aftermaths]
        return named[numbers.index(after.number)]

    def since(self, t_ns: int, after: Aftermath | None) -> str:
        """Return a time by its distance from a fault, or from the beginning without one."""
        if after is None:
            return f"at {self.at(t_ns)}"
        if after.fault.t_ns <= t_ns <= after.struck_ns:
            return f"as {self.name(after)} came"
        if after.over_ns is not None and after.fault.t_ns < t_ns < after.over_ns:
            return f"{seconds(t_ns - after.fault.t_ns)} into {self.name(after)}"
        if after.over_ns is not None and t_ns >= after.over_ns:
            return f"{seconds(t_ns - after.over_ns)} after the end of {self.name(after)}"
        gap = t_ns - after.fault.t_ns
        return f"{seconds(abs(gap))} {'after' if gap >= 0 else 'before'} {self.name(after)}"

    def before(self, t_ns: int) -> Aftermath | None:
        """Return the last fault at or before a time, None where there is none."""
        earlier = [after for after in self.aftermaths if after.fault.t_ns <= t_ns]
        return earlier[-1] if earlier else None

    def around(self, t_ns: int) -> Aftermath | None:
        """Return the last fault at or before a time, or else the first one after it."""
        return self.before(t_ns) or (self.aftermaths[0] if self.aftermaths else None)

    def partition(self, stream: int, number: int) -> str:
        """Return what a partition is called: "partition 3", with its stream where there are two."""
        many = any(p.stream != stream for p in self.history.partitions)
        return f"partition {number}" + (f" of stream {stream}" if many else "")

    @property
    def ended(self) -> int:
        """When the engine ended: its last exit on record, else the end of the run."""
        exits = self.history.all(events.Exited, events.EndedUnasked, events.NotRestarted)
        last = max((one.t_ns for one in exits), default=0)
        starts = max((one.t_ns for one in self.history.all(events.Started)), default=0)
        return int(last) if last > starts else self.end

    def life(self, t_ns: int) -> int:
        """Return in which life of the engine a time lies: 1 up to its first restart."""
        return 1 + sum(one.t_ns <= t_ns for one in self.history.all(events.Started, resume=True))

    def fetches_of(self, place: Place) -> np.ndarray:
        """Return the FETCH rows that held one record."""
        rows = of_partition(self.history.fetches, place.stream, place.partition)
        return rows[(rows["base"] <= place.offset) & (rows["end"] > place.offset)]

    def served(self, writer: int) -> list[tuple[int, int]]:
        """Return (stream, partition) of the records that outputs of a writer answer."""
        m = self.matching
        if m is None:
            return []
        index = np.flatnonzero(m.answers >= 0)
        mine = index[self.log.writer_seq(index)[0] == writer]
        return partitions_of(m.places(m.answers[mine]))

    def told(self, place: Place, near: Aftermath | None) -> str:
        """Return "offset 5 of partition 0, fetched ...": where a record lies, and its journey."""
        where = f"offset {place.offset:,} of partition {place.partition}"
        return f"{where}, {self.journey(place, near)}"

    def journey(self, place: Place, near: Aftermath | None) -> str:
        """Say in half a sentence when a record was fetched and released, seen from a fault."""
        times = self.fetches_of(place)["t_ns"].tolist()
        said = [f"fetched {self.since(t, near)}" for t in times[:1]] or ["never fetched"]
        if len(times) > 1:
            more = f" ({len(times)} times in all)" if len(times) > 2 else ""
            said.append(f"again {self.since(times[-1], near)}{more}")
        elif times and near and times[0] < near.since_ns and near.went_on:
            said.append("not again")
        freed = of_partition(self.history.releases, place.stream, place.partition)
        freed = freed[freed["offset"] > place.offset]["t_ns"].tolist()
        if freed and near is not None:
            said.append(f"released {self.since(freed[0], near)}")
        return ", ".join(said)

    @property
    def title(self) -> str:
        """What ran, in one sentence."""
        scenario = self.history.record.scenario
        params = ", ".join(f"{k} {v}" for k, v in scenario.params.items())
        workers = scenario.workers
        rate = f", {scenario.rate:,.0f} of them a second" if scenario.rate else ""
        return (
            f"App {scenario.app}{f' ({params})' if params else ''} on "
            f"{counted(self.history.input_records, 'record')} in "
            f"{counted(len(self.history.partitions), 'partition')}{rate}; "
            f"{counted(workers, 'worker')}."
        )


def _matching(history: History, log: OutputLog) -> Matching | None:
    """Return what the outputs of a run answer; None where that is too much to hold."""
    size = sum(p.records * p.record_size for p in history.partitions)
    if history.input_records + len(log) > _MOST_RECORDS or size > _MOST_BYTES:
        return None
    return apps.of(history).match(history, log)


def _origin_ns(history: History) -> int:
    """Return the time that a reader counts from: the first thing on record, 0 for none."""
    first = [row["t_ns"] for row in (*history.events[:1], *history.control[:1])]
    return min(first, default=history.record.started_ns)


def _end_ns(history: History) -> int:
    """Return the time of the last thing on record, or when the kit gave up waiting for more."""
    last = [int(row["t_ns"]) for row in (*history.events[-1:], *history.control[-1:])]
    tables = (history.publishes, history.fetches, history.releases)
    last += [int(rows["t_ns"].max()) for rows in tables if len(rows)]
    if history.ended.code == Reason.NO_ANSWER:
        last.append(history.record.ended_ns)
    return max(last, default=_origin_ns(history))


def seconds(ns: int) -> str:
    """Return a length of time for people: milliseconds as far as they matter."""
    value = ns / 1e9
    if 0 < value < 0.001:
        return "under 1 ms"
    return f"{value:,.3f} s" if abs(value) < 100 else f"{value:,.1f} s"


def listed(items: list[str], most: int = 4) -> str:
    """Return "a, b and c", cut after ``most`` items."""
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most} more"
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def ranges(where: np.ndarray) -> str:
    """Say where records, given as PLACES, lie: "offsets 5 to 9 of partition 0".

    Says how many, where they do not fill the stretch.
    """
    found = []
    for stream, partition in partitions_of(where):
        offsets = offsets_in(where, stream, partition)
        low, high = int(offsets.min()), int(offsets.max())
        number = len(np.unique(offsets))
        if low == high:
            found.append(f"offset {low:,} of partition {partition}")
        elif number == high - low + 1:
            found.append(f"offsets {low:,} to {high:,} of partition {partition}")
        else:
            found.append(
                f"{number:,} offsets between {low:,} and {high:,} of partition {partition}"
            )
    return listed(found)
