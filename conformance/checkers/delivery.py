"""Delivery of output: the sequence numbers that each writer gave to its records."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.checkers.arrays import differ, gather, piece_rows
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.checkers.findings import Finding, Findings, NumberAgain, NumberGap, Where
from tickproof.conformance.history.outputs import UNNUMBERED, OutputLog


def place(outputs: OutputLog, index: int) -> Where:
    """Return where an output stands: index, arrival time, and writer and seq if numbered."""
    at = np.array([index])
    writer, seq = outputs.writer_seq(at)
    where: Where = {"index": index, "t_ns": int(outputs.t_ns(at)[0])}
    where["writer"] = int(writer[0])
    if int(seq[0]) != UNNUMBERED:
        where["seq"] = int(seq[0])
    return where


def check_sequences(outputs: OutputLog) -> Findings:
    """Judge the numbers of every numbered writer: each (writer, seq) once, none left out.

    Kinds: ``redelivered`` (again, same payload), ``conflict`` (again, another payload),
    ``gap``. Facts: ``numbered`` records, ``writers`` that number their output.
    """
    counterexamples = Counterexamples()
    numbered, writers = collect_sequences(outputs, outputs.arrivals, counterexamples)
    return sequence_findings(counterexamples, outputs, numbered, writers)


def collect_sequences(
    outputs: OutputLog, arrivals: np.ndarray, counterexamples: Counterexamples
) -> tuple[int, int]:
    """Note what is wrong with the numbers in ``arrivals``: ARRIVAL rows of whole writers.

    Returns how many records are numbered, and how many writers number their output.
    """
    numbered = np.flatnonzero((arrivals["first_seq"] != UNNUMBERED) & (arrivals["count"] > 0))
    writers, which = np.unique(arrivals["writer"][numbered], return_inverse=True)
    by_writer = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(writers)))
    for rows in np.split(numbered[by_writer], ends[:-1]):
        _check_writer(outputs, arrivals[rows], counterexamples)
    return int(arrivals["count"][numbered].sum()), len(writers)


def sequence_findings(
    counterexamples: Counterexamples, outputs: OutputLog, numbered: int, writers: int
) -> Findings:
    """Return counterexamples as findings; ``numbered`` records of ``writers`` were looked at."""

    def finding(example: Counterexample) -> Finding:
        where = place(outputs, example.at)
        if example.kind == "gap":
            return NumberGap(example.kind, where, int(example.row["next"]))
        first = int(example.row["first"])
        both = (outputs.payloads[at].tobytes() for at in (first, example.at))
        return NumberAgain(example.kind, where | {"first_index": first}, *both)

    found = counterexamples.findings(finding)
    found.checked = numbered
    found.facts |= {"numbered": numbered, "writers": writers}
    return found


def _check_writer(outputs: OutputLog, rows: np.ndarray, counterexamples: Counterexamples) -> None:
    """Judge one writer's numbered arrivals, in arrival order."""
    if not len(rows):
        return
    first, count = rows["first_seq"].astype(np.int64), rows["count"].astype(np.int64)
    index = rows["index"].astype(np.int64)
    reached = np.maximum.accumulate(first + count)
    due = np.concatenate(([0], reached[:-1]))
    gaps = np.flatnonzero(first > due)
    counterexamples.note("gap", index[gaps], next=due[gaps])
    # Each row splits in what was there already and what is new; the new parts tile the numbers.
    again = np.clip(due - first, 0, count)
    fresh = np.flatnonzero(again < count)
    fresh_seq, fresh_index = (first + again)[fresh], (index + again)[fresh]
    repeats = np.flatnonzero(again)
    step = piece_rows(outputs.payloads.itemsize)
    for row in repeats:
        for start in range(0, int(again[row]), step):
            offsets = np.arange(start, min(start + step, int(again[row])))
            seq, position = first[row] + offsets, index[row] + offsets
            tile = np.searchsorted(fresh_seq, seq, side="right") - 1
            origin = fresh_index[tile] + (seq - fresh_seq[tile])
            # A number that lies in a gap was never recorded: the tile before it is shorter.
            known = (tile >= 0) & (seq < (first + count)[fresh][tile])
            position, origin = position[known], origin[known]
            other = differ(gather(outputs.payloads, position), gather(outputs.payloads, origin))
            for kind, mask in (("redelivered", ~other), ("conflict", other)):
                counterexamples.note(kind, position[mask], first=origin[mask])
