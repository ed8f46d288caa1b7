"""Market Spread on one merged stream: the answer is a function of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tickproof.conformance.checkers.answers import (
    Answers,
    answer_at,
    answered_again,
    malformed,
    order_where,
)
from tickproof.conformance.checkers.arrays import pieces
from tickproof.conformance.checkers.causality import AHEAD, FirstFetches, ahead
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.checkers.delivery import place
from tickproof.conformance.checkers.expected import merged_verdicts
from tickproof.conformance.checkers.findings import (
    AnswerToNothing,
    Finding,
    Findings,
    MissingVerdict,
    WrongVerdict,
)
from tickproof.conformance.checkers.market_rule import RECORD, VERDICT_BYTE, Located
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import QUOTE_KIND
from tickproof.generators.spread_rule import FIVE_CENTS


def check_merged(
    inputs: Sequence[np.ndarray],
    outputs: OutputLog,
    emit: str,
    *,
    limit: int = FIVE_CENTS,
    fetches: FirstFetches | None = None,
    piece_rows: int = 1 << 18,
) -> Findings:
    """Judge app market-spread on merged input.

    ``inputs``: partitions of 52-byte records of both kinds; ``outputs``: VERDICT;
    ``emit``: "rejects" or "verdicts"; ``limit``: five cents in the unit of prices.
    ``fetches``: when records were fetched first, None: not compared.
    Kinds: ``wrong-verdict``, ``lost``, ``duplicate``, ``ahead-of-fetch``,
    ``retracted``, ``invented``, ``malformed``. ValueError for another ``emit``, for an
    input record of neither kind, or for an order_id that comes twice in the input.
    """
    counterexamples = Counterexamples()
    seen = collect_merged(
        inputs, outputs, emit, counterexamples, limit=limit, fetches=fetches, piece_rows=piece_rows
    )
    return merged_findings(
        counterexamples,
        outputs,
        partitions=len(inputs),
        records=sum(map(len, inputs)),
        orders=seen.orders,
        rejects=seen.rejects,
        locate=lambda id_: _locate(inputs, id_),
        limit=limit,
    )


@dataclass(frozen=True)
class Seen:
    """Orders of the input, how many are to be rejected, outputs that answer none of them."""

    orders: int
    rejects: int
    orphans: int


def collect_merged(
    inputs: Sequence[np.ndarray],
    outputs: OutputLog,
    emit: str,
    counterexamples: Counterexamples,
    *,
    offsets: Sequence[np.ndarray] | None = None,
    limit: int = FIVE_CENTS,
    fetches: FirstFetches | None = None,
    piece_rows: int = 1 << 18,
) -> Seen:
    """Note what is wrong with the output of app market-spread on merged input.

    As check_merged. Where ``inputs`` hold some symbols only, ``offsets`` are the places
    of their records in the whole partitions, ascending.
    """
    if emit not in ("rejects", "verdicts"):
        raise ValueError(f"emit: expected 'rejects' or 'verdicts', got {emit!r}")
    answers = Answers(outputs)
    orders = rejected = 0
    for at, expected in merged_verdicts(inputs, offsets, limit=limit, piece_rows=piece_rows):
        orders += len(at)
        rejected += int(expected["tail"].sum())
        _judge_piece(answers, at, expected, emit == "rejects", fetches, counterexamples)
    return Seen(orders, rejected, answers.note_orphans(counterexamples))


def merged_findings(
    counterexamples: Counterexamples,
    outputs: OutputLog,
    *,
    partitions: int,
    records: int,
    orders: int,
    rejects: int,
    locate: Callable[[int], Located | None],
    limit: int = FIVE_CENTS,
) -> Findings:
    """Return counterexamples as findings; ``locate`` finds a quote of the input by its id."""
    found = counterexamples.findings(
        lambda example: _finding(locate, partitions, outputs, example, limit)
    )
    found.checked = records + len(outputs)
    found.facts |= {"orders": orders, "rejects": rejects, "outputs": len(outputs)}
    return found


def _judge_piece(
    answers: Answers,
    at: np.ndarray,
    expected: np.ndarray,
    silent: bool,
    fetches: FirstFetches | None,
    counterexamples: Counterexamples,
) -> None:
    """Compare the outputs of a piece of orders; ``silent``: accepted orders give none."""
    first = np.full(len(expected), -1, np.int64)
    for positions, rows, came in answers.of(expected["order_id"]):
        right = expected.take(rows)
        bad = (came["tail"] & ~VERDICT_BYTE) != 0
        counterexamples.note("malformed", positions[bad], answer=came[bad], order_at=at[rows[bad]])
        wrong = came["tail"] & VERDICT_BYTE != right["tail"]
        for field in ("symbol", "quote_id", "bid", "offer"):
            wrong |= came[field] != right[field]
        extra = right["tail"] == 0 if silent else np.zeros(len(rows), bool)
        for kind, mask in (("invented", extra), ("wrong-verdict", wrong & ~extra)):
            counterexamples.note(
                kind, positions[mask], answer=came[mask], right=right[mask], order_at=at[rows[mask]]
            )
        if fetches is not None:
            right_ones = ~(wrong | extra)
            fetched = fetches.of_places(at[rows[right_ones]])
            fetches.note(counterexamples, answers.outputs, positions[right_ones], fetched)
        answers.note_again(rows, positions, came, first, counterexamples)
    lost = np.flatnonzero((first < 0) & ((expected["tail"] == 1) | (not silent)))
    counterexamples.note("lost", at[lost], right=expected[lost])


def _locate(inputs: Sequence[np.ndarray], quote_id: int) -> Located | None:
    """Find a quote by its id."""
    for partition, array in enumerate(inputs):
        for start, piece in pieces(array):
            records = piece.view(RECORD)
            match = np.flatnonzero((records["id"] == quote_id) & (records["kind"] == QUOTE_KIND))
            if len(match):
                quote = records[match[0]]
                return Located(int(quote["symbol"]), partition, start + int(match[0]))
    return None


def _finding(
    locate: Callable[[int], Located | None],
    partitions: int,
    outputs: OutputLog,
    example: Counterexample,
    limit: int,
) -> Finding:
    kind, at, row = example.kind, example.at, example.row
    if kind == "lost":
        due = row["right"]
        where = order_where(due["order_id"], due["symbol"], at, partitions)
        return MissingVerdict(kind, where, due, limit)
    if kind == AHEAD:
        return ahead(example, place(outputs, at), answer_at(outputs, at))
    answer = row["answer"]
    where = place(outputs, at)
    where |= order_where(answer["order_id"], answer["symbol"], row.get("order_at"), partitions)
    if kind == "malformed":
        return malformed(answer, where)
    if "first" in row:
        return answered_again(outputs, example, where)
    if "right" not in row:
        return AnswerToNothing(kind, where, answer)
    named = locate(int(answer["quote_id"]))
    return WrongVerdict(kind, where, answer, row["right"], limit, named, kind == "invented")
