"""Gathering counterexamples from whole arrays: all counted, the earliest few explained.

Checkers look at a run in buckets, so they do not meet counterexamples in the order
of the log. ``Sightings`` keeps the earliest of each kind whatever order they come in,
and only those are worth the price of an explanation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tickproof.conformance.checkers.findings import KEEP, Finding, Findings


@dataclass
class Sightings:
    """Counts by kind, and for each kind the KEEP sightings with the lowest ``at``."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)

    def note(self, kind: str, at: np.ndarray, **columns: np.ndarray) -> None:
        """Count ``len(at)`` sightings; ``columns`` run beside ``at`` and explain each."""
        if not len(at):
            return
        self.counts[kind] += len(at)
        best = np.argsort(at, kind="stable")[:KEEP] if len(at) > 1 else np.array([0])
        kept = self.kept.setdefault(kind, [])
        for i in best:
            kept.append((int(at[i]), {name: column[i] for name, column in columns.items()}))
        kept.sort(key=lambda sighting: sighting[0])
        del kept[KEEP:]

    def take(self, other: Sightings) -> None:
        """Take over the sightings of another part of the same history."""
        self.counts.update(other.counts)
        for kind, rows in other.kept.items():
            kept = self.kept.setdefault(kind, [])
            kept.extend(rows)
            kept.sort(key=lambda sighting: sighting[0])
            del kept[KEEP:]

    def findings(self, explain: Callable[[str, int, dict[str, Any]], Finding]) -> Findings:
        """Return all as findings; ``explain(kind, at, row)`` makes one of each kept."""
        found = Findings()
        for kind, kept in self.kept.items():
            for i, (at, row) in enumerate(kept):
                rest = self.counts[kind] - len(kept) if i == 0 else 0
                found.add(explain(kind, at, row), times=1 + rest)
        return found
