"""When a broker's transactions began and ended, and how committed offsets moved.

Both are read out of the broker's own topics, with the broker's own times. Only a broker of
the kit lets anyone read them, and keeps all that was ever written there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka.cluster import client_library
from tickproof.conformance.kafka.fields import Fields, Malformed

TRANSACTIONS: Final = "__transaction_state"
OFFSETS: Final = "__consumer_offsets"
#: How long the topic's end may take to be found and read.
LIMIT_S: Final = 30.0
_MESSAGES: Final = 5_000
#: How long a message may be on its way that a read at the end still finds.
_PATIENCE_S: Final = 0.05
#: Versions of keys that stand for an offset of a group; others describe the group.
_OFFSET_KEYS: Final = (0, 1)


class State(IntEnum):
    """Where a transactional id stands."""

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
class CommittedOffset:
    """A group has committed an offset of a partition; offset None: it was forgotten."""

    t_ms: int
    group: str
    topic: str
    partition: int
    offset: int | None


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


def committed_offset(t_ms: int, key: bytes, value: bytes | None) -> CommittedOffset | None:
    """Read a message of `OFFSETS`; None for what describes no offset. Raises Malformed."""
    fields = Fields(memoryview(key), 0, flexible=False)
    if fields.i16() not in _OFFSET_KEYS:
        return None
    group, topic, partition = fields.text() or "", fields.text() or "", fields.i32()
    offset = None if value is None else Fields(memoryview(value), 2, flexible=False).i64()
    return CommittedOffset(t_ms, group, topic, partition, offset)


class TransactionLog:
    """States of transactional ids with a prefix, as they come; use it as a context manager."""

    def __init__(self, address: str, prefix: str) -> None:
        self._prefix = prefix
        self._topic = _Topic(address, TRANSACTIONS, "read_uncommitted")

    def __enter__(self) -> TransactionLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._topic.close()

    def read(self, limit_s: float = LIMIT_S) -> list[TransactionState]:
        """Return what has come since the last time. Raises KafkaUnavailable."""
        found = (transaction_state(*message) for message in self._topic.read(limit_s))
        return [one for one in found if one and one.transactional_id.startswith(self._prefix)]


class CommittedOffsets:
    """Offsets that one group commits, as they move; use it as a context manager.

    Offsets within a transaction are seen once that is committed.
    """

    def __init__(self, address: str, group: str) -> None:
        self._group = group
        self._topic = _Topic(address, OFFSETS, "read_committed")
        self._offsets: dict[tuple[str, int], int] = {}

    def __enter__(self) -> CommittedOffsets:
        return self

    def __exit__(self, *_: object) -> None:
        self._topic.close()

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """Where each partition (topic, number) stood at the last `read`."""
        return dict(self._offsets)

    def read(self, limit_s: float = LIMIT_S) -> list[CommittedOffset]:
        """Return what has come since the last time. Raises KafkaUnavailable."""
        found = (committed_offset(*message) for message in self._topic.read(limit_s))
        new = [one for one in found if one and one.group == self._group]
        for one in new:
            if one.offset is None:
                self._offsets.pop((one.topic, one.partition), None)
            else:
                self._offsets[one.topic, one.partition] = one.offset
        return new


class _Topic:
    """A topic of one partition that the broker keeps for itself, read message by message."""

    def __init__(self, address: str, name: str, isolation: str) -> None:
        self._kafka = client_library()
        self._name, self._address = name, address
        #: Whether the topic, which begins with its first use, was there.
        self._begun = self._at_end = False
        self._eof = self._kafka.KafkaError._PARTITION_EOF
        self._consumer = self._kafka.Consumer({
            "bootstrap.servers": address, "group.id": "tickproof", "enable.auto.commit": False,
            "enable.partition.eof": True, "isolation.level": isolation, "log_level": 0,
            "fetch.wait.max.ms": 10, "reconnect.backoff.max.ms": 200,
        })  # fmt: skip

    def close(self) -> None:
        self._consumer.close()

    def read(self, limit_s: float) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Give time, key and value of what has come, until nothing is left."""
        deadline = time.monotonic() + limit_s
        if not self._begun and not self._begin(limit_s):
            return
        while True:
            messages = self._consumer.consume(_MESSAGES, _PATIENCE_S)
            # The end is told of once, until something comes after it.
            if not messages and self._at_end:
                return
            for message in messages:
                error = message.error()
                self._at_end = bool(error and error.code() == self._eof)
                if error and not self._at_end and not error.retriable():
                    raise self._unavailable(error.str())
                if not error and message.key() is not None:
                    yield message.timestamp()[1], message.key(), message.value()
            if time.monotonic() > deadline:
                raise self._unavailable(f"its end was not read within {limit_s:g} s")

    def _begin(self, limit_s: float) -> bool:
        """Find the partitions; False while there is no such topic."""
        try:
            topics = self._consumer.list_topics(timeout=limit_s).topics
        except self._kafka.KafkaException as error:
            raise self._unavailable(str(error)) from error
        if self._name not in topics:
            return False
        if (width := len(topics[self._name].partitions)) != 1:
            raise self._unavailable(f"it has {width} partitions, expected 1")
        self._consumer.assign([self._kafka.TopicPartition(self._name, 0, 0)])
        self._begun = True
        return True

    def _unavailable(self, why: str) -> KafkaUnavailable:
        return KafkaUnavailable(f"{self._name} at {self._address}: {why}")
