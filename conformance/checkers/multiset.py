"""Output payloads as a multiset: what is missing, what came too often, what nobody expected."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from tickproof.conformance.checkers.arrays import differ, gather, hash_records, piece_rows, pieces
from tickproof.conformance.checkers.causality import AHEAD, FirstFetches, ahead
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.checkers.delivery import place
from tickproof.conformance.checkers.expected import Groups
from tickproof.conformance.checkers.findings import (
    Finding,
    Findings,
    MissingPayload,
    SurplusPayload,
)
from tickproof.conformance.checkers.timeline import NEVER
from tickproof.conformance.history.outputs import OutputLog

_LOW: Final = np.uint64(0xFFFFFFFF)
_STEP: Final = 1 << 20


def check_multiset(
    expected: Iterable[np.ndarray],
    outputs: OutputLog,
    *,
    fetches: FirstFetches | None = None,
    hash_bits: int = 32,
) -> Findings:
    """Compare expected payloads with the output as multisets, in any order.

    ``expected`` is read once, in chunks of any length; its records have the size of
    the output's (else ValueError). Kinds: ``lost``, ``duplicate`` (an expected payload
    more often than expected), ``invented``, ``ahead-of-fetch`` (``fetches``: when records were
    fetched first, None: not compared). Hashes only find candidates: bytes decide,
    so ``hash_bits`` (at most 32) changes the speed and never the answer.
    """
    counterexamples = Counterexamples()
    records = collect_multiset(
        expected, outputs, counterexamples, fetches=fetches, hash_bits=hash_bits
    )
    return multiset_findings(counterexamples, outputs, records)


def collect_multiset(
    expected: Iterable[np.ndarray],
    outputs: OutputLog,
    counterexamples: Counterexamples,
    *,
    ordinals: np.ndarray | None = None,
    fetches: FirstFetches | None = None,
    hash_bits: int = 32,
) -> int:
    """Note what two multisets do not share; return how many records were expected.

    As check_multiset. Where both are parts, ``ordinals`` are the places of the expected
    records among all that are expected, ascending.
    """
    index = _Index(outputs, hash_bits, timed=fetches is not None)
    ordinal = 0
    for chunk in expected:
        if chunk.itemsize != outputs.payloads.itemsize:
            raise ValueError(
                f"expected records of {chunk.itemsize} bytes, but the output has records "
                f"of {outputs.payloads.itemsize} bytes"
            )
        for start, piece in pieces(chunk):
            at = np.arange(ordinal + start, ordinal + start + len(piece))
            at = at if ordinals is None else ordinals[at]
            fetched = None if fetches is None else fetches.of_ordinals(at)
            lost = np.flatnonzero(~index.take(piece, fetched))
            counterexamples.note("lost", at[lost], payload=piece[lost])
        ordinal += len(chunk)
    index.note_rest(counterexamples)
    if fetches is not None:
        for positions, fetched in index.timed_outputs():
            fetches.note(counterexamples, outputs, positions, fetched)
    return ordinal


def multiset_findings(
    counterexamples: Counterexamples, outputs: OutputLog, records: int
) -> Findings:
    """Return counterexamples as findings; ``records``: how many were expected."""

    def finding(example: Counterexample) -> Finding:
        kind, at = example.kind, example.at
        if kind == "lost":
            return MissingPayload(kind, {"record": at}, example.row["payload"].tobytes())
        where, payload = place(outputs, at), outputs.payloads[at].tobytes()
        if kind == AHEAD:
            return ahead(example, where, payload)
        return SurplusPayload(kind, where, payload)

    found = counterexamples.findings(finding)
    found.checked = records + len(outputs)
    found.facts |= {"expected": records, "outputs": len(outputs)}
    return found


class _Index:
    """Outputs by the hash of their payload: 9 bytes an output.

    ``slots`` holds (hash, position), 32 bits each, in one sorted u64. A run is a stretch
    of slots with one hash. Nearly all runs hold one payload, perhaps several times; its
    slots are taken from the front. Runs in which two payloads meet are kept in a dict.
    timed: the first slot of a run also has the earliest first FETCH of the records of its payload.
    """

    def __init__(self, outputs: OutputLog, hash_bits: int, *, timed: bool) -> None:
        self.payloads = outputs.payloads
        self.mask = np.uint64(((1 << hash_bits) - 1) << (64 - hash_bits))
        self.slots = np.empty(len(outputs), np.uint64)
        for start, piece in pieces(outputs.payloads):
            position = np.arange(start, start + len(piece), dtype=np.uint64)
            self.slots[start : start + len(piece)] = (hash_records(piece) & self.mask) | position
        self.slots.sort()
        self.taken = np.zeros(len(outputs), bool)
        self.fetched = np.full(len(outputs) if timed else 0, NEVER, np.int64)
        self.mixed: dict[bytes, list[int]] = defaultdict(list)
        self.mixed_taken: Counter[bytes] = Counter()
        self.mixed_hashes = self._mixed_runs()
        low = np.searchsorted(self.slots, self.mixed_hashes)
        high = np.searchsorted(self.slots, self.mixed_hashes | _LOW, side="right")
        for start, end in zip(low, high, strict=True):
            self.taken[start:end] = True
        positions = np.sort(self.positions(self.taken))
        rows = piece_rows(self.payloads.itemsize)
        for start in range(0, len(positions), rows):
            some = positions[start : start + rows]
            for position, payload in zip(some, gather(self.payloads, some), strict=True):
                self.mixed[payload.tobytes()].append(int(position))

    def positions(self, slots: np.ndarray | slice) -> np.ndarray:
        """Return the positions in the output log that slots stand for."""
        return (self.slots[slots] & _LOW).astype(np.int64)

    def _mixed_runs(self) -> np.ndarray:
        """Return the hashes, ascending, under which two different payloads stand."""
        mixed = [np.empty(0, np.uint64)]
        rows = piece_rows(self.payloads.itemsize)
        for start in range(0, len(self.slots) - 1, _STEP):
            piece = self.slots[start : start + _STEP + 1]
            pairs = start + np.flatnonzero((piece[1:] ^ piece[:-1]) <= _LOW)
            for i in range(0, len(pairs), rows):
                some = pairs[i : i + rows]
                left = gather(self.payloads, self.positions(some))
                right = gather(self.payloads, self.positions(some + 1))
                mixed.append(self.slots[some[differ(left, right)]] & ~_LOW)
        return np.unique(np.concatenate(mixed))

    def take(self, records: np.ndarray, fetched: np.ndarray | None) -> np.ndarray:
        """Use up one output for each record; return a mask of the records that got one.

        fetched: when each record was fetched first.
        """
        found = np.zeros(len(records), bool)
        if not len(self.slots):
            return found
        hashes = hash_records(records) & self.mask
        order = np.argsort(hashes)
        head = np.empty(len(records), np.int64)
        head[order] = np.searchsorted(self.slots, hashes[order])
        head[head == len(self.slots)] = 0
        hit = np.flatnonzero((self.slots[head] & ~_LOW) == hashes)
        if len(self.mixed_hashes):
            rare = np.isin(hashes, self.mixed_hashes)
            for i in np.flatnonzero(rare):
                found[i] = self._take_mixed(records[i].tobytes())
            hit = hit[~rare[hit]]
        # A run holds one payload only: a record belongs to it if it equals the first.
        hit = hit[~differ(gather(self.payloads, self.positions(head[hit])), records[hit])]
        if fetched is not None:
            np.minimum.at(self.fetched, head[hit], fetched[hit])
        slot = self._first_free(head[hit], hashes[hit]) + Groups.of(head[hit]).ranks()
        fits = slot < len(self.slots)
        fits[fits] = (self.slots[slot[fits]] & ~_LOW) == hashes[hit[fits]]
        self.taken[slot[fits]] = True
        found[hit[fits]] = True
        return found

    def _take_mixed(self, payload: bytes) -> bool:
        if self.mixed_taken[payload] >= len(self.mixed.get(payload, ())):
            return False
        self.mixed_taken[payload] += 1
        return True

    def _first_free(self, head: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """Return the first slot of each run that is not taken, or the end of the run."""
        free = head.copy()
        busy = np.flatnonzero(self.taken[head])
        low = head[busy]
        high = np.searchsorted(self.slots, hashes[busy] | _LOW, side="right")
        while (low < high).any():  # bisection, because taken slots are the front of a run
            middle = (low + high) // 2
            is_taken = self.taken[np.minimum(middle, len(self.taken) - 1)] & (middle < high)
            low, high = np.where(is_taken, middle + 1, low), np.where(is_taken, high, middle)
        free[busy] = low
        return free

    def timed_outputs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (positions, first FETCH of a record of their payload) of expected outputs.

        Those of mixed runs are left out.
        """
        for start in range(0, len(self.slots), _STEP):
            some = self.slots[start : start + _STEP]
            head = np.searchsorted(self.slots, some & ~_LOW)
            wanted = self.taken[head] & ~np.isin(some & ~_LOW, self.mixed_hashes)
            positions = self.positions(slice(start, start + _STEP))
            yield positions[wanted], self.fetched[head[wanted]]

    def note_rest(self, counterexamples: Counterexamples) -> None:
        """Note every output that no expected record took."""
        for start in range(0, len(self.slots), _STEP):
            rest = start + np.flatnonzero(~self.taken[start : start + _STEP])
            head = np.searchsorted(self.slots, self.slots[rest] & ~_LOW)
            wanted = self.taken[head]
            counterexamples.note("duplicate", self.positions(rest[wanted]))
            counterexamples.note("invented", self.positions(rest[~wanted]))
        for payload, positions in self.mixed.items():
            taken = self.mixed_taken[payload]
            kind = "duplicate" if taken else "invented"
            counterexamples.note(kind, np.array(positions[taken:], np.int64))
