"""Outputs that arrived before a record that they come from was fetched.

The log server's thread takes the time of a FETCH before it sends the reply, and that of an output
after it has read the frame. So an output that depends on a record is never earlier than the first
FETCH of that record in any life of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.checkers.arrivals import first_covers
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.checkers.findings import AheadOfFetch, Payload, Where
from tickproof.conformance.checkers.timeline import NEVER
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.history.rows import of_partition

AHEAD: Final = "ahead-of-fetch"


@dataclass(frozen=True)
class FirstFetches:
    """Times at which the records of one stream were first fetched.

    steps: for each partition (ends, t_ns): records from one end up to the next were fetched
    first at the time of the latter; t_ns has one more element, NEVER. starts: records before
    each partition. until_ns: later outputs are not compared.
    """

    steps: tuple[tuple[np.ndarray, np.ndarray], ...]
    starts: np.ndarray
    until_ns: int = NEVER

    @classmethod
    def of(
        cls,
        fetches: np.ndarray,
        records: Sequence[int],
        stream: int = 0,
        *,
        until_ns: int = NEVER,
        in_order: bool = False,
        skips: bool = True,
    ) -> FirstFetches:
        """Read FETCH rows in time order; ``records``: how many each partition holds.

        in_order: an output needs all records up to its own. skips: a FETCH of later records says
        nothing of earlier ones; else they count as fetched with it.
        """
        parts = [of_partition(fetches, stream, number) for number in range(len(records))]
        steps = tuple(
            _steps(rows, count, in_order, skips) for rows, count in zip(parts, records, strict=True)
        )
        return cls(steps, np.cumsum([0, *records[:-1]]), until_ns)

    def of_places(self, at: np.ndarray) -> np.ndarray:
        """Return the time for records at = offset * partitions + partition."""
        offset, partition = np.divmod(at, len(self.steps))
        return self._times(partition, offset)

    def of_ordinals(self, ordinal: np.ndarray) -> np.ndarray:
        """Return the time for records numbered partition after partition."""
        partition = np.searchsorted(self.starts, ordinal, side="right") - 1
        return self._times(partition, ordinal - self.starts[partition])

    def _times(self, partition: np.ndarray, offset: np.ndarray) -> np.ndarray:
        found = np.empty(len(offset), np.int64)
        for number, (ends, t_ns) in enumerate(self.steps):
            mine = partition == number
            found[mine] = t_ns[np.searchsorted(ends, offset[mine], side="right")]
        return found

    def note(
        self,
        counterexamples: Counterexamples,
        outputs: OutputLog,
        positions: np.ndarray,
        fetched: np.ndarray,
    ) -> None:
        """Note the outputs that arrived before their time in ``fetched`` (int64)."""
        if not len(positions):
            return
        arrived = outputs.t_ns(positions)
        early = (arrived < fetched) & (arrived <= self.until_ns)
        counterexamples.note(
            AHEAD, positions[early], arrived=arrived[early], fetched=fetched[early]
        )


def _steps(
    rows: np.ndarray, records: int, in_order: bool, skips: bool
) -> tuple[np.ndarray, np.ndarray]:
    ends = np.minimum(rows["end"], records).astype(np.int64)
    reach = np.maximum.accumulate(ends)
    before = np.concatenate(([0], reach[:-1]))[: len(rows)]
    if skips and (rows["base"] > before).any():
        times = first_covers(rows, records)
        times[times < 0] = NEVER
        if in_order:
            times = np.maximum.accumulate(times)
        last = np.flatnonzero(np.append(times[1:] != times[:-1], [True] * bool(records)))
        return last + 1, np.append(times[last], NEVER)
    new = reach > before
    return reach[new], np.append(rows["t_ns"][new], NEVER)


def ahead(example: Counterexample, where: Where, payload: Payload) -> AheadOfFetch:
    """Return the finding of an output that came too early."""
    fetched, arrived = int(example.row["fetched"]), int(example.row["arrived"])
    return AheadOfFetch(AHEAD, where, payload, None if fetched == NEVER else fetched - arrived)
