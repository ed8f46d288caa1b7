"""What a checker returns: findings by kind, each counted, a few of each kept whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

#: How many findings of one kind are kept whole; all of them are counted.
KEEP = 5


#: Where something stands in a history: key, symbol, stream, partition, offset, order_id,
#: writer, seq, t_ns, index (the position in the output log), first_index.
Where = dict[str, int | str]


@dataclass(frozen=True)
class Finding:
    """One counterexample in words: what was expected, what came, and where in the history."""

    kind: str
    summary: str
    expected: str
    actual: str
    where: Where = field(default_factory=dict)


@dataclass
class Findings:
    """The result of one checker: ``checked`` items, and what was wrong with them."""

    checked: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Finding]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, finding: Finding, times: int = 1) -> None:
        """Count ``times`` findings of a kind; keep this one if there is room."""
        self.counts[finding.kind] += times
        kept = self.examples.setdefault(finding.kind, [])
        if len(kept) < KEEP:
            kept.append(finding)

    def merge(self, other: Findings) -> Findings:
        """Take over another checker's findings; returns self."""
        self.checked += other.checked
        self.counts.update(other.counts)
        for kind, examples in other.examples.items():
            kept = self.examples.setdefault(kind, [])
            kept.extend(examples[: KEEP - len(kept)])
        self.facts |= other.facts
        return self

    def only(self, kinds: Iterable[str]) -> Findings:
        """Return the findings of the given kinds."""
        kept = frozenset(kinds)
        return Findings(
            self.checked,
            Counter({kind: count for kind, count in self.counts.items() if kind in kept}),
            {kind: some for kind, some in self.examples.items() if kind in kept},
            dict(self.facts),
        )

    def first(self, kinds: Iterable[str] | None = None) -> Finding | None:
        """Return the first kept finding of the given kinds (any kind if None)."""
        for kind in self.examples if kinds is None else kinds:
            if self.examples.get(kind):
                return self.examples[kind][0]
        return None

    def __bool__(self) -> bool:
        return bool(self.counts)
