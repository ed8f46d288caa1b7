"""Outputs due for each input record, matched to the outputs of a run: whole arrays.

Checkers, latencies, explanations and the bench all ask this of a run; here it is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.checkers.arrays import hash_records, mix, pieces, read
from tickproof.conformance.checkers.market_rule import ANSWER, RECORD
from tickproof.conformance.checkers.symbols import Symbols, order_by
from tickproof.generators.layouts import ORDER_KIND, QUOTE_KIND
from tickproof.generators.spread_rule import FIVE_CENTS, rejects

#: Words that are matched at once, about: their tables fit into a cache.
_PART: Final = 1 << 16
#: No log reaches this n.
_NO_N: Final = np.uint64(1 << 62)
#: What a lane of a market carries from piece to piece; id 0 is none.
_LATEST: Final = np.dtype([("id", "<u8"), ("bid", "<i8"), ("offer", "<i8")])


# -- records by key ----------------------------------------------------------------------


def find(ascending: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each wanted value stands in ``ascending``, and whether it does."""
    if not len(ascending):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return place, ascending[place] == wanted


@dataclass(frozen=True)
class Groups:
    """Records grouped by key: a key's records side by side, in the order of the log.

    keys: distinct, ascending. order: rows of the records, group after group. start, count:
    of each group in ``order``. A point is a place in ``order``.
    """

    keys: np.ndarray
    order: np.ndarray
    start: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray) -> Groups:
        """Group records by their keys."""
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        head = np.ones(len(ranked), bool)
        head[1:] = ranked[1:] != ranked[:-1]
        start = np.flatnonzero(head)
        return cls(ranked[start], order, start, np.diff(np.append(start, len(ranked))))

    def ranks(self) -> np.ndarray:
        """Return for each record how many of its key stand before it."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.arange(len(self.order)) - np.repeat(self.start, self.count)
        return found

    def totals(self, values: np.ndarray, before: np.ndarray | int = 0) -> np.ndarray:
        """Return the running total at each point; ``before``: what each key had already.

        Sums wrap at 64 bits, as those of app count do.
        """
        values = values[self.order]
        running = np.cumsum(values, dtype=np.int64)
        return running - np.repeat(running[self.start] - values[self.start] - before, self.count)

    def points(self, keys: np.ndarray, n: np.ndarray, before: np.ndarray | int = 0) -> np.ndarray:
        """Return the point of the n-th record (from 1) of each key, -1 where there is none.

        n: uint64. before: how many records each group's key had already.
        """
        group, known = find(self.keys, keys)
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        nth = np.minimum(n, _NO_N).astype(np.int64) - 1
        nth -= before[group] if isinstance(before, np.ndarray) else before
        known &= (nth >= 0) & (nth < self.count[group])
        return np.where(known, self.start[group] + nth, -1)


# -- records by payload ------------------------------------------------------------------


def doubled(records: np.ndarray) -> np.ndarray:
    """Return the output of app double for NUMBER records; doubles wrap."""
    twice = np.empty_like(records)
    twice["x"] = (records["x"].view(np.uint64) * np.uint64(2)).view(np.int64)
    return twice


def payload_words(
    payloads: np.ndarray, answer: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> np.ndarray:
    """Return a u64 for each payload, or for its answer; different ones have different words.

    Exact for up to 8 bytes; for longer ones up to a chance of n^2 / 2^65 for n payloads.
    """
    found = [hash_records(answer(piece)) for _, piece in pieces(payloads)]
    return np.concatenate([np.empty(0, np.uint64), *found])


def answered(due: np.ndarray, came: np.ndarray) -> np.ndarray:
    """Return which row of ``due`` each word that came answers, -1 for none; both u64.

    Of equal words the k-th answers the k-th; what comes beyond that answers the last.
    """
    found = np.full(len(came), -1, np.int64)
    bits = min(16, max(1, len(due) // _PART).bit_length() - 1)
    due_order, due_ends = _parts(due, bits)
    came_order, came_ends = _parts(came, bits)
    for part in range(1 << bits):
        rows = due_order[due_ends[part] : due_ends[part + 1]]
        outputs = came_order[came_ends[part] : came_ends[part + 1]]
        if len(rows) and len(outputs):
            local = _answered(due[rows], came[outputs])
            found[outputs] = np.where(local >= 0, rows[local], -1)
    return found


def _parts(words: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows by part, in each part in their order, and where the parts end."""
    codes = (mix(words) >> np.uint64(48)).astype(np.uint16) >> np.uint16(16 - bits)
    ends = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=1 << bits))))
    return np.argsort(codes, kind="stable"), ends


