"""The output of one run as a checker sees it: an array of payloads and its arrivals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

UNNUMBERED: Final = 2**64 - 1

#: One row for each accepted APPEND or committed STAGE; ``index`` is the position of
#: its first record in the output log, ``first_seq`` is UNNUMBERED or a number.
ARRIVAL: Final = np.dtype(
    [
        ("t_ns", "<i8"),
        ("writer", "<u8"),
        ("first_seq", "<u8"),
        ("index", "<u8"),
        ("count", "<u4"),
        ("connection", "<u4"),
        ("txn", "<u8"),
        ("transactional", "u1"),
    ]
)


@dataclass(frozen=True)
class OutputLog:
    """Records of one output stream in arrival order.

    payloads: structured array (often a memmap), one element a record.
    arrivals: ARRIVAL rows, ``index`` ascending and contiguous over ``payloads``.
    """

    payloads: np.ndarray
    arrivals: np.ndarray

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def times(self) -> np.ndarray:
        """The arrival time (int64, monotonic nanoseconds) of each record."""
        return np.repeat(self.arrivals["t_ns"], self.arrivals["count"])

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return, for positions in the log, the row of ``arrivals`` of each."""
        return np.searchsorted(self.arrivals["index"], index, side="right") - 1

    def t_ns(self, index: np.ndarray) -> np.ndarray:
        """Return the arrival time (monotonic nanoseconds) of each position."""
        return self.arrivals["t_ns"][self.rows(index)]

    def writer_seq(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return writer and seq of each position; seq is UNNUMBERED where not given."""
        rows = self.arrivals[self.rows(index)]
        seq = rows["first_seq"] + (index.astype(np.uint64) - rows["index"])
        return rows["writer"], np.where(rows["first_seq"] == UNNUMBERED, np.uint64(UNNUMBERED), seq)

    def chunks(self, size: int = 1 << 18) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (positions, payloads) a bounded piece at a time."""
        for start in range(0, len(self.payloads), size):
            piece = self.payloads[start : start + size]
            yield np.arange(start, start + len(piece)), piece
