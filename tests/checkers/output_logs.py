"""Output logs made by hand."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.history.outputs import ARRIVAL, UNNUMBERED, OutputLog


def single_writer(payloads: np.ndarray) -> OutputLog:
    """Return an output log with one unnumbered arrival."""
    rows = np.zeros(1 if len(payloads) else 0, ARRIVAL)
    rows["first_seq"], rows["count"] = UNNUMBERED, len(payloads)
    return OutputLog(payloads, rows)