def _answered(due: np.ndarray, came: np.ndarray) -> np.ndarray:
    order = np.argsort(due)
    ranked = due[order]
    if (ranked[1:] == ranked[:-1]).any():
        groups = Groups.of(due)
        group, known = find(groups.keys, came)
        group = group[known]
        nth = np.minimum(Groups.of(group).ranks(), groups.count[group] - 1)
        found = np.full(len(came), -1, np.int64)
        found[known] = groups.order[groups.start[group] + nth]
        return found
    ascending = np.argsort(came)  # looking up words in order is twice as fast
    row, known = find(ranked, came[ascending])
    found = np.empty(len(came), np.int64)
    found[ascending] = np.where(known, order[row], -1)
    return found


# -- Market Spread on merged input -------------------------------------------------------


def merged_verdicts(
    inputs: Sequence[np.ndarray],
    offsets: Sequence[np.ndarray] | None = None,
    *,
    limit: int = FIVE_CENTS,
    piece_rows: int = 1 << 18,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (at, verdicts) for a piece of orders at a time.

    ``verdicts`` are ANSWER records; ``at`` = offset * partitions + partition, the offset
    by ``offsets`` where ``inputs`` hold a part of the partitions. Pieces take a like share
    of every partition, and hold about ``piece_rows`` input records. ``limit``: five cents in the
    unit of prices. Raises ValueError for
    an input record of neither kind.
    """
    count = -(-sum(map(len, inputs)) // piece_rows)
    lanes = [_Lane(inputs, partition, offsets, limit) for partition in range(len(inputs))]
    for piece in range(count):
        parts = [lane.answer(piece, count) for lane in lanes]
        at = np.concatenate([at for at, _ in parts])
        verdicts = np.concatenate([verdicts for _, verdicts in parts])
        del parts
        yield at, verdicts


class _Lane:
    """One partition of the input, read once from its beginning."""

    def __init__(
        self,
        inputs: Sequence[np.ndarray],
        partition: int,
        offsets: Sequence[np.ndarray] | None,
        limit: int,
    ) -> None:
        self.array, self.limit = inputs[partition], limit
        self.offsets = None if offsets is None else offsets[partition]
        self.partition, self.partitions = partition, len(inputs)
        self.symbols = Symbols()
        self.latest = np.empty(0, _LATEST)  # the latest quote of each symbol, by code

    def answer(self, piece: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (at, verdicts) of the orders in one of ``count`` pieces of the partition."""
        start, end = (len(self.array) * i // count for i in (piece, piece + 1))
        records = read(self.array, start, end, RECORD)
        is_quote = records["kind"] == QUOTE_KIND
        strange = np.flatnonzero(~is_quote & (records["kind"] != ORDER_KIND))
        if len(strange):
            raise ValueError(
                f"input partition {self.partition} offset {start + strange[0]}: kind "
                f"{records['kind'][strange[0]]}, expected {ORDER_KIND} (order) or {QUOTE_KIND}"
            )
        codes = self.symbols.codes(records["symbol"])
        new = len(self.symbols) - len(self.latest)
        self.latest = np.concatenate((self.latest, np.zeros(new, _LATEST)))
        orders, source, newest = self._sources(codes, is_quote)
        # Whole records are taken once: they come from all over the piece.
        seen = records.take(source)
        asked = records.take(orders)
        verdicts = np.empty(len(orders), ANSWER)
        verdicts["order_id"], verdicts["symbol"] = asked["id"], asked["symbol"]
        carried = np.flatnonzero(source < 0)
        older = codes[orders[carried]]
        for name, field in (("quote_id", "id"), ("bid", "bid"), ("offer", "offer")):
            column = seen[field].copy()
            column[carried] = self.latest[field][older]
            verdicts[name] = column
            self.latest[field][codes[newest]] = records[field][newest]
        bid, offer = verdicts["bid"], verdicts["offer"]
        verdicts["tail"] = rejects(bid, offer, verdicts["quote_id"], self.limit)
        offset = start + orders if self.offsets is None else self.offsets[start + orders]
        return offset * self.partitions + self.partition, verdicts

    def _sources(
        self, codes: np.ndarray, is_quote: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return orders, the latest quote of each (-1: none here), each symbol's last quote."""
        if not len(codes):
            return (np.empty(0, np.int64),) * 3
        order = order_by(codes, len(self.symbols))
        ranked = codes[order]
        head = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        sizes = np.diff(np.append(head, len(order)))
        latest = np.maximum.accumulate(np.where(is_quote[order], np.arange(len(order)), -1))
        source = np.empty(len(order), np.int64)
        source[order] = np.where(latest >= np.repeat(head, sizes), order[latest], -1)
        last = latest[head + sizes - 1]
        orders = np.flatnonzero(~is_quote)
        return orders, source[orders], order[last[last >= head]]
