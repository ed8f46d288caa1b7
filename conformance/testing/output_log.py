"""Output logs from plain values: what a checker is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tickproof.conformance.history.outputs import ARRIVAL, UNNUMBERED, OutputLog


def output_log(
    payloads: np.ndarray, counts: Sequence[int] | np.ndarray | None = None, **columns: Any
) -> OutputLog:
    """Return the log of some outputs, in the order in which they arrived.

    payloads: structured array, one element a record. counts: records of each arrival; None:
    each record arrives alone. columns: further columns of ARRIVAL by name (t_ns in
    nanoseconds, writer, first_seq, connection, txn, transactional), a value for all arrivals
    or one for each. Not given, first_seq is UNNUMBERED and the others are 0.
    """
    rows = np.zeros(len(payloads) if counts is None else len(counts), ARRIVAL)
    rows["count"] = 1 if counts is None else counts
    rows["index"] = np.cumsum(rows["count"]) - rows["count"]
    rows["first_seq"] = UNNUMBERED
    for name, values in columns.items():
        rows[name] = values
    if rows["count"].sum() != len(payloads):
        raise ValueError(f"counts: {rows['count'].sum()} records, expected {len(payloads)}")
    return OutputLog(payloads, rows)
