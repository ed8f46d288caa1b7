"""The interface of an application: its records, what is due, the check, its messages.

An app has a `name`, says `about` itself, and can `check` a run. All else has a default: that of
an app whose records are opaque bytes and of which nothing is known but what `check` finds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tickproof.conformance.checkers.causality import FirstFetches
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.checkers.matching import Inputs, Matching
from tickproof.conformance.history.fired_fault import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import opaque
from tickproof.generators.spread_rule import FIVE_CENTS


@dataclass(frozen=True)
class Leeway:
    """Deviations that the claims of an engine permit in one run.

    replay_after_ns: from then on a key may go back to an earlier output; None: never. once: the
    output log with records that were allowed to count again put back to one count. pauses:
    returns (start_ns, end_ns) of the times in which the engine may have missed new input.
    first_fetches: of each input stream, before which no output of a record may come.
    """

    replay_after_ns: int | None
    once: OutputLog
    pauses: Callable[[], Sequence[tuple[int, int]]]
    first_fetches: tuple[FirstFetches, ...]


@dataclass(frozen=True)
class Messages:
    """Messages to produce: one key (None: no key) and one value for each record."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes]


@dataclass(frozen=True)
class Lane:
    """The records of one partition whose latency is measured, ascending.

    column: index in run.json's partitions. offsets: int64. words: u64 by which an answer finds
    its record. tagged: bool, probe orders of a market.
    """

    column: int
    offsets: np.ndarray
    words: np.ndarray
    tagged: np.ndarray


class App(ABC):
    """An application with the params of one deploy."""

    name: ClassVar[str]
    #: One sentence: what it does to a record.
    about: ClassVar[str]
    #: Param -> the values that it may have.
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    #: The kind of its input recipe.
    kind: ClassVar[str] = ""
    #: Whether outputs depend on one record each, so that no state can be lost.
    stateless: ClassVar[bool] = False
    #: Whether outputs are numbered by key, so that they have an order, and may count again
    #: records that were fetched again.
    numbered: ClassVar[bool] = False
    #: Whether the input recipe says how large its records are.
    any_size: ClassVar[bool] = False
    #: Whether few of the records have an output.
    sparse: ClassVar[bool] = False
    #: JSON member of an output message -> its Arrow type and its field of the record.
    members: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init__(self, params: Mapping[str, str]) -> None:
        self.params = params

    @property
    def one_each(self) -> bool:
        """True if each input record gives one output."""
        return self.params.get("emit") == "every"

    def input_layouts(self, size: int) -> tuple[np.dtype, ...]:
        """Return the layout of the records of each input stream; ``size``: bytes of a record."""
        return (opaque(size),)

    def output_layout(self, size: int) -> np.dtype:
        """Return the layout of output records; ``size``: bytes of an input record."""
        return opaque(size)

    def output(self, history: History) -> OutputLog:
        """Return what was recorded of the output."""
        sizes = [part.record_size for part in history.partitions]
        return history.outputs(self.output_layout(max(sizes, default=0)))

    @abstractmethod
    def check(self, history: History, log: OutputLog, leeway: Leeway) -> Findings:
        """Judge the values of the output against the input."""

    def due(self, history: History) -> int:
        """Return how many outputs the input asks for at least, as far as that is easily told."""
        return history.input_records if self.one_each else 0

    def expected(self, inputs: Sequence[np.ndarray], limit: int = FIVE_CENTS) -> np.ndarray | None:
        """Return the payloads that must be emitted at least, in any order; None: not one set.

        inputs: payloads of each partition. limit: five cents in the unit of prices.
        """
        return None

    def told(self, outputs: np.ndarray) -> np.ndarray:
        """Return what ``expected`` has of outputs."""
        return outputs

    def match(self, history: History, log: OutputLog) -> Matching | None:
        """Return which record each output answers, None if the app does not tell."""
        return None

    def counted_once(self, history: History, log: OutputLog, since_ns: int) -> OutputLog:
        """Return the log with records that were fetched again put back to one count.

        since_ns: what was fetched again from then on may count again.
        """
        return log

    def in_flight(self, fault: FiredFault) -> int:
        """Return the records that the engine held at a fault: not released, or without output."""
        unanswered = fault.fetched - fault.outputs if self.one_each else 0
        return max(fault.held, unanswered)

    def processed(self, history: History, payloads: np.ndarray) -> int:
        """Return how many records must have been processed for the first outputs of a run."""
        return len(payloads)

    def answerable(self, history: History, ends: Mapping[tuple[int, int], int]) -> int:
        """Count the records with an answer; ends: (stream, partition) -> records looked at."""
        return sum(ends.values())

    def words(self, output: np.void) -> str:
        """Return an output in words."""
        return output.tobytes()[:16].hex()

    # -- latency -----------------------------------------------------------------------------

    def lanes(self, history: History) -> Iterator[Lane]:
        """Yield the records whose latency is measured, by partition."""
        yield from ()

    def arrivals(self, words: np.ndarray, log: OutputLog) -> np.ndarray:
        """Return when each word of the lanes was answered first (int64 ns), -1: never."""
        return np.full(len(words), -1, np.int64)

    # -- Kafka -------------------------------------------------------------------------------

    def messages(self, payloads: np.ndarray) -> Messages:
        """Return input records as messages."""
        raise NotImplementedError(f"app {self.name} is not run over Kafka")

    def fill(self, payloads: np.ndarray, columns: Mapping[str, Any]) -> None:
        """Fill output records from the members of messages.

        columns: member -> list of str, or an array. Raises ValueError for a value that does not
        fit.
        """
        for member, (_, field) in self.members.items():
            payloads[field] = columns[member]


def placed(history: History, layout: np.dtype, stream: int = 0) -> Inputs:
    """Return (stream, partition, payloads) of each partition of a stream."""
    numbers = [p.partition for p in history.partitions if p.stream == stream]
    arrays = history.inputs(layout, stream)
    return [(stream, n, a) for n, a in zip(numbers, arrays, strict=True)]
