"""Gathering counterexamples from whole arrays: all counted, the earliest few kept.

Checkers work through a run bucket by bucket, so they do not meet counterexamples in the
order of the log. ``Counterexamples`` keeps the earliest of each kind whatever order they
come in, and only those are worth the price of an explanation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from tickproof.conformance.checkers.findings import KEEP, Finding, Findings


@dataclass(frozen=True)
class Counterexample:
    """One thing that is wrong, before it is made a finding.

    at: its position in the output, or its place in the input. row: what the checker knows
    of it, by name.
    """

    kind: str
    at: int
    row: Mapping[str, Any]


@dataclass
class Counterexamples:
    """Counts by kind, and for each kind the KEEP counterexamples with the lowest ``at``."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[Counterexample]] = field(default_factory=dict)

    def note(self, kind: str, at: np.ndarray, **columns: np.ndarray) -> None:
        """Count ``len(at)`` counterexamples; ``columns`` run beside ``at`` and explain each."""
        if not len(at):
            return
        self.counts[kind] += len(at)
        earliest = np.argsort(at, kind="stable")[:KEEP] if len(at) > 1 else np.array([0])
        self._keep(
            kind,
            (
                Counterexample(kind, int(at[i]), {name: col[i] for name, col in columns.items()})
                for i in earliest
            ),
        )

    def take(self, other: Counterexamples) -> None:
        """Take over the counterexamples of another part of the same history."""
        self.counts.update(other.counts)
        for kind, kept in other.kept.items():
            self._keep(kind, kept)

    def _keep(self, kind: str, more: Iterable[Counterexample]) -> None:
        both = [*self.kept.get(kind, ()), *more]
        self.kept[kind] = sorted(both, key=attrgetter("at"))[:KEEP]

    def findings(self, finding: Callable[[Counterexample], Finding]) -> Findings:
        """Return all as findings; ``finding`` makes one of each that was kept."""
        found = Findings()
        for kind, kept in self.kept.items():
            for i, example in enumerate(kept):
                rest = self.counts[kind] - len(kept) if i == 0 else 0
                found.add(finding(example), times=1 + rest)
        return found
