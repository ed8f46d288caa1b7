"""Match outputs to orders by order_id, a piece of orders at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tickproof.conformance.checkers.arrays import drop_pages, first_positions, gather, read
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.checkers.expected import find
from tickproof.conformance.checkers.findings import AnswerAgain, MalformedVerdict, Where
from tickproof.conformance.checkers.market_rule import ANSWER, symbol_text
from tickproof.conformance.history.outputs import OutputLog

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
        bounds = []
        for start in range(0, len(outputs), block):
            ids = outputs.payloads["order_id"][start : start + block].copy()
            bounds.append((ids.min(), ids.max()))
            drop_pages(outputs.payloads)
        self.low = np.array([low for low, _ in bounds], np.uint64)
        self.high = np.array([high for _, high in bounds], np.uint64)

    def of(self, ids: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (positions, rows into ``ids``, ANSWER records) of outputs for some orders.

        Raises ValueError where ``ids`` holds an order_id twice.
        """
        if not len(ids):
            return
        order = np.argsort(ids, kind="stable")  # nearly free on ids that ascend by partition
        ranked = ids[order]
        twice = np.flatnonzero(ranked[1:] == ranked[:-1])
        if len(twice):
            raise ValueError(f"input: order_id {ranked[twice[0]]} comes twice, expected once")
        dense = int(ranked[-1]) - int(ranked[0]) + 1 == len(ids)
        for number in np.flatnonzero((self.low <= ranked[-1]) & (self.high >= ranked[0])):
            start = int(number) * self.block
            answers = self.read(start, start + self.block)
            wanted = answers["order_id"]
            if dense:
                hit = np.flatnonzero((wanted >= ranked[0]) & (wanted <= ranked[-1]))
                place = (wanted[hit] - ranked[0]).astype(np.int64)
            else:
                place, known = find(ranked, wanted)
                hit = np.flatnonzero(known)
                place = place[hit]
            if len(hit):
                self.matched[start + hit] = True
                some = answers.take(hit) if len(hit) < len(answers) else answers
                yield start + hit, order[place], some

    def read(self, start: int, end: int) -> np.ndarray:
        """Return outputs [start, end) as ANSWER records."""
        return read(self.outputs.payloads, start, end, ANSWER)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Return the outputs at positions as ANSWER records."""
        return gather(self.outputs.payloads, positions).view(ANSWER)

    def note_again(
        self,
        rows: np.ndarray,
        positions: np.ndarray,
        answers: np.ndarray,
        first: np.ndarray,
        counterexamples: Counterexamples,
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
                counterexamples.note(
                    kind, positions[again][mask], answer=answers[again][mask], first=origin[mask]
                )
        return again

    def note_orphans(self, counterexamples: Counterexamples) -> int:
        """Note as ``invented`` every output that answered no order; return how many did not."""
        for start in range(0, len(self.matched), self.block):
            strange = start + np.flatnonzero(~self.matched[start : start + self.block])
            if len(strange):
                counterexamples.note("invented", strange, answer=self.at(strange))
        return len(self.matched) - int(self.matched.sum())


def answer_at(outputs: OutputLog, index: int) -> np.void:
    """Return one output as an ANSWER record."""
    return outputs.payloads[index : index + 1].copy().view(ANSWER)[0]


def order_where(order_id: Any, symbol: Any, at: int | None, partitions: int) -> Where:
    """Return an order as a place; ``at`` = offset * partitions + partition, if it is known."""
    where: Where = {"order_id": int(order_id), "symbol": symbol_text(symbol)}
    if at is not None:
        offset, partition = divmod(int(at), partitions)
        where |= {"partition": partition, "offset": offset}
    return where


def malformed(answer: np.void, where: Where) -> MalformedVerdict:
    """Return the finding of an output with bytes that must be zero and are not."""
    return MalformedVerdict("malformed", where, int(answer["tail"]).to_bytes(8, "little")[1:])


def answered_again(outputs: OutputLog, example: Counterexample, where: Where) -> AnswerAgain:
    """Return the finding of an output whose order had one before."""
    index = int(example.row["first"])
    first = answer_at(outputs, index)
    return AnswerAgain(example.kind, where | {"first_index": index}, example.row["answer"], first)
