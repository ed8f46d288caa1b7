"""Which output answers which order: outputs found by order_id, a piece of orders at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from conformance.checkers.arrays import drop_pages, first_positions, gather
from conformance.checkers.market_rule import ANSWER
from conformance.checkers.outputs import OutputLog
from conformance.checkers.sightings import Sightings

_BLOCK: Final = 1 << 16


class Answers:
    """Verdicts by blocks with the lowest and highest order_id of each.

    An engine answers roughly in the order of its input, so a piece of orders meets few
    blocks. ``matched`` tells which outputs answered an order so far.
    """

    def __init__(self, outputs: OutputLog, block: int = _BLOCK) -> None:
        self.outputs = outputs
        self.block = block
        self.matched = np.zeros(len(outputs), bool)
        ids = [
            outputs.payloads["order_id"][start : start + block]
            for start in range(0, len(outputs), block)
        ]
        bounds = []
        for some in ids:
            bounds.append((some.min(), some.max()))
            drop_pages(outputs.payloads)
        self.low = np.array([low for low, _ in bounds], np.uint64)
        self.high = np.array([high for _, high in bounds], np.uint64)

    def of(self, ids: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (positions, rows into ``ids``, ANSWER records); ``ids`` ascending, distinct."""
        if not len(ids):
            return
        dense = int(ids[-1]) - int(ids[0]) + 1 == len(ids)
        for number in np.flatnonzero((self.low <= ids[-1]) & (self.high >= ids[0])):
            start = int(number) * self.block
            answers = self.read(start, start + self.block)
            wanted = answers["order_id"]
            if dense:
                hit = np.flatnonzero((wanted >= ids[0]) & (wanted <= ids[-1]))
                row = (wanted[hit] - ids[0]).astype(np.int64)
            else:
                row = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
                hit = np.flatnonzero(ids[row] == wanted)
                row = row[hit]
            if len(hit):
                self.matched[start + hit] = True
                yield start + hit, row, answers[hit] if len(hit) < len(answers) else answers

    def read(self, start: int, end: int) -> np.ndarray:
        """Return outputs [start, end) as ANSWER records."""
        found = np.ascontiguousarray(self.outputs.payloads[start:end]).view(ANSWER)
        drop_pages(self.outputs.payloads)
        return found

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Return the outputs at positions as ANSWER records."""
        return gather(self.outputs.payloads, positions).view(ANSWER)

    def note_again(
        self,
        rows: np.ndarray,
        positions: np.ndarray,
        answers: np.ndarray,
        first: np.ndarray,
        sightings: Sightings,
        changed: str = "retracted",
    ) -> np.ndarray:
        """Note each further output of an order: ``duplicate``, or ``changed`` if it differs.

        ``first[row]`` is the earliest output of each order, -1 if none yet, kept up to
        date. Returns a mask of the further outputs.
        """
        again = first_positions(rows, positions, first)
        if again.any():
            origin = first[rows[again]]
            same = self.at(origin) == answers[again]
            for kind, mask in (("duplicate", same), (changed, ~same)):
                sightings.note(
                    kind, positions[again][mask], answer=answers[again][mask], first=origin[mask]
                )
        return again

    def note_strangers(self, sightings: Sightings) -> None:
        """Note as ``invented`` every output that answered no order."""
        for start in range(0, len(self.matched), self.block):
            strange = start + np.flatnonzero(~self.matched[start : start + self.block])
            if len(strange):
                sightings.note("invented", strange, answer=self.at(strange))
