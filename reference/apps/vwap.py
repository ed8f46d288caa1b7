"""VWAP: the running volume-weighted average price of each symbol.

The sum of price times volume over the sum of volume, rounded down. Prices are ten-thousandths
of a dollar; the sums wrap at 2**64.
"""

from typing import Annotated, NamedTuple

import numpy as np

from tickproof.reference.api import Application, Pipeline, Sink, Source, State, StateComputation
from tickproof.reference.api.layouts import BadRecord, fields_of, layout_of

Symbol = Annotated[bytes, 8]


class Trade(NamedTuple):
    """What comes in."""

    symbol: Symbol
    ns: np.uint64
    price: np.uint64
    volume: np.uint64


class Priced(NamedTuple):
    """What goes out: a trade's price, and the average of its symbol with this trade."""

    symbol: Symbol
    ns: np.uint64
    price: np.uint64
    vwap: np.uint64


class Traded:
    """The state of a symbol."""

    value: np.uint64
    volume: np.uint64


def average(trade: Trade, traded: Traded) -> Priced:
    """Add a trade; its price and the new average are the output."""
    traded.value += trade.price * trade.volume
    traded.volume += trade.volume
    return Priced(trade.symbol, trade.ns, trade.price, traded.value // traded.volume)


def sensible(trades: np.ndarray) -> None:
    """Raise BadRecord for a trade of nothing, which has no average."""
    if len(bad := np.flatnonzero(trades["volume"] == 0)):
        raise BadRecord(int(bad[0]), "expected a volume, got 0")


TRADE, PRICED, TRADED = layout_of(Trade), layout_of(Priced), State("traded", fields_of(Traded))


def averages() -> Pipeline:
    """Return the pipeline up to its sink; others go on from it."""
    step: StateComputation[Trade, Traded] = StateComputation("vwap", TRADED, average, PRICED)
    return Pipeline("trades", Source(0, TRADE, sensible)).by("symbol").to(step)


def application() -> Application:
    """Return the app."""
    return Application("vwap", [averages().into(Sink(0, PRICED))])
