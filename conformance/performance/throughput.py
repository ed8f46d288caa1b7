"""Measure the rate of an engine in a run, from the history of the run alone.

The warm-up is cut: the window opens when the first fifth of the input is done. A record
counts if it was first fetched after the window opened and done before it closed, so
whatever the engine held at the opening is not counted. "Done" means released;
for an engine that never releases, all is done when drain is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.run_record import Partition
from tickproof.conformance.latency.intervals import Steps

WARM_UP: Final = 0.2

Progress = Literal["release", "fetch"]


@dataclass(frozen=True)
class Window:
    """The part of a run in which the rate is taken.

    opens_ns, closes_ns: times of the kit's clock. records: those that count. progress:
    what the opening was found by. steps: RELEASEs of one partition in the window; few of
    them make the rate coarse.
    """

    opens_ns: int
    closes_ns: int
    records: int
    progress: Progress
    steps: int

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.closes_ns - self.opens_ns) / 1e9

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def release_every_s(self) -> float | None:
        """Seconds from one RELEASE of a partition to the next: of an engine of batches, a batch.

        None for a window that no RELEASE opened.
        """
        return self.seconds / self.steps if self.progress == "release" else None


def window(history: History) -> Window | None:
    """Return the steady window of a run that was drained, None where nothing is left in it.

    That is so for an engine that fetches everything before it releases a fifth of it.
    """
    records, closes_ns = WARM_UP * history.input_records, drained_ns(history)
    releases = history.releases[history.releases["t_ns"] <= closes_ns]
    released = Steps.of_partitions(releases, "offset")
    opens_ns = released.reached(records)
    if opens_ns is not None:
        # Drain says that all is done: where RELEASE does not, the window is open until then.
        last: tuple[int, Progress] = (closes_ns, "fetch")
        if released.totals[-1] >= history.input_records:
            last = int(releases["t_ns"].max()), "release"
        found = _counted(history, opens_ns, *last, releases)
        if found.records:
            return found
    opens_ns = Steps.of_partitions(history.fetches, "end").reached(records)
    if opens_ns is None:
        return None
    found = _counted(history, opens_ns, closes_ns, "fetch", releases)
    return found if found.records else None


def _counted(
    history: History, opens_ns: int, closes_ns: int, progress: Progress, steps: np.ndarray
) -> Window:
    """Count what was fetched for the first time after the opening and done at the close."""
    records = most = 0
    inside = steps[(steps["t_ns"] > opens_ns) & (steps["t_ns"] <= closes_ns)]
    before = history.fetches[history.fetches["t_ns"] <= opens_ns]
    for row in history.partitions:
        fetched = _of(before, row)["end"].max(initial=0)
        done = _of(steps, row)["offset"].max(initial=0) if progress == "release" else row.records
        records += max(0, int(done) - int(fetched))
        most = max(most, len(_of(inside, row)))
    return Window(opens_ns, closes_ns, records, progress, most)


def progress(history: History) -> Steps:
    """Return the records done in a run: released, or fetched if nothing is released."""
    if len(history.releases):
        return Steps.of_partitions(history.releases, "offset")
    return Steps.of_partitions(history.fetches, "end")


def drained_ns(history: History) -> int:
    """Return when drain was answered; ValueError for a run in which it never was."""
    drained = history.all(events.Drained)
    if not drained:
        raise ValueError(f"{history.folder}: drain was never answered")
    return drained[-1].t_ns


def _of(rows: np.ndarray, partition: Partition) -> np.ndarray:
    mine = rows["stream"] == partition.stream
    return rows[mine & (rows["partition"] == partition.partition)]
