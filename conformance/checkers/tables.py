"""Tables that a run records beside its output: what was published and what was fetched."""

from __future__ import annotations

from typing import Final

import numpy as np

#: One row for each advance of a partition's published end, in time order.
PUBLISH: Final = np.dtype(
    [("t_ns", "<i8"), ("stream", "<u2"), ("partition", "<u2"), ("end", "<u8")]
)

#: One row for each FETCH that was answered with records [base, end), in time order.
FETCH: Final = np.dtype(
    [
        ("t_ns", "<i8"),
        ("stream", "<u2"),
        ("partition", "<u2"),
        ("base", "<u8"),
        ("end", "<u8"),
    ]
)


def of_partition(table: np.ndarray, stream: int, partition: int) -> np.ndarray:
    """Return the rows of one partition of one stream, still in time order."""
    return table[(table["stream"] == stream) & (table["partition"] == partition)]
