"""Judging the verdicts of a group of symbols against its quotes and orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tickproof.conformance.checkers.answers import Answers
from tickproof.conformance.checkers.arrays import gather
from tickproof.conformance.checkers.causality import FirstFetches
from tickproof.conformance.checkers.counterexamples import Counterexamples
from tickproof.conformance.checkers.expected import find
from tickproof.conformance.checkers.interleaving import (
    Conflicts,
    Sequence,
    Slots,
    conflicts,
    conflicts_by_choice,
)
from tickproof.conformance.checkers.market_rule import ANSWER, RECORD, VERDICT_BYTE
from tickproof.conformance.checkers.symbols import order_by
from tickproof.conformance.checkers.timeline import NEVER, Fetched, publish_times
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.spread_rule import rejects


@dataclass(frozen=True)
class Rules:
    """Rules for one partition of a run. limit: five cents in the unit of prices."""

    silent: bool
    exactly_once: bool
    partitions: int
    partition: int
    quotes_published: np.ndarray
    orders_published: np.ndarray
    fetched: Fetched
    orders_fetched: Fetched
    limit: int
    first_fetches: tuple[FirstFetches, ...]


@dataclass(frozen=True)
class Picked:
    """Records of a partition, ascending, and the number of each one's symbol.

    ``place``: in the array; ``offset``: in the partition, of which the array may be a part.
    """

    array: np.ndarray
    place: np.ndarray
    offset: np.ndarray
    symbol: np.ndarray


@dataclass(frozen=True)
class Group:
    """All quotes and orders of some symbols, each sorted by symbol and offset.

    Symbols are numbered from 0 within the group; ``words`` are their names as u64.
    """

    words: np.ndarray
    quote_symbol: np.ndarray
    quote_offset: np.ndarray
    quote_id: np.ndarray
    bid: np.ndarray
    offer: np.ndarray
    order_symbol: np.ndarray
    order_place: np.ndarray
    order_offset: np.ndarray
    order_id: np.ndarray

    @classmethod
    def read(cls, quotes: Picked, orders: Picked, words: np.ndarray) -> Group:
        """Read picked records of both streams of a partition; ``words``: the group's symbols."""
        quote = gather(quotes.array, quotes.place).view(RECORD)
        order = gather(orders.array, orders.place).view(RECORD)
        by_quote = order_by(quotes.symbol, len(words))
        by_order = order_by(orders.symbol, len(words))
        return cls(
            words,
            quotes.symbol[by_quote].astype(np.int64),
            quotes.offset[by_quote],
            quote["id"][by_quote],
            quote["bid"][by_quote],
            quote["offer"][by_quote],
            orders.symbol[by_order].astype(np.int64),
            orders.place[by_order],
            orders.offset[by_order],
            order["id"][by_order],
        )

    def seen_slots(self, slots: Slots, rows: np.ndarray, below: np.ndarray) -> np.ndarray:
        """Return, for orders, the slot of their symbol's last quote below an offset."""
        symbol = self.order_symbol[rows]
        key = (self.quote_symbol << 41) | self.quote_offset
        place = np.searchsorted(key, (symbol << 41) | below)
        return place + symbol  # quotes before the place, and a first slot for each symbol


def judge_group(
    group: Group,
    rules: Rules,
    answers: Answers,
    positions: np.ndarray,
    rows: np.ndarray,
    counterexamples: Counterexamples,
) -> None:
    """Judge the outputs at ``positions`` (ascending), which answer the orders ``rows``."""
    accepts = ~rejects(group.bid, group.offer, group.quote_id, rules.limit)
    slots = Slots.of(group.quote_symbol, accepts, len(group.words))
    came = answers.at(positions)
    slot = _slots_named(group, slots, came, rows)
    at = group.order_offset * rules.partitions + rules.partition
    _judge_content(group, rules, slots, (positions, rows, came, slot, at), counterexamples)
    arrived = answers.outputs.t_ns(positions)
    published = publish_times(rules.orders_published, group.order_offset)
    _judge_time(
        group, rules, slots, (positions, rows, came, slot, at), arrived, published, counterexamples
    )
    if rules.first_fetches:
        outputs = (positions, rows, came, slot, at)
        _judge_causes(group, rules, slots, outputs, answers.outputs, counterexamples)
    answered = np.zeros(len(at), bool)
    answered[rows] = True
    due = ~answered & (published < NEVER)
    if not rules.silent:
        counterexamples.note(
            "lost", at[due], order_id=group.order_id[due], symbol=_words(group, due)
        )
    hidden = due if rules.silent else np.zeros(len(at), bool)
    first = np.full(len(at), -1, np.int64)
    first[rows[::-1]] = positions[::-1]
    usable = slot >= 0
    for found in _order(
        group, rules, slots, hidden, published, rows[usable], slot[usable], arrived[usable]
    ):
        _note_conflicts(group, found, at, first, answers.outputs, counterexamples)


