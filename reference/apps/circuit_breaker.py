"""Circuit breaker: a symbol halts when its price is far from its VWAP, and resumes by a timer.

Two steps with state behind one key, and two sinks: the averages, and who halts and resumes.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tickproof.reference.api import Application, Sink, State, StateComputation, Timer
from tickproof.reference.api.layouts import fields_of, layout_of
from tickproof.reference.apps import vwap

LASTS_NS = np.uint64(300 * 10**9)


class Halt(NamedTuple):
    """What goes out: from this moment on the symbol is halted (1), or is not (0)."""

    symbol: vwap.Symbol
    ns: np.uint64
    halted: np.uint8


class Breaker:
    """The state of a symbol."""

    until: np.uint64


def watch(trade: vwap.Priced, breaker: Breaker) -> Iterator[Halt]:
    """Halt for five minutes at a price ten per cent or more away from the average."""
    away = max(trade.price, trade.vwap) - min(trade.price, trade.vwap)
    if not breaker.until and away * np.uint64(10) >= trade.vwap:
        breaker.until = trade.ns + LASTS_NS
        yield Halt(trade.symbol, trade.ns, np.uint8(1))


def resume(trade: vwap.Priced, breaker: Breaker) -> Halt:
    """Resume at the moment that was set, which the symbol's first trade from then on shows."""
    return Halt(trade.symbol, breaker.until, np.uint8(0))


HALT, BREAKER = layout_of(Halt), State("breaker", fields_of(Breaker))


def application() -> Application:
    """Return the app."""
    timer = Timer("until", "ns", resume)
    step = StateComputation("breaker", BREAKER, watch, HALT, timer=timer)
    pipeline = vwap.averages().into(Sink(0, vwap.PRICED)).to(step).into(Sink(1, HALT))
    return Application("circuit-breaker", [pipeline])
