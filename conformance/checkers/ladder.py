"""App ladder: the output that each of its steps owes; see docs/bench.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from tickproof.conformance.checkers.expected import Groups
from tickproof.conformance.checkers.findings import Findings, MissingNumber
from tickproof.conformance.checkers.multiset import check_multiset
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT

#: The n of a record that step audit sends beside its point.
AUDIT: Final = np.uint64(2**64 - 1)
_TWO: Final = np.uint64(2)


def check_ladder(step: str, inputs: Iterable[np.ndarray], outputs: OutputLog) -> Findings:
    """Compare the output of a step with what its input asks for, as multisets.

    inputs: COUNT_IN records of each partition. Step state numbers the records that one state
    saw; which state saw which record is the engine's own business. So its numbers are judged
    apart: k states give each number at most k times, and none before the one below it.
    """
    if step != "state":
        return check_multiset((expected(step, part) for part in inputs), outputs)
    bare = np.array(outputs.payloads)
    numbers, bare["n"] = bare["n"].copy(), 0
    outputs = replace(outputs, payloads=bare)
    found = check_multiset((expected(step, part) for part in inputs), outputs)
    if gap := _missing(numbers):
        found.add(MissingNumber("lost", {}, gap))
    return found


def expected(step: str, records: np.ndarray) -> np.ndarray:
    """Return what a step gives for a partition's records, a copy; n is 0 for step state."""
    key, value = records["key"], records["value"].view(np.uint64)
    twice = value * _TWO
    match step:
        case "passthrough" | "decode":
            return _records(key, value)
        case "compute":
            return _records(key, twice)
        case "three-coalesced" | "three-apart":
            return _records(key, -(twice + key))
        case "state":
            return _points(key, np.zeros(len(key), np.uint64), twice)
    groups = Groups.of(key)
    total = np.empty(len(key), np.uint64)
    total[groups.order] = groups.totals(twice.view(np.int64)).view(np.uint64)
    points = _points(key, groups.ranks().astype(np.uint64) + np.uint64(1), total)
    if step != "audit":
        return points
    return np.concatenate([points, _points(key, np.full(len(key), AUDIT), twice)])


def _missing(numbers: np.ndarray) -> int | None:
    """Return the lowest number that is rarer than the one above it; None where all is well."""
    values, counts = np.unique(numbers, return_counts=True)
    if not len(values):
        return None
    gaps = np.flatnonzero(values != np.arange(1, len(values) + 1, dtype=np.uint64))
    rarer = np.flatnonzero(np.diff(counts) > 0)
    found = [int(at) + 1 for at in (*gaps[:1], *rarer[:1])]
    return min(found, default=None)


def _records(key: np.ndarray, value: np.ndarray) -> np.ndarray:
    out = np.empty(len(key), COUNT_IN)
    out["key"], out["value"] = key, value.view(np.int64)
    return out


def _points(key: np.ndarray, n: np.ndarray, total: np.ndarray) -> np.ndarray:
    out = np.empty(len(key), COUNT_OUT)
    out["key"], out["n"], out["total"] = key, n, total.view(np.int64)
    return out