def _words(group: Group, rows: np.ndarray) -> np.ndarray:
    return group.words[group.order_symbol[rows]]


def _slots_named(group: Group, slots: Slots, came: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the slot of the quote that each verdict names; -1: none of its order's symbol."""
    symbol = group.order_symbol[rows]
    found = np.where(came["quote_id"] == 0, slots.first[symbol], -1)
    if len(group.quote_id):
        by_id = np.argsort(group.quote_id, kind="stable")
        ids = group.quote_id[by_id]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            raise ValueError(f"input: quote_id {ids[twice[0]]} comes twice, expected once")
        place, known = find(ids, came["quote_id"])
        quote = by_id[place]
        named = known & (group.quote_symbol[quote] == symbol)
        found[named] = (quote + symbol + 1)[named]
    return found


Outputs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _quotes(
    group: Group, slots: Slots, slot: np.ndarray, symbol: np.ndarray, limit: int
) -> np.ndarray:
    """Return ANSWER records holding what slots stand for: quote id, bid, offer, verdict."""
    right = np.zeros(len(slot), ANSWER)
    right["symbol"] = group.words[symbol]
    some = np.flatnonzero((slot > slots.first[symbol]) & (slot <= slots.last[symbol]))
    quote = slot[some] - symbol[some] - 1
    right["quote_id"][some] = group.quote_id[quote]
    right["bid"][some] = group.bid[quote]
    right["offer"][some] = group.offer[quote]
    right["tail"] = rejects(right["bid"], right["offer"], right["quote_id"], limit)
    return right


def _judge_content(
    group: Group, rules: Rules, slots: Slots, outputs: Outputs, counterexamples: Counterexamples
) -> None:
    """Compare each verdict with the quote that it names."""
    positions, rows, came, slot, at = outputs
    bad = (came["tail"] & ~VERDICT_BYTE) != 0
    counterexamples.note("malformed", positions[bad], answer=came[bad], order_at=at[rows[bad]])
    symbol = group.order_symbol[rows]
    right = _quotes(group, slots, slot, symbol, rules.limit)
    right["order_id"] = came["order_id"]
    strange = slot < 0
    wrong = came["symbol"] != right["symbol"]
    differs = came["tail"] & VERDICT_BYTE != right["tail"]
    for field in ("bid", "offer"):
        differs |= came[field] != right[field]
    wrong |= differs & ~strange
    extra = ~wrong & ~strange & (right["tail"] == 0) & rules.silent
    for kind, mask in (("unknown-quote", strange), ("wrong-verdict", wrong), ("invented", extra)):
        counterexamples.note(
            kind, positions[mask], answer=came[mask], right=right[mask], order_at=at[rows[mask]]
        )


def _judge_time(
    group: Group,
    rules: Rules,
    slots: Slots,
    outputs: Outputs,
    arrived: np.ndarray,
    published: np.ndarray,
    counterexamples: Counterexamples,
) -> None:
    """No verdict by a quote from after it, none by a quote older than what must be seen."""
    positions, rows, came, slot, at = outputs
    symbol = group.order_symbol[rows]
    named = np.flatnonzero(slot > slots.first[symbol])
    quote = slot[named] - symbol[named] - 1
    quote_t = publish_times(rules.quotes_published, group.quote_offset[quote])
    future = quote_t > arrived[named]
    late = named[future]
    counterexamples.note(
        "from-the-future",
        positions[late],
        answer=came[late],
        order_at=at[rows[late]],
        published=quote_t[future],
        arrived=arrived[late],
    )
    below = rules.fetched.must_be_seen(published[rows], arrived)
    lowest = group.seen_slots(slots, rows, below)
    stale = np.flatnonzero((slot >= 0) & (slot < lowest))
    counterexamples.note(
        "stale-quote",
        positions[stale],
        answer=came[stale],
        order_at=at[rows[stale]],
        right=_quotes(group, slots, lowest[stale], symbol[stale], rules.limit),
        behind=(lowest - slot)[stale],
    )


def _judge_causes(
    group: Group,
    rules: Rules,
    slots: Slots,
    outputs: Outputs,
    log: OutputLog,
    counterexamples: Counterexamples,
) -> None:
    """No verdict before its order, or the quote that it names, was fetched."""
    positions, rows, _, slot, at = outputs
    of_quotes, of_orders = rules.first_fetches
    fetched = of_orders.of_places(at[rows])
    symbol = group.order_symbol[rows]
    named = np.flatnonzero(slot > slots.first[symbol])
    quote = slot[named] - symbol[named] - 1
    quote_at = group.quote_offset[quote] * rules.partitions + rules.partition
    fetched[named] = np.maximum(fetched[named], of_quotes.of_places(quote_at))
    of_orders.note(counterexamples, log, positions, fetched)


def _order(
    group: Group,
    rules: Rules,
    slots: Slots,
    hidden: np.ndarray,
    published: np.ndarray,
    rows: np.ndarray,
    slot: np.ndarray,
    arrived: np.ndarray,
) -> list[Conflicts]:
    """Find the verdicts and silences that no order of events explains."""
    everyone = np.arange(len(hidden))
    lower = np.zeros(len(hidden), np.int64)
    maybe = hidden.copy()
    several = np.zeros(len(hidden), bool)
    single = np.full(len(hidden), -1, np.int64)
    single[rows[::-1]] = slot[::-1]  # under exactly-once the first verdict is the one
    if not rules.exactly_once:
        several[rows[single[rows] != slot]] = True
        if rules.silent:  # a replay may have accepted in silence what was rejected before
            latest = np.full(len(hidden), -1, np.int64)
            np.maximum.at(latest, rows, arrived)
            again = rules.orders_fetched.again_after(latest) <= group.order_offset
            maybe |= (latest >= 0) & again
            several |= maybe & ~hidden
    some = everyone[maybe]
    never = np.full(len(some), NEVER)
    below = rules.fetched.must_be_seen(published[some], never)
    lower[some] = group.seen_slots(slots, some, below)
    apart = np.zeros(len(group.words), bool)
    apart[group.order_symbol[several]] = True
    alone = apart[group.order_symbol]
    found = [
        conflicts(
            slots, Sequence(group.order_symbol, hidden & ~alone, lower, np.where(alone, -1, single))
        )
    ]
    by_row = np.argsort(rows, kind="stable")
    for symbol in np.flatnonzero(apart):
        start, end = np.searchsorted(group.order_symbol, [symbol, symbol + 1])
        choices: list[list[int]] = [[] for _ in range(end - start)]
        low, high = np.searchsorted(rows[by_row], [start, end])
        for row, option in zip(
            rows[by_row[low:high]].tolist(), slot[by_row[low:high]].tolist(), strict=True
        ):
            choices[row - start].append(option)
        part = slice(start, end)
        found.append(
            conflicts_by_choice(
                slots, int(symbol), everyone[part], lower[part], choices, maybe[part]
            )
        )
    return found


def _note_conflicts(
    group: Group,
    found: Conflicts,
    at: np.ndarray,
    first: np.ndarray,
    outputs: OutputLog,
    counterexamples: Counterexamples,
) -> None:
    """Note conflicts; a visible order stands for its first output."""

    def answer(rows: np.ndarray) -> np.ndarray:
        shown = np.zeros(len(rows), ANSWER)
        some = (rows >= 0) & (first[rows] >= 0)
        shown[some] = gather(outputs.payloads, first[rows[some]]).view(ANSWER)
        return shown

    counterexamples.note(
        "went-back",
        first[found.back],
        answer=answer(found.back),
        after=answer(found.back_after),
        order_at=at[found.back],
    )
    counterexamples.note(
        "must-reject",
        at[found.stuck],
        order_id=group.order_id[found.stuck],
        symbol=_words(group, found.stuck),
        before=answer(found.stuck_before),
    )
