"""Imagined engines under an open loop: due times, and when each of them would be done."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.latency.intervals import Load, Steps

RATE = 20_000
SECOND = 1_000_000_000
TICK = 1_000_000


def due(seconds: float, rate: int = RATE) -> np.ndarray:
    """Return intended times (ns) of an open loop that begins at 0, in ticks of 1 ms."""
    each = rate // 1000
    return np.repeat(np.arange(int(seconds * 1000)) * TICK, each)


def continuous(intended: np.ndarray, capacity: float, draw: np.random.Generator) -> np.ndarray:
    """Serve one after the other, each in 1 / capacity seconds on average."""
    work = draw.exponential(SECOND / capacity, len(intended))
    ends = np.cumsum(work)
    # Done: when all before it is done, or its own time has come, and its own work.
    return (np.maximum.accumulate(intended - (ends - work)) + ends).astype(np.int64)


def batches(
    intended: np.ndarray,
    trigger_s: float,
    fixed_s: float,
    capacity: float,
    jitter: float,
    draw: np.random.Generator,
) -> np.ndarray:
    """Take all that is due at each trigger; all of a batch is done at its end.

    A batch takes fixed_s and its records by capacity, more or less by jitter, and begins at
    the trigger or when the one before ends.
    """
    done = np.zeros(len(intended), np.int64)
    now, first = 0.0, 0
    while first < len(intended):
        start = max(now, np.ceil(now / trigger_s - 1e-9) * trigger_s)
        last = int(np.searchsorted(intended, start * SECOND))
        length = (fixed_s + (last - first) / capacity) * draw.uniform(1 - jitter, 1 + jitter)
        now = max(start + length, start + 1e-3)
        done[first:last] = int(now * SECOND)
        first = last
    return done


def load(intended: np.ndarray, done: np.ndarray) -> Load:
    return Load(Steps(intended, np.arange(1, len(intended) + 1)), Steps.of_events(done))
