"""Market Spread on one merged stream: the answer is a function of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tickproof.conformance.checkers.answers import Answers
from tickproof.conformance.checkers.arrays import pieces, read
from tickproof.conformance.checkers.counterexamples import Sightings
from tickproof.conformance.checkers.delivery import place
from tickproof.conformance.checkers.findings import Finding, Findings
from tickproof.conformance.checkers.market_rule import (
    ANSWER,
    RECORD,
    VERDICT_BYTE,
    Located,
    clause,
    diagnose,
    rejects,
    show_answer,
    symbol_text,
)
from tickproof.conformance.checkers.symbols import Symbols, order_by
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import ORDER_KIND, QUOTE_KIND


def check_merged(
    inputs: Sequence[np.ndarray], outputs: OutputLog, emit: str, *, piece_rows: int = 1 << 18
) -> Findings:
    """Judge app market-spread on merged input.

    ``inputs``: partitions of 52-byte records of both kinds; ``outputs``: VERDICT;
    ``emit``: "rejects" or "verdicts". Kinds: ``wrong-verdict``, ``lost``, ``duplicate``,
    ``retracted``, ``invented``, ``malformed``. ValueError for another ``emit``, for an
    input record of neither kind, or for an order_id that comes twice in the input.
    """
    sightings = Sightings()
    seen = sight_merged(inputs, outputs, emit, sightings, piece_rows=piece_rows)
    return merged_findings(
        sightings, outputs, partitions=len(inputs), records=sum(map(len, inputs)),
        orders=seen.orders, rejects=seen.rejects, locate=lambda id_: _locate(inputs, id_),
    )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """Orders of the input, how many are to be rejected, outputs that answer none of them."""

    orders: int
    rejects: int
    strangers: int


def sight_merged(
    inputs: Sequence[np.ndarray],
    outputs: OutputLog,
    emit: str,
    sightings: Sightings,
    *,
    offsets: Sequence[np.ndarray] | None = None,
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
    for at, expected in expected_merged(inputs, offsets, piece_rows=piece_rows):
        orders += len(at)
        rejected += int(expected["tail"].sum())
        _judge_piece(answers, at, expected, emit == "rejects", sightings)
    return Seen(orders, rejected, answers.note_strangers(sightings))


def merged_findings(
    sightings: Sightings, outputs: OutputLog, *, partitions: int, records: int, orders: int,
    rejects: int, locate: Callable[[int], Located | None],
) -> Findings:  # fmt: skip
    """Explain sightings; ``locate`` finds a quote of the input by its id."""
    found = sightings.findings(
        lambda kind, at, row: _explain(locate, partitions, outputs, kind, at, row)
    )
    found.checked = records + len(outputs)
    found.facts |= {"orders": orders, "rejects": rejects, "outputs": len(outputs)}
    return found


def expected_merged(
    inputs: Sequence[np.ndarray],
    offsets: Sequence[np.ndarray] | None = None,
    *,
    piece_rows: int = 1 << 18,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (at, verdicts) for a piece of orders at a time.

    ``verdicts`` are ANSWER records; ``at`` = offset * partitions + partition, the offset
    by ``offsets`` where ``inputs`` hold a part of the partitions. Pieces
    take a like share of every partition, and hold about ``piece_rows`` input records.
    """
    count = -(-sum(map(len, inputs)) // piece_rows)
    lanes = [_Lane(inputs, partition, offsets) for partition in range(len(inputs))]
    for piece in range(count):
        parts = [lane.answer(piece, count) for lane in lanes]
        at = np.concatenate([at for at, _ in parts])
        verdicts = np.concatenate([verdicts for _, verdicts in parts])
        del parts
        yield at, verdicts


def rejects_by_symbol(inputs: Sequence[np.ndarray]) -> dict[str, tuple[int, int]]:
    """Return symbol -> (rejected orders, orders) that merged input must give."""
    symbols = Symbols()
    counts = np.zeros((2, 0), np.int64)
    for _, verdicts in expected_merged(inputs):
        codes = symbols.codes(verdicts["symbol"])
        counts = np.pad(counts, ((0, 0), (0, len(symbols) - counts.shape[1])))
        counts[0] += np.bincount(codes[verdicts["tail"] == 1], minlength=len(symbols))
        counts[1] += np.bincount(codes, minlength=len(symbols))
    names = [symbol_text(word) for word in symbols.words]
    return dict(sorted(zip(names, zip(*counts.tolist(), strict=True), strict=True)))


@dataclass
class _Latest:
    """The latest quote of each symbol by code; id 0 is none."""

    quote_id: np.ndarray
    bid: np.ndarray
    offer: np.ndarray


class _Lane:
    """One partition of the input, read once from its beginning."""

    def __init__(
        self, inputs: Sequence[np.ndarray], partition: int, offsets: Sequence[np.ndarray] | None
    ) -> None:
        self.array = inputs[partition]
        self.offsets = None if offsets is None else offsets[partition]
        self.partition, self.partitions = partition, len(inputs)
        self.symbols = Symbols()
        zero = np.empty(0, np.int64)
        self.latest = _Latest(np.empty(0, np.uint64), zero, zero)

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
        for name in ("quote_id", "bid", "offer"):
            column = getattr(self.latest, name)
            grown = np.pad(column, (0, len(self.symbols) - len(column)))
            setattr(self.latest, name, grown)
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
            column[carried] = getattr(self.latest, name)[older]
            verdicts[name] = column
            getattr(self.latest, name)[codes[newest]] = records[field][newest]
        verdicts["tail"] = rejects(verdicts["bid"], verdicts["offer"], verdicts["quote_id"])
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


def _judge_piece(
    answers: Answers, at: np.ndarray, expected: np.ndarray, silent: bool, sightings: Sightings
) -> None:
    """Compare the outputs of a piece of orders; ``silent``: accepted orders give none."""
    first = np.full(len(expected), -1, np.int64)
    for positions, rows, came in answers.of(expected["order_id"]):
        right = expected.take(rows)
        bad = (came["tail"] & ~VERDICT_BYTE) != 0
        sightings.note("malformed", positions[bad], answer=came[bad], order_at=at[rows[bad]])
        wrong = came["tail"] & VERDICT_BYTE != right["tail"]
        for field in ("symbol", "quote_id", "bid", "offer"):
            wrong |= came[field] != right[field]
        extra = right["tail"] == 0 if silent else np.zeros(len(rows), bool)
        for kind, mask in (("invented", extra), ("wrong-verdict", wrong & ~extra)):
            sightings.note(
                kind, positions[mask], answer=came[mask], right=right[mask],
                order_at=at[rows[mask]],
            )  # fmt: skip
        answers.note_again(rows, positions, came, first, sightings)
    lost = np.flatnonzero((first < 0) & ((expected["tail"] == 1) | (not silent)))
    sightings.note("lost", at[lost], right=expected[lost])


def _locate(inputs: Sequence[np.ndarray], quote_id: int) -> Located | None:
    """Find a quote by its id."""
    for partition, array in enumerate(inputs):
        for start, piece in pieces(array):
            records = piece.view(RECORD)
            match = np.flatnonzero((records["id"] == quote_id) & (records["kind"] == QUOTE_KIND))
            if len(match):
                quote = records[match[0]]
                return Located(
                    int(quote["symbol"]), int(quote["bid"]), int(quote["offer"]), partition,
                    start + int(match[0]),
                )  # fmt: skip
    return None


def _explain(
    locate: Callable[[int], Located | None], partitions: int, outputs: OutputLog, kind: str,
    at: int, row: dict[str, Any],
) -> Finding:  # fmt: skip
    if kind == "lost":
        offset, partition = divmod(at, partitions)
        right = row["right"]
        where: dict[str, int | str] = {
            "order_id": int(right["order_id"]),
            "symbol": symbol_text(right["symbol"]),
            "partition": partition,
            "offset": offset,
        }
        text = f"order {right['order_id']} has no verdict; {clause(right)}"
        return Finding(kind, text, show_answer(right), "no output", where)
    answer = row["answer"]
    actual = show_answer(answer)
    where = place(outputs, at) | {
        "order_id": int(answer["order_id"]),
        "symbol": symbol_text(answer["symbol"]),
    }
    if "order_at" in row:
        where["offset"], where["partition"] = divmod(int(row["order_at"]), partitions)
    if kind == "malformed":
        tail = int(answer["tail"]).to_bytes(8, "little")[1:].hex()
        text = f"output {at}: the 7 bytes after the verdict are {tail}"
        return Finding(kind, text, "7 zero bytes", tail, where)
    if "first" in row:
        first = outputs.payloads[int(row["first"]) : int(row["first"]) + 1].copy().view(ANSWER)[0]
        text = f"order {answer['order_id']}: output {row['first']}, and again output {at}"
        where["first_index"] = int(row["first"])
        return Finding(kind, text, f"{show_answer(first)}, once", actual, where)
    if "right" not in row:
        text = f"output {at} answers order {answer['order_id']}, which is not in the input"
        return Finding(kind, text, "an order of the input", actual, where)
    named = locate(int(answer["quote_id"]))
    order_at = (where["partition"], where["offset"])
    why = diagnose(row["right"], answer, named, order_at)
    expected = show_answer(row["right"])
    if kind == "invented":
        expected = f"no output: {expected}"
    return Finding(kind, f"output {at}: {why}", expected, actual, where)
