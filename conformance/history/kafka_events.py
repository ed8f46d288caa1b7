"""The events that only runs over Kafka have; events.py has them all."""

from __future__ import annotations

from typing import NamedTuple

from tickproof.conformance.history.event import Event, EventKind, StateRead


class KafkaNames(Event, kind=EventKind.KAFKA_NAMES):
    """Names that an engine used on the broker, at the end of a run.

    ``seen``: how many names. ``groups``, ``transactional_ids``, ``topics``: those of them that
    hold neither the name of the run nor a UUID, by kind; of very many only the first, and of a
    very long one its begin.
    """

    seen: int
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    topics: tuple[str, ...]


class KafkaOutput(Event, kind=EventKind.KAFKA_OUTPUT):
    """State of the output of a run over Kafka, at its end.

    ``produced``: records that the broker took on the output topic. ``committed``: those of them
    that a consumer sees that reads what is committed; the others were aborted, or are left open.
    ``ahead``: by how many records the offsets that the group had committed were ahead of the
    output that was acknowledged, at most. ``unread``: requests that the kit could not read.
    """

    produced: int
    committed: int
    ahead: int = 0
    unread: int = 0

    @property
    def aborted(self) -> int:
        """Records that were produced and that nobody will see."""
        return max(0, self.produced - self.committed)


class KafkaStateReads(Event, kind=EventKind.KAFKA_STATE_READS):
    """What an engine read of its own topics, such as changelogs; the first thousand of a run."""

    reads: tuple[StateRead, ...]


class AbortedTransaction(NamedTuple):
    """A transaction, open from ``open_ns`` to ``ended_ns``, while others committed ``behind``."""

    open_ns: int
    ended_ns: int
    behind: int


class KafkaTransactions(Event, kind=EventKind.KAFKA_TRANSACTIONS):
    """The engine's transactions by the broker's log, at the end of a run.

    ``begun``: how many times a transaction began. ``aborted_ns``: when it aborted one, by whose
    wish ever, to a millisecond; of very many only the first. ``open_ns``, ``behind``: of each of
    these, since when it was open, and how many of others were committed meanwhile.
    ``with_offsets``: requests that put offsets into a transaction.
    """

    begun: int
    aborted_ns: tuple[int, ...]
    open_ns: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    with_offsets: int = 0

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions, as they ended; none of a run that did not note their begin."""
        rows = zip(self.open_ns, self.aborted_ns, self.behind, strict=False)
        return [AbortedTransaction(*row) for row in rows]

    def open_at(self, t_ns: int) -> list[AbortedTransaction]:
        """Return those of them that were open at a time."""
        return [one for one in self.aborted if one.open_ns <= t_ns < one.ended_ns]
