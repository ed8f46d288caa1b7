"""Findings of checkers by kind, each counted, a few of each kept whole.

A finding is data; `explain.words` has its sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tickproof.conformance.checkers.count_diagnosis import Diagnosis
from tickproof.conformance.checkers.market_rule import Located

#: How many findings of one kind are kept whole; all of them are counted.
KEEP = 5


#: Where something stands in a history: key, symbol, stream, partition, offset, order_id,
#: writer, seq, t_ns, index (the position in the output log), first_index.
Where = dict[str, int | str]


@dataclass(frozen=True)
class Finding:
    """One counterexample: what it breaks, as the checkers name it, and where in the history."""

    kind: str
    where: Where


class Point(NamedTuple):
    """A record of COUNT_OUT."""

    key: int
    n: int
    total: int

    @classmethod
    def of(cls, row: np.void | Mapping[str, Any]) -> Point:
        """Return a row with key, n and total."""
        return cls(int(row["key"]), int(row["n"]), int(row["total"]))


#: The payload of an output: a point, an ANSWER row, or its bytes.
Payload: TypeAlias = Point | np.void | bytes


@dataclass(frozen=True)
class AheadOfFetch(Finding):
    """An output arrived ``early_ns`` before a record that it comes from was fetched.

    None: that record was never fetched.
    """

    payload: Payload
    early_ns: int | None


@dataclass(frozen=True)
class NumberGap(Finding):
    """A writer left out numbers from ``next`` on."""

    next: int


@dataclass(frozen=True)
class NumberAgain(Finding):
    """A number of a writer came again, with the same or with another payload."""

    first: bytes
    again: bytes


@dataclass(frozen=True)
class MissingPayload(Finding):
    """An expected payload without an output of its own."""

    payload: bytes


@dataclass(frozen=True)
class SurplusPayload(Finding):
    """A payload more often than expected, or not expected at all."""

    payload: bytes


@dataclass(frozen=True)
class MissingNumber(Finding):
    """A number of app ladder that no state gave, though a higher one came."""

    number: int


# -- app count -------------------------------------------------------------------------------


@dataclass(frozen=True)
class MissingPoint(Finding):
    """A point that never came; ``last``: it is the last one of its key, and one of few due."""

    point: Point
    last: bool


@dataclass(frozen=True)
class WrongTotal(Finding):
    """A point with another total than ``due``, the sum of n values; ``terms``: those of a few."""

    point: Point
    due: int
    terms: tuple[int, ...]
    why: Diagnosis


@dataclass(frozen=True)
class PointAgain(Finding):
    """The output of a key and n came again; ``total``: the one of the first."""

    point: Point
    total: int


@dataclass(frozen=True)
class StrangePoint(Finding):
    """A point of an unknown key, beyond the input or out of order.

    bound: how many records the key has, or the n that came before.
    """

    point: Point
    bound: int


# -- Market Spread: ANSWER rows --------------------------------------------------------------


@dataclass(frozen=True)
class MissingVerdict(Finding):
    """An order without output; ``due``: its verdict, None where that is not known."""

    due: np.void | None
    limit: int


@dataclass(frozen=True)
class MissingReject(Finding):
    """A silent order that no quote accepts which it may have seen.

    before: the later order that bounds what it may have seen, and its quote; None: no bound.
    """

    before: tuple[int, int] | None


@dataclass(frozen=True)
class MalformedVerdict(Finding):
    """Bytes of an output are not zero that must be."""

    tail: bytes


@dataclass(frozen=True)
class AnswerFinding(Finding):
    """Something is wrong with one verdict."""

    answer: np.void


@dataclass(frozen=True)
class AnswerAgain(AnswerFinding):
    """An order had a verdict before."""

    first: np.void


@dataclass(frozen=True)
class AnswerToNothing(AnswerFinding):
    """The order is not in the input."""


@dataclass(frozen=True)
class WrongVerdict(AnswerFinding):
    """The verdict is not ``due``.

    limit: five cents in the unit of prices. named: the quote that it names, None if there is
    none, or if it is that of ``due``. unasked: no output is due, as the order is accepted.
    """

    due: np.void
    limit: int
    named: Located | None
    unasked: bool


@dataclass(frozen=True)
class QuoteOfLater(AnswerFinding):
    """The quote was published after its verdict arrived; both monotonic ns."""

    published: int
    arrived: int


@dataclass(frozen=True)
class QuoteBefore(AnswerFinding):
    """An earlier order saw a later quote: ``after``, the verdict on that."""

    after: np.void


@dataclass(frozen=True)
class QuoteOfNone(AnswerFinding):
    """The quote is none of the symbol of ``due``."""

    due: np.void


@dataclass(frozen=True)
class StaleQuote(AnswerFinding):
    """The quote is ``behind`` that of ``due``, which must have been seen."""

    due: np.void
    behind: int


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
