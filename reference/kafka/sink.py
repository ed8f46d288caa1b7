"""Kafka as a transactional sink: output and the number of its batch in one transaction.

Spark's own sink may write a batch twice. Here each writer of a batch has a transactional id of
its own, which stays the same as long as the checkpoint does, and commits the batch id as the
offset of a group of that name. A crash between any two of these steps changes nothing for a
reader of committed messages:

- before the transaction is committed: the batch runs again under the same transactional id, whose
  first call ends what was left open;
- committed, but Spark does not know: the batch runs again, finds its number, and writes nothing;
- a task that was taken for dead and goes on: its producer is fenced, or it finds the number.

The broker forgets the number where nothing is committed for `offsets.retention.minutes`, a week by
default: a batch that was left in doubt for longer is written again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.sinks import writers

#: One call; and how long a broker keeps a transaction open that nobody ends.
CALL_S, OPEN_MS = 10.0, 10_000
Message = tuple[bytes | None, bytes]


def write(
    frame: DataFrame, topic: str, name: str, checkpoint: str, settings: Mapping[str, str]
) -> StreamingQuery:
    """Start the query that sends the rows of a frame to a topic, each exactly once.

    frame: as `writers.start` has it, with columns key and value. name: begins the transactional
    ids. settings: of the clients, of librdkafka; ``bootstrap.servers`` among them.
    """
    into = partial(deliver, topic, tuple(sorted(settings.items())))
    return writers.start(frame, name, checkpoint, into, KafkaException)


class Writer:
    """A transactional producer, and the last batch that is known to be delivered."""

    def __init__(self, topic: str, settings: Iterable[tuple[str, str]], name: str) -> None:
        known = dict(settings)
        own = {"transactional.id": name, "transaction.timeout.ms": OPEN_MS, "linger.ms": 5}
        self._topic, self._producer = topic, Producer(known | own)
        # Fences whoever had the id before, and ends the transaction that it left open.
        self._producer.init_transactions(CALL_S)
        group = {"group.id": name, "enable.auto.commit": False}
        with contextlib.closing(Consumer(known | group)) as consumer:
            (mark,) = consumer.committed([self._place()], CALL_S)
            self._group = consumer.consumer_group_metadata()
        self._delivered = mark.offset - 1

    def _place(self, *offset: int) -> TopicPartition:
        return TopicPartition(self._topic, 0, *offset)

    def deliver(self, batch_id: int, messages: Iterable[Message]) -> None:
        """Write the messages of a batch, unless it is delivered; raises KafkaException."""
        if batch_id <= self._delivered:
            return
        producer = self._producer
        producer.begin_transaction()
        for key, value in messages:
            while True:
                try:
                    producer.produce(self._topic, value, key)
                    break
                except BufferError:  # full: until something was delivered
                    producer.poll(writers.AGAIN_S)
            producer.poll(0)
        producer.send_offsets_to_transaction([self._place(batch_id + 1)], self._group, CALL_S)
        producer.commit_transaction(CALL_S)  # all is delivered, or it raises
        self._delivered = batch_id


@lru_cache(maxsize=64)
def writer_of(topic: str, settings: tuple[tuple[str, str], ...], name: str) -> Writer:
    """Return this process's writer of a name, made once: Spark uses its Python workers again."""
    return Writer(topic, settings, name)


def deliver(
    topic: str,
    settings: tuple[tuple[str, str], ...],
    name: str,
    batch_id: int,
    messages: list[Message],
) -> None:
    """Deliver a batch; raises KafkaException, after which the next call has a new producer."""
    try:
        writer_of(topic, settings, name).deliver(batch_id, messages)
    except KafkaException:
        writer_of.cache_clear()  # what it has under way is ended by the next of its name
        raise
