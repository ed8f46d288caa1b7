"""A market that is held whole: quotes, orders, and the order in which they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tickproof.generators.layouts import MESSAGE, framed
from tickproof.generators.partitions import Chunk, Source


@dataclass(frozen=True)
class HeldMarket:
    """A market, in arrays in memory or mapped into it.

    quotes, orders: framed records, each in time order. times: event_ns of the merged
    stream. order: for each merged record, its position in quotes + orders.
    """

    quotes: np.ndarray
    orders: np.ndarray
    times: np.ndarray
    order: np.ndarray

    def messages(self, start: int, stop: int) -> np.ndarray:
        """Return records [start, stop) of the merged stream as framed MESSAGE records."""
        message = framed(MESSAGE)
        quotes, orders = self.quotes.view(message), self.orders.view(message)
        at = self.order[start:stop]
        chunk = np.empty(len(at), message)
        is_order = at >= len(quotes)
        chunk[~is_order] = quotes[at[~is_order]]
        chunk[is_order] = orders[at[is_order] - len(quotes)]
        return chunk

    def source(self, *, two: bool, **rest: Any) -> Source:
        """Return the market as input, on two streams or merged; rest: what else a Source says."""
        return Source(
            records=len(self.order),
            dtypes=(framed(MESSAGE),) * (1 + two),
            chunk=lambda start, stop: Chunk.of_market(self.messages(start, stop), two),
            times=self.times,
            **rest,
        )
