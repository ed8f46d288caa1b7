"""Which input record each output answers: whole arrays, for the apps that can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.checkers.arrays import gather, hash_records, pieces
from tickproof.conformance.checkers.market_rule import ANSWER, RECORD
from tickproof.conformance.checkers.merged import expected_merged
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.suites.evidence import doubled, outputs
from tickproof.generators.layouts import (
    COUNT_IN,
    COUNT_OUT,
    MESSAGE,
    NUMBER,
    ORDER,
    ORDER_KIND,
    opaque,
)

#: Records in and out together; beyond this a story is told without them.
MOST: Final = 20_000_000
#: Bytes of the input that are hashed for it at most.
MOST_BYTES: Final = 1 << 30


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

    def place(self, row: int) -> tuple[int, int, int]:
        """Return (stream, partition, offset) of a row."""
        part = next(p for p in reversed(self.parts) if p.start <= row and p.records)
        return part.stream, part.partition, row - part.start

    def row(self, stream: int, partition: int, offset: int) -> int:
        """Return the row of a record; raises KeyError for a stream that nothing answers."""
        for part in self.parts:
            if (part.stream, part.partition) == (stream, partition):
                return part.start + offset
        raise KeyError((stream, partition))

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


def matching(history: History) -> Matching | None:
    """Return what the outputs of a run answer; None where that is too much to hold."""
    log = outputs(history)
    size = sum(p["records"] * p["record_size"] for p in history.partitions)
    if history.input_records + len(log) > MOST or size > MOST_BYTES:
        return None
    if history.app == "count":
        return match_count(_inputs(history, COUNT_IN), log, history.params["emit"] == "every")
    if history.app == "market-spread":
        return _match_market(history, log)
    dtype = NUMBER if history.app == "double" else opaque(history.partitions[0]["record_size"])
    return match_payloads(_inputs(history, dtype), log, double=history.app == "double")


Inputs = Sequence[tuple[int, int, np.ndarray]]


def _inputs(history: History, dtype: np.dtype, stream: int = 0) -> Inputs:
    numbers = [p["partition"] for p in history.partitions if p["stream"] == stream]
    arrays = history.inputs(dtype, stream)
    return [(stream, n, a) for n, a in zip(numbers, arrays, strict=True)]


def _parts(inputs: Inputs) -> tuple[Part, ...]:
    found, start = [], 0
    for stream, partition, array in inputs:
        found.append(Part(stream, partition, start, len(array)))
        start += len(array)
    return tuple(found)


def match_count(inputs: Inputs, log: OutputLog, every: bool) -> Matching:
    """Match outputs of app count: (key, n) is the n-th record of the key."""
    whole = np.concatenate([np.array(a) for *_, a in inputs] or [np.empty(0, COUNT_IN)])
    key, order, start, count = by_key(whole["key"])
    values = whole["value"][order]
    running = np.cumsum(values, dtype=np.int64)
    total = running - np.repeat(running[start] - values[start], count)
    out = np.array(log.payloads)
    rank = np.searchsorted(key, out["key"])
    known = rank < len(key)
    known[known] = key[rank[known]] == out["key"][known]
    n = np.minimum(out["n"], np.uint64(1 << 62)).astype(np.int64)
    known[known] = (n[known] >= 1) & (n[known] <= count[rank[known]])
    point = start[rank[known]] + n[known] - 1
    answers = np.full(len(out), -1, np.int64)
    answers[known] = order[point]
    wrong = np.ones(len(out), bool)
    wrong[known] = out["total"][known] != total[point]
    owed = np.full(len(whole), every)
    owed[order[start + count - 1]] = True
    due = np.empty(len(whole), COUNT_OUT)
    due["key"] = whole["key"]
    due["n"][order] = np.arange(len(whole)) - np.repeat(start, count) + 1
    due["total"][order] = total
    return Matching(_parts(inputs), answers, wrong, owed, due)


def by_key(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (distinct keys, rows by key in log order, first of each key in them, how many)."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    head = np.ones(len(ranked), bool)
    head[1:] = ranked[1:] != ranked[:-1]
    start = np.flatnonzero(head)
    return ranked[start], order, start, np.diff(np.append(start, len(ranked)))


def match_payloads(inputs: Inputs, log: OutputLog, *, double: bool = False) -> Matching:
    """Match outputs that equal their record (or twice its number), the k-th to the k-th."""
    hashes = [np.empty(0, np.uint64)]
    for *_, array in inputs:
        for _, piece in pieces(array):
            hashes.append(hash_records(doubled(piece) if double else piece))
    due = np.concatenate(hashes)
    came = [hash_records(piece) for _, piece in pieces(log.payloads)]
    out = np.concatenate([np.empty(0, np.uint64), *came])
    key, order, start, count = by_key(due)
    rank = np.searchsorted(key, out)
    known = rank < len(key)
    known[known] = key[rank[known]] == out[known]
    answers = np.full(len(out), -1, np.int64)
    nth = np.minimum(_nth(rank[known]), count[rank[known]] - 1)
    answers[known] = order[start[rank[known]] + nth]
    return Matching(_parts(inputs), answers, ~known, np.ones(len(due), bool))


def _nth(values: np.ndarray) -> np.ndarray:
    """Return how often each value stood before in the array."""
    _, order, start, count = by_key(values)
    found = np.empty(len(values), np.int64)
    found[order] = np.arange(len(values)) - np.repeat(start, count)
    return found


def _match_market(history: History, log: OutputLog) -> Matching:
    """Match verdicts by order_id. Two streams leave open which quote is right."""
    merged = history.params["inputs"] == "merged"
    inputs = _inputs(history, MESSAGE, 0) if merged else _inputs(history, ORDER, 1)
    whole = np.concatenate([np.array(a).view(RECORD) for *_, a in inputs])
    orders = np.flatnonzero(whole["kind"] == ORDER_KIND)
    ids = whole["id"][orders]
    by_id = np.argsort(ids, kind="stable")
    came = gather(log.payloads, np.arange(len(log))).view(ANSWER)
    at = np.minimum(np.searchsorted(ids[by_id], came["order_id"]), max(0, len(ids) - 1))
    known = np.zeros(len(came), bool)
    if len(ids):
        known = ids[by_id][at] == came["order_id"]
    answers = np.full(len(came), -1, np.int64)
    answers[known] = orders[by_id[at[known]]]
    owed, wrong = np.zeros(len(whole), bool), ~known
    verdicts = history.params["emit"] == "verdicts"
    expected = None
    if merged:
        expected = np.zeros(len(whole), ANSWER)
        starts = np.array([part.start for part in _parts(inputs)])
        for row, due in expected_merged([array for *_, array in inputs]):
            offset, partition = np.divmod(row, len(inputs))
            expected[starts[partition] + offset] = due
        owed[orders] = verdicts | (expected["tail"][orders] == 1)
        rows = answers[known]
        wrong[known] = (expected[rows] != came[known]) | ~owed[rows]
    elif verdicts:
        owed[orders] = True
    return Matching(_parts(inputs), answers, wrong, owed, expected)
