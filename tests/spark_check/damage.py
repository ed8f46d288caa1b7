"""Damage to many records of a recorded output at once, drawn by a seed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from tests.suites import tampering as t
from tickproof.conformance.history.outputs import ARRIVAL


def damaged(seed: int) -> t.Tamper:
    """Lose, repeat, move and change records of a run's output; its arrivals stay in step."""
    return partial(_damage, seed=seed)


def _damage(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    log, arrivals = t.read_output(folder)
    count = len(log)
    rows = np.arange(count)
    few = max(1, min(20, count // 10))
    keep = np.ones(count, bool)
    keep[rng.choice(count, few, replace=False)] = False
    rows = np.concatenate([rows[keep], rng.choice(count, few)])
    for _ in range(few):  # two records change places
        a, b = rng.choice(len(rows), 2, replace=False)
        rows[[a, b]] = rows[[b, a]]
    log = log[rows].copy()
    for _ in range(2 * few):  # a bit of a payload flips
        log[rng.integers(len(log)), 4 + rng.integers(log.shape[1] - 4)] ^= 1 << rng.integers(3)
    t.write_output(folder, log, _spread(arrivals, len(log), rng))


def _spread(arrivals: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return arrivals for ``count`` records: old times and writers, numbers with mistakes."""
    made = np.resize(arrivals, min(len(arrivals), count)).astype(ARRIVAL)
    sizes = np.full(len(made), count // len(made))
    sizes[: count % len(made)] += 1
    made["count"] = sizes
    made["index"] = np.cumsum(sizes) - sizes
    made["t_ns"].sort()
    numbered = np.flatnonzero(made["first_seq"] < 2**63)
    for writer in np.unique(made["writer"][numbered]):
        own = numbered[made["writer"][numbered] == writer]
        made["first_seq"][own] = np.cumsum(sizes[own]) - sizes[own]
    some = rng.choice(numbered, min(4, len(numbered)), replace=False)
    made["first_seq"][some] += rng.integers(0, 5, len(some)).astype(np.uint64)
    return made
