"""How a job read its input: what became of a record that its output lacks, or has twice.

Answers of the broker say when each part of a partition was read. Where a life begins to read says
which place it took for the last that is done, whoever keeps that place: Kafka, a database or files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.history.job_run import Fired
from tickproof.conformance.jobs.comparison import Kind
from tickproof.conformance.jobs.records import Record

#: What is done to a worker by which its life ends, or others take over, and how that is said.
_ENDS: Final = {
    "kill": "killed", "restart": "ended by SIGTERM", "upgrade": "ended", "downgrade": "ended",
    "pause": "paused",
}  # fmt: skip
_MOST: Final = 100_000


@dataclass(frozen=True)
class Read:
    """Offsets ``first`` up to ``end`` of a partition, in one answer, ``t_s`` into a run."""

    t_s: float
    input: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True)
class End:
    """A life of the job that ended, or had to leave its partitions, ``t_s`` into a run."""

    t_s: float
    how: str


@dataclass(frozen=True)
class Told:
    """How a record was read, and what follows from that, as sentences."""

    how: str
    means: str


class Reads:
    """The answers of a run that held input, in order; the first `_MOST` of them."""

    def __init__(self) -> None:
        self._all: list[Read] = []
        self._up_to: dict[tuple[str, int], int] = {}
        #: When a record was read last that had been read before, 0 for never.
        self.again_s = 0.0

    def add(self, one: Read) -> None:
        """Take an answer."""
        place = one.input, one.partition
        up_to = self._up_to.get(place, 0)
        if one.first < up_to:
            self.again_s = one.t_s
        self._up_to[place] = max(up_to, one.end)
        if len(self._all) < _MOST:
            self._all.append(one)

    def of(self, record: Record) -> list[Read]:
        """Return the answers of a record's partition; none of a run that has more than are kept."""
        if len(self._all) == _MOST:
            return []
        place = (record.input, record.partition)
        return [one for one in self._all if (one.input, one.partition) == place]


def ends(fired: Sequence[Fired], by_themselves: Sequence[End]) -> list[End]:
    """Return the ends of lives, by faults and by themselves, in order."""
    found = [End(one.t_s, f"{one.worker} {_ENDS[one.do]}") for one in fired if one.do in _ENDS]
    return sorted([*found, *by_themselves], key=lambda one: one.t_s)


def told(kind: Kind, record: Record, reads: Sequence[Read], lives: Sequence[End]) -> Told | None:
    """Say what became of a record; None where it may mean several things.

    reads: of its partition. lives: where they ended.
    """
    held = [one for one in reads if one.first <= record.offset < one.end]
    said = None
    if kind is Kind.LOST:
        said = _lost(record, reads, held, lives)
    elif kind is Kind.TWICE and held:
        said = _twice(held, lives)
    place = f"[inputs.{record.input}] partition {record.partition}, offset {record.offset:,}"
    return said and Told(f"{place}: {said.how}", said.means)


def _lost(
    record: Record, reads: Sequence[Read], held: Sequence[Read], lives: Sequence[End]
) -> Told | None:
    if not held:
        behind = next((one for one in reads if one.first > record.offset), None)
        means = "A life began behind it: not where the one before had ended."
        return Told(f"never read{_on(behind)}", means) if behind else None
    on = _begun_anew(record, reads, held[-1])
    ended = _ended(lives, held[-1].t_s, on.t_s if on else math.inf)
    if on:
        return Told(
            f"{_times(held)}{ended}{_on(on)}",
            "It counted as done while its effect was not durable: not delivered, sent later, or in "
            "memory alone.",
        )
    if ended:  # who goes on at the end of all that was read may be another worker
        return None
    if len(held) > 1:
        return Told(
            f"{_times(held)}, and no life ended after that",
            "It was read again and left out: it was taken for known, or an error was passed over.",
        )
    return Told(
        f"{_times(held)}, and the life that read it went on",
        "An error was passed over, or output was sent and not waited for.",
    )


def _begun_anew(record: Record, reads: Sequence[Read], last: Read) -> Read | None:
    """Return the first answer after ``last`` by which somebody began anew behind a record.

    Who goes on begins at the end of all that was read, and who begins anew before it.
    """
    end = -1
    for one in reads:
        if one.t_s > last.t_s and record.offset < one.first < end:
            return one
        end = max(end, one.end)
    return None


def _on(read: Read) -> str:
    return f"; at {read.t_s:.1f} s the job read on at offset {read.first:,}"


def _twice(held: Sequence[Read], lives: Sequence[End]) -> Told:
    if len(held) == 1:
        return Told(
            f"{_times(held)}, and not again",
            "The job itself did it twice: what had no answer was done, and done again.",
        )
    return Told(
        f"{_times(held)}{_ended(lives, held[0].t_s, held[-1].t_s)}",
        "Its effect was durable before it counted as done, and nothing knew it again.",
    )


def _ended(lives: Sequence[End], from_s: float, to_s: float) -> str:
    """Say how a life ended between two times, "" where none did."""
    ended = next((one for one in lives if from_s <= one.t_s <= to_s), None)
    return f"; {ended.how} at {ended.t_s:.1f} s" if ended else ""


def _times(held: Sequence[Read]) -> str:
    """Say when a record was read."""
    first, *more = [f"{one.t_s:.1f}" for one in held]
    return f"read at {first} s" + (f", and again at {', '.join(more[-3:])} s" if more else "")
