"""Begin and end of a broker's transactions.

It is read out of the broker's own topic, with the broker's own times.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka.cluster import client_library, passes, patiently
from tickproof.conformance.kafka.fields import Fields, Malformed

TRANSACTIONS: Final = "__transaction_state"
#: How long the topic's end may take to be found and read.
LIMIT_S: Final = 30.0
_MESSAGES: Final = 5_000
#: How long a message may be on its way that a read at the end still finds.
_PATIENCE_S: Final = 0.05


class State(IntEnum):
    """States of a transactional id."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


@dataclass(frozen=True, slots=True)
class TransactionState:
    """A transactional id has come to a state. t_ms: the broker's time, since 1970.

    timeout_ms: after so long without an end the broker aborts the transaction.
    """

    t_ms: int
    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was aborted. begun_ms, ended_ms: the broker's times, since 1970.

    behind: transactions of other producers that were committed while it was open.
    """

    begun_ms: int
    ended_ms: int
    behind: int


def aborted(states: Iterable[TransactionState]) -> list[Aborted]:
    """Return the transactions that were aborted, as they ended; ``states`` in their order."""
    found, commits = [], 0
    #: When each transactional id began what it has open, and how many commits came before.
    begun: dict[str, tuple[int, int]] = {}
    for one in states:
        match one.state:
            case State.ONGOING:
                begun.setdefault(one.transactional_id, (one.t_ms, commits))
            case State.PREPARE_COMMIT:
                begun.pop(one.transactional_id, None)
                commits += 1
            case State.PREPARE_ABORT:
                since_ms, before = begun.pop(one.transactional_id, (one.t_ms, commits))
                found.append(Aborted(since_ms, one.t_ms, commits - before))
    return found


def transaction_state(t_ms: int, key: bytes, value: bytes | None) -> TransactionState | None:
    """Read a message of `TRANSACTIONS`; None for what describes no state.

    Raises Malformed.
    """
    fields = Fields(memoryview(key), 0, flexible=False)
    if fields.i16() != 0 or value is None:
        return None
    transactional_id = fields.text() or ""
    fields = Fields(memoryview(value), 2, flexible=False)
    producer_id, epoch, timeout_ms = fields.i64(), fields.i16(), fields.i32()
    try:
        state = State(fields.i8())
    except ValueError as error:
        raise Malformed(f"{TRANSACTIONS}: {error}") from None
    return TransactionState(t_ms, transactional_id, producer_id, epoch, timeout_ms, state)


class TransactionLog:
    """States of transactional ids, from now on; use it as a context manager.

    They are the ids with a prefix, and those that are named when it is read.

    Raises KafkaUnavailable.
    """

    def __init__(self, address: str, prefix: str) -> None:
        self._address, self._prefix = address, prefix
        self._kafka = client_library()
        self._open: set[int] = set()
        self._eof = self._kafka.KafkaError._PARTITION_EOF
        self._consumer = self._kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "tickproof",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_uncommitted",
                "log_level": 0,
                "fetch.wait.max.ms": 10,
                "reconnect.backoff.max.ms": 200,
            }
        )
        #: Where to begin, by partition; the topic itself begins with its first use.
        self._first = {number: self._last(number) for number in range(self._width())}
        self._begun = False

    def __enter__(self) -> TransactionLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def read(self, limit_s: float = LIMIT_S, named: Collection[str] = ()) -> list[TransactionState]:
        """Return what has come since the last time. Raises KafkaUnavailable, Malformed."""
        found = (transaction_state(*message) for message in self._messages(limit_s))
        return [one for one in found if one and self._asked(one.transactional_id, named)]

    def _asked(self, id_: str, named: Collection[str]) -> bool:
        return id_ in named or id_.startswith(self._prefix)

    def _messages(self, limit_s: float) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Give time, key and value of what has come, until nothing is left."""
        deadline = time.monotonic() + limit_s
        if not self._begun:
            places = [self._place(one, self._first.get(one, 0)) for one in range(self._width())]
            if not places:
                return
            self._consumer.assign(places)
            self._open = {place.partition for place in places}
            self._begun = True
        while True:
            messages = self._consumer.consume(_MESSAGES, _PATIENCE_S)
            # The end of a partition is told of once, until something comes after it.
            if not messages and not self._open:
                return
            for message in messages:
                error = message.error()
                if error and error.code() == self._eof:
                    self._open.discard(message.partition())
                elif error and not passes(error):
                    raise self._unavailable(error.str())
                elif not error:
                    self._open.add(message.partition())
                    if message.key() is not None:
                        yield message.timestamp()[1], message.key(), message.value()
            if time.monotonic() > deadline:
                raise self._unavailable(f"its end was not read within {limit_s:g} s")

    def _place(self, partition: int, offset: int = 0) -> Any:
        return self._kafka.TopicPartition(TRANSACTIONS, partition, offset)

    def _width(self) -> int:
        """Return how many partitions the topic has, 0 where there is none yet."""
        try:
            listed = patiently(lambda left_s: self._consumer.list_topics(timeout=left_s), LIMIT_S)
        except self._kafka.KafkaException as error:
            raise self._unavailable(str(error)) from error
        found = listed.topics.get(TRANSACTIONS)
        return len(found.partitions) if found else 0

    def _last(self, partition: int) -> int:
        place = self._place(partition)
        try:
            _, end = patiently(
                lambda left_s: self._consumer.get_watermark_offsets(place, timeout=left_s), LIMIT_S
            )
            return int(end)
        except self._kafka.KafkaException as error:
            raise self._unavailable(str(error)) from error

    def _unavailable(self, why: str) -> KafkaUnavailable:
        return KafkaUnavailable(f"{TRANSACTIONS} at {self._address}: {why}")
