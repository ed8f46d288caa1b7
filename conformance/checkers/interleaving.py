"""Is there one order of events that explains all verdicts of a symbol?

Quotes of a symbol get slots: its first slot stands for "none seen", then one a quote.
Slots of symbols follow each other, so one running maximum over all orders, sorted by
symbol and offset, serves every symbol: a later symbol's first slot is above all before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Slots:
    """Slots of the quotes of a group of symbols.

    first, last: of each symbol, its first and last slot. next_accept: of each slot, the
    next slot at or after it whose quote accepts (of any symbol; the end if there is none).
    """

    first: np.ndarray
    last: np.ndarray
    next_accept: np.ndarray

    @classmethod
    def of(cls, symbol: np.ndarray, accepts: np.ndarray, symbols: int) -> Slots:
        """Build from the quotes' symbols (ascending, 0 to symbols - 1) and who accepts."""
        counts = np.bincount(symbol, minlength=symbols)
        last = np.cumsum(counts + 1) - 1
        slots = np.full(len(symbol) + symbols + 1, len(symbol) + symbols, np.int64)
        own = np.arange(len(symbol)) + symbol + 1
        slots[own[accepts]] = own[accepts]
        return cls(last - counts, last, np.minimum.accumulate(slots[::-1])[::-1])


@dataclass(frozen=True)
class Sequence:
    """Orders sorted by symbol and offset.

    symbol, hidden (must have been accepted, no output), lower (of hidden orders: the
    first slot that time allows). Visible orders: ``slot`` of the verdict, -1 if none.
    """

    symbol: np.ndarray
    hidden: np.ndarray
    lower: np.ndarray
    slot: np.ndarray


@dataclass(frozen=True)
class Conflicts:
    """Rows of orders that no interleaving explains.

    back, back_after: a visible order and the earlier one that saw a later quote.
    stuck: hidden orders without an accepting quote that they can have seen.
    stuck_before: the visible order that saw an earlier quote, -1 if nothing accepts at all.
    """

    back: np.ndarray
    back_after: np.ndarray
    stuck: np.ndarray
    stuck_before: np.ndarray


def conflicts(slots: Slots, orders: Sequence) -> Conflicts:
    """Find the conflicts of orders with one verdict each, on whole arrays."""
    floor = slots.first[orders.symbol]
    head = np.concatenate(([True], orders.symbol[1:] != orders.symbol[:-1]))[: len(floor)]
    visible = orders.slot >= 0
    seen = np.maximum.accumulate(np.where(visible, orders.slot, floor))
    seen_before = np.where(head, floor, np.concatenate(([0], seen[:-1])))
    # A hidden order takes the earliest accepting quote that it may: anything later is worse.
    taken = slots.next_accept[np.maximum(seen_before, orders.lower)]
    none = orders.hidden & (taken > slots.last[orders.symbol])
    pushed = np.maximum.accumulate(np.where(orders.hidden & ~none, taken, floor))
    pushed_before = np.where(head, floor, np.concatenate(([0], pushed[:-1])))
    back = np.flatnonzero(visible & (orders.slot < seen_before))
    held = np.flatnonzero(visible & (orders.slot >= seen_before) & (orders.slot < pushed_before))
    stuck, where = np.unique(np.searchsorted(pushed, pushed_before[held]), return_index=True)
    alone = np.flatnonzero(none)
    return Conflicts(
        back,
        np.searchsorted(seen, seen_before[back]),
        np.concatenate((alone, stuck)),
        np.concatenate((np.full(len(alone), -1), held[where])),
    )


def conflicts_by_choice(
    slots: Slots,
    symbol: int,
    rows: np.ndarray,
    lower: np.ndarray,
    choices: list[list[int]],
    may_hide: np.ndarray,
) -> Conflicts:
    """Find the conflicts of one symbol where some orders have several verdicts.

    ``choices[i]``: slots that order ``rows[i]`` may have seen (empty: hidden or without a
    say); ``may_hide[i]``: it may also have been accepted without output. The lowest
    slot that fits is always the best choice for all that follows.
    """
    last = int(slots.last[symbol])
    seen = pushed = int(slots.first[symbol])
    seen_by = pushed_by = -1
    back: list[tuple[int, int]] = []
    stuck: dict[int, int] = {}
    for row, low, options, hide in zip(
        rows.tolist(), lower.tolist(), choices, may_hide.tolist(), strict=True
    ):
        reached = max(seen, pushed)
        hidden = int(slots.next_accept[max(reached, low)]) if hide else last + 1
        fits = min((slot for slot in options if slot >= reached), default=last + 1)
        if hidden < fits:
            pushed, pushed_by = hidden, row
        elif fits <= last:
            if fits > seen:
                seen, seen_by = fits, row
        elif not options:
            if hide:
                stuck.setdefault(row, -1)
        elif max(options) < seen:
            back.append((row, seen_by))
        else:
            stuck.setdefault(pushed_by, row)
            seen, seen_by = min(slot for slot in options if slot >= seen), row
    pairs = np.array(back, np.int64).reshape(-1, 2)
    return Conflicts(
        pairs[:, 0],
        pairs[:, 1],
        np.array(list(stuck), np.int64),
        np.array(list(stuck.values()), np.int64),
    )
