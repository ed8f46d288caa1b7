"""Market Spread on two streams: some interleaving that respects time explains every verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from tickproof.conformance.checkers.answers import (
    Answers,
    answer_at,
    answered_again,
    malformed,
    order_where,
)
from tickproof.conformance.checkers.arrays import read
from tickproof.conformance.checkers.causality import AHEAD, FirstFetches, ahead
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.checkers.delivery import place
from tickproof.conformance.checkers.findings import (
    AnswerToNothing,
    Finding,
    Findings,
    MissingReject,
    MissingVerdict,
    QuoteBefore,
    QuoteOfLater,
    QuoteOfNone,
    StaleQuote,
    WrongVerdict,
)
from tickproof.conformance.checkers.market_rule import RECORD
from tickproof.conformance.checkers.symbols import Symbols
from tickproof.conformance.checkers.timeline import Active, Fetched
from tickproof.conformance.checkers.two_stream_symbols import Group, Picked, Rules, judge_group
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.history.rows import of_partition
from tickproof.generators.spread_rule import FIVE_CENTS

QUOTES: Final = 0
ORDERS: Final = 1
_NONE: Final = 2**32 - 1


class Lane(NamedTuple):
    """Records of one partition, and their offsets (ascending) where they are a part of it."""

    array: np.ndarray
    offsets: np.ndarray | None


def check_two_streams(
    quotes: Sequence[np.ndarray],
    orders: Sequence[np.ndarray],
    outputs: OutputLog,
    emit: str,
    *,
    freshness_ns: int,
    publishes: np.ndarray,
    fetches: np.ndarray,
    pauses: Sequence[tuple[int, int]] = (),
    delivery: str = "exactly-once",
    limit: int = FIVE_CENTS,
    first_fetches: tuple[FirstFetches, ...] = (),
    group_rows: int = 1 << 18,
) -> Findings:
    """Judge app market-spread on two streams.

    ``quotes``, ``orders``: QUOTE and ORDER partitions, a symbol in the same number of both;
    ``outputs``: VERDICT; ``emit``: "rejects" or "verdicts"; ``publishes``, ``fetches``:
    PUBLISH and FETCH tables in time order; ``pauses``: (start_ns, end_ns); ``delivery``:
    "at-least-once" or "exactly-once"; ``limit``: five cents in the unit of prices.
    ``first_fetches``: when quotes and orders were fetched first, empty: not compared.
    Times are monotonic nanoseconds. Symbols are judged
    in groups of about ``group_rows`` records; a larger symbol is a group of its own.

    Kinds: ``wrong-verdict`` (does not follow from the quote that it names),
    ``unknown-quote``, ``from-the-future``, ``ahead-of-fetch``, ``stale-quote``, ``went-back``,
    ``must-reject``, ``lost``, ``duplicate``, ``retracted`` (exactly-once only),
    ``invented``, ``malformed``. ValueError for another ``emit`` or ``delivery``, for
    unlike numbers of partitions, or for ids that come twice in the input.
    """
    counterexamples = Counterexamples()
    collect_two_streams(
        [Lane(part, None) for part in quotes],
        [Lane(part, None) for part in orders],
        outputs,
        emit,
        counterexamples,
        freshness_ns=freshness_ns,
        publishes=publishes,
        fetches=fetches,
        pauses=pauses,
        delivery=delivery,
        limit=limit,
        first_fetches=first_fetches,
        group_rows=group_rows,
    )
    return two_stream_findings(
        counterexamples,
        outputs,
        partitions=len(orders),
        quotes=sum(map(len, quotes)),
        orders=sum(map(len, orders)),
        limit=limit,
    )


def collect_two_streams(
    quotes: Sequence[Lane],
    orders: Sequence[Lane],
    outputs: OutputLog,
    emit: str,
    counterexamples: Counterexamples,
    *,
    freshness_ns: int,
    publishes: np.ndarray,
    fetches: np.ndarray,
    pauses: Sequence[tuple[int, int]],
    delivery: str,
    limit: int = FIVE_CENTS,
    first_fetches: tuple[FirstFetches, ...] = (),
    group_rows: int = 1 << 18,
) -> int:
    """Note what is wrong with the output of app market-spread on two streams.

    As check_two_streams, but ``quotes`` and ``orders`` may hold some symbols only. Returns how
    many outputs answer no order.
    """
    _check_call(emit, delivery, len(quotes), len(orders))
    answers = Answers(outputs)
    arrays = [lane.array for lane in orders]
    order_of = _join(arrays, answers, delivery == "exactly-once", counterexamples)
    orphans = answers.note_orphans(counterexamples)
    active = Active(pauses)
    starts = np.concatenate(([0], np.cumsum([len(part) for part in arrays])))
    for partition in range(len(orders)):
        rules = Rules(
            silent=emit == "rejects",
            exactly_once=delivery == "exactly-once",
            partitions=len(orders),
            partition=partition,
            quotes_published=of_partition(publishes, QUOTES, partition),
            orders_published=of_partition(publishes, ORDERS, partition),
            fetched=Fetched(of_partition(fetches, QUOTES, partition), active, freshness_ns),
            orders_fetched=Fetched(of_partition(fetches, ORDERS, partition), active, 0),
            limit=limit,
            first_fetches=first_fetches,
        )
        for group, row_of in _groups(quotes[partition], orders[partition], group_rows):
            came = _outputs_of(answers, order_of, int(starts[partition]), row_of)
            judge_group(group, rules, answers, *came, counterexamples)
    return orphans


def two_stream_findings(
    counterexamples: Counterexamples,
    outputs: OutputLog,
    *,
    partitions: int,
    quotes: int,
    orders: int,
    limit: int = FIVE_CENTS,
) -> Findings:
    """Return counterexamples as findings; ``quotes``, ``orders``: how many the input holds."""
    changed = counterexamples.counts.pop("changed", 0)
    counterexamples.kept.pop("changed", None)
    found = counterexamples.findings(lambda example: _finding(outputs, partitions, example, limit))
    found.facts |= {"quotes": quotes, "orders": orders, "outputs": len(outputs)}
    found.checked = sum(found.facts.values())
    found.facts["changed"] = changed + counterexamples.counts["retracted"]
    return found


def _check_call(emit: str, delivery: str, quotes: int, orders: int) -> None:
    for name, value, choices in (
        ("emit", emit, ("rejects", "verdicts")),
        ("delivery", delivery, ("at-least-once", "exactly-once")),
    ):
        if value not in choices:
            raise ValueError(f"{name}: expected {choices[0]!r} or {choices[1]!r}, got {value!r}")
    if quotes != orders:
        raise ValueError(
            f"expected as many partitions of orders as of quotes ({quotes}), got {orders}"
        )


def _join(
    orders: Sequence[np.ndarray],
    answers: Answers,
    exactly_once: bool,
    counterexamples: Counterexamples,
    rows: int = 1 << 19,
) -> np.ndarray:
    """Return for each output the order that it answers: its place over all partitions."""
    order_of = np.full(len(answers.matched), _NONE, np.uint32)
    starts = np.concatenate(([0], np.cumsum([len(part) for part in orders])))
    count = -(-int(starts[-1]) // rows)
    for piece in range(count):
        ids, places = [], []
        for part, base in zip(orders, starts, strict=False):
            start, end = (len(part) * i // count for i in (piece, piece + 1))
            ids.append(read(part, start, end, RECORD)["id"])
            places.append(base + np.arange(start, end))
        every, place = np.concatenate(ids), np.concatenate(places)
        first = np.full(len(every), -1, np.int64)
        for positions, found, came in answers.of(every):
            order_of[positions] = place[found]
            kind = "retracted" if exactly_once else "changed"
            answers.note_again(found, positions, came, first, counterexamples, kind)
    return order_of


def _groups(quotes: Lane, orders: Lane, rows: int) -> Iterator[tuple[Group, np.ndarray]]:
    """Yield groups of whole symbols of one partition, and the row in it of each order."""
    symbols = Symbols()
    codes = [_codes(array, symbols) for array, _ in (quotes, orders)]
    of_quotes, of_orders = (np.bincount(code, minlength=len(symbols)) for code in codes)
    sizes = of_quotes + of_orders
    group_of = (np.cumsum(sizes) - sizes) // rows
    # Sizes add up in the order of the codes, so a group is a range of codes.
    edges = np.flatnonzero(np.diff(group_of, prepend=-1, append=-1))
    for low, high in pairwise(edges):
        picked = []
        for (array, offsets), code in zip((quotes, orders), codes, strict=True):
            place = np.flatnonzero((code >= low) & (code < high))
            offset = place if offsets is None else offsets[place]
            picked.append(Picked(array, place, offset, code[place] - np.int32(low)))
        group = Group.read(picked[0], picked[1], symbols.words[low:high])
        row_of = np.full(len(orders[0]), -1, np.int32)
        row_of[group.order_place] = np.arange(len(group.order_place))
        yield group, row_of


def _codes(array: np.ndarray, symbols: Symbols, rows: int = 1 << 18) -> np.ndarray:
    codes = np.empty(len(array), np.int32)
    for start in range(0, len(array), rows):
        piece = read(array, start, start + rows, RECORD)
        codes[start : start + rows] = symbols.codes(piece["symbol"])
    return codes


def _outputs_of(
    answers: Answers, order_of: np.ndarray, start: int, row_of: np.ndarray, rows: int = 1 << 20
) -> tuple[np.ndarray, np.ndarray]:
    """Return (positions, rows of their orders) of the outputs that answer a group's orders."""
    found: list[tuple[Any, Any]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for begin in range(0, len(order_of), rows):
        offset = order_of[begin : begin + rows] - np.uint32(start)  # below it: wraps far up
        here = np.flatnonzero(offset < len(row_of))
        row = row_of[offset[here]]
        own = row >= 0
        found.append((begin + here[own], row[own].astype(np.int64)))
    return np.concatenate([p for p, _ in found]), np.concatenate([r for _, r in found])


def _finding(outputs: OutputLog, partitions: int, example: Counterexample, limit: int) -> Finding:
    kind, at, row = example.kind, example.at, example.row
    if kind in ("lost", "must-reject"):
        where = order_where(row["order_id"], row["symbol"], at, partitions)
        if kind == "lost":
            return MissingVerdict(kind, where, None, limit)
        bound = (int(row["before"]["order_id"]), int(row["before"]["quote_id"]))
        return MissingReject(kind, where, bound if bound[0] else None)
    if kind == AHEAD:
        return ahead(example, place(outputs, at), answer_at(outputs, at))
    answer = row["answer"]
    where = place(outputs, at)
    where |= order_where(answer["order_id"], answer["symbol"], row.get("order_at"), partitions)
    if kind == "malformed":
        return malformed(answer, where)
    if "first" in row:
        return answered_again(outputs, example, where)
    if kind == "from-the-future":
        return QuoteOfLater(kind, where, answer, int(row["published"]), int(row["arrived"]))
    if kind == "went-back":
        return QuoteBefore(kind, where, answer, row["after"])
    if "right" not in row:
        return AnswerToNothing(kind, where, answer)
    if kind == "unknown-quote":
        return QuoteOfNone(kind, where, answer, row["right"])
    if kind == "stale-quote":
        return StaleQuote(kind, where, answer, row["right"], int(row["behind"]))
    return WrongVerdict(kind, where, answer, row["right"], limit, None, kind == "invented")
