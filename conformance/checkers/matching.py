"""Match outputs to the records of a run: whole arrays, for the apps that can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from tickproof.conformance.checkers.arrays import gather
from tickproof.conformance.checkers.expected import Groups, answered, merged_verdicts, payload_words
from tickproof.conformance.checkers.market_rule import ANSWER, RECORD
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT, ORDER_KIND
from tickproof.generators.spread_rule import FIVE_CENTS


class Place(NamedTuple):
    """Place of one input record."""

    stream: int
    partition: int
    offset: int


#: The same for many records.
PLACES: Final = np.dtype([("stream", "<i8"), ("partition", "<i8"), ("offset", "<i8")])


def place_of(row: np.void) -> Place:
    """Return one element of PLACES as a Place."""
    return Place(*row.item())


@dataclass(frozen=True)
class Part:
    """One partition of the stream that outputs answer; ``start``: its first row."""

    stream: int
    partition: int
    start: int
    records: int


@dataclass(frozen=True)
class Matching:
    """Input records as rows (partition after partition) and the outputs that answer them.

    answers: for each output the row that it answers, -1 for none. wrong: outputs that do
    not say what is due for their row. owed: rows that must have an output. due: what each
    row must give (COUNT_OUT or ANSWER), None where that is the record itself or open.
    """

    parts: tuple[Part, ...]
    answers: np.ndarray
    wrong: np.ndarray
    owed: np.ndarray
    due: np.ndarray | None = None

    def place(self, row: int) -> Place:
        """Return where the record of a row lies."""
        return place_of(self.places(np.array([row]))[0])

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Return where the records of rows lie, as PLACES."""
        found = np.zeros(len(rows), PLACES)
        for part in self.parts:
            here = self.of_part(part, rows)
            found["stream"][here], found["partition"][here] = part.stream, part.partition
            found["offset"][here] = rows[here] - part.start
        return found

    def of_part(self, part: Part, rows: np.ndarray) -> np.ndarray:
        """Return a mask of the rows that lie in a part."""
        return (rows >= part.start) & (rows < part.start + part.records)

    @property
    def missing(self) -> np.ndarray:
        """Rows without the output that they must have, ascending."""
        seen = np.zeros(len(self.owed), bool)
        seen[self.answers[self.answers >= 0]] = True
        return np.flatnonzero(self.owed & ~seen)

    @property
    def surplus(self) -> np.ndarray:
        """Positions of outputs whose row had an output before, ascending."""
        known = np.flatnonzero(self.answers >= 0)
        _, first = np.unique(self.answers[known], return_index=True)
        again = np.ones(len(known), bool)
        again[first] = False
        return known[again]


#: (stream, partition, records) of each partition that outputs answer.
Inputs = Sequence[tuple[int, int, np.ndarray]]


def _parts(inputs: Inputs) -> tuple[Part, ...]:
    found, start = [], 0
    for stream, partition, array in inputs:
        found.append(Part(stream, partition, start, len(array)))
        start += len(array)
    return tuple(found)


def match_count(inputs: Inputs, log: OutputLog, every: bool) -> Matching:
    """Match outputs of app count: (key, n) is the n-th record of the key."""
    whole = np.concatenate([np.array(a) for *_, a in inputs] or [np.empty(0, COUNT_IN)])
    groups = Groups.of(whole["key"])
    total = groups.totals(whole["value"])
    out = np.array(log.payloads)
    point = groups.points(out["key"], out["n"])
    known = point >= 0
    answers = np.where(known, groups.order[point], -1) if len(whole) else point
    wrong = ~known
    wrong[known] = out["total"][known] != total[point[known]]
    owed = np.full(len(whole), every)
    owed[groups.order[groups.start + groups.count - 1]] = True
    due = np.empty(len(whole), COUNT_OUT)
    due["key"], due["n"] = whole["key"], groups.ranks() + 1
    due["total"][groups.order] = total
    return Matching(_parts(inputs), answers, wrong, owed, due)


def match_payloads(
    inputs: Inputs, log: OutputLog, answer: Callable[[np.ndarray], np.ndarray]
) -> Matching:
    """Match outputs that equal the answer to their record, the k-th to the k-th."""
    words = [payload_words(array, answer) for *_, array in inputs]
    due = np.concatenate([np.empty(0, np.uint64), *words])
    answers = answered(due, payload_words(log.payloads))
    return Matching(_parts(inputs), answers, answers < 0, np.ones(len(due), bool))


def match_market(
    inputs: Inputs, log: OutputLog, emit: str, *, merged: bool, limit: int = FIVE_CENTS
) -> Matching:
    """Match verdicts by order_id. Two streams leave open which quote is right.

    limit: five cents in the unit of prices.
    """
    whole = np.concatenate([np.array(a).view(RECORD) for *_, a in inputs])
    orders = np.flatnonzero(whole["kind"] == ORDER_KIND)
    ids = whole["id"][orders]
    came = gather(log.payloads, np.arange(len(log))).view(ANSWER)
    order = answered(ids, came["order_id"])
    known = order >= 0
    answers = np.where(known, orders[order], -1) if len(orders) else order
    owed, wrong = np.zeros(len(whole), bool), ~known
    verdicts = emit == "verdicts"
    expected = None
    if merged:
        expected = np.zeros(len(whole), ANSWER)
        starts = np.array([part.start for part in _parts(inputs)])
        for row, due in merged_verdicts([array for *_, array in inputs], limit=limit):
            offset, partition = np.divmod(row, len(inputs))
            expected[starts[partition] + offset] = due
        owed[orders] = verdicts | (expected["tail"][orders] == 1)
        rows = answers[known]
        wrong[known] = (expected[rows] != came[known]) | ~owed[rows]
    elif verdicts:
        owed[orders] = True
    return Matching(_parts(inputs), answers, wrong, owed, expected)
