"""Kafka as a transactional sink: output and the number of its batch in one transaction.

Spark's own sink may write a batch twice. Here each writer of a batch has a transactional id of
its own, which stays the same as long as the checkpoint does, and commits the batch id as the
offset of a group of that name. A crash between any two of these steps changes nothing for a
reader of committed messages:

- before the transaction is committed: the batch runs again under the same transactional id, whose
  first call ends what was left open;
- committed, but Spark does not know: the batch runs again, finds its number, and writes nothing;
- a task that was taken for dead and goes on: its producer is fenced, or it finds the number.

It holds because a batch is a function of its range of offsets and the state before it, as
`connectors.sink` says, and because all rows of a writer are in one task.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

#: How long a broker, or a transaction of another life, may keep a task waiting.
PERSIST_S, AGAIN_S = 60.0, 0.1
#: One call; and how long a broker keeps a transaction open that nobody ends.
CALL_S, OPEN_MS = 10.0, 10_000
#: In the local properties of each job that a query starts.
QUERY = "sql.streaming.queryId"
SENT = pa.schema([("messages", pa.int64())])

Message = tuple[bytes | None, bytes]


def write(
    frame: DataFrame, topic: str, name: str, checkpoint: str, settings: Mapping[str, str]
) -> StreamingQuery:
    """Start the query that sends the rows of a frame to a topic, each exactly once.

    frame: columns writer, key, value, and then those that its order is by. Which rows a writer
    has may depend on the batch alone, and they are all in one task. name: begins the
    transactional ids. settings: of the clients, of librdkafka; ``bootstrap.servers`` among them.
    """

    def deliver(batch: DataFrame, batch_id: int) -> None:
        def send(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            query = context.getLocalProperty(QUERY) if context else None
            if query is None:
                raise RuntimeError(f"expected the local property {QUERY}, as Spark sets it")
            count = 0
            for writer, messages in by_writer(rows):
                ids = f"{name}-{query}-{writer}", topic, tuple(sorted(settings.items()))
                persistently(ids, batch_id, messages)
                count += len(messages)
            yield pa.record_batch([[count]], schema=SENT)

        batch.mapInArrow(send, "messages long").collect()

    writer = frame.writeStream.foreachBatch(deliver)
    return writer.option("checkpointLocation", checkpoint).start()


def by_writer(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[Message]]]:
    """Yield the messages of each writer, in the order of the columns behind the value."""
    batches = list(rows)
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    names = table.schema.names
    table = table.sort_by([(one, "ascending") for one in ("writer", *names[3:])])
    columns = (table[name].to_pylist() for name in names[:3])
    for writer, mine in groupby(zip(*columns, strict=True), itemgetter(0)):
        yield writer, [(key, value) for _, key, value in mine]


class Writer:
    """A transactional producer, and the last batch that is known to be delivered."""

    def __init__(self, name: str, topic: str, settings: Iterable[tuple[str, str]]) -> None:
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
        failed: list[KafkaException] = []

        def told(error, _message) -> None:
            if error is not None:
                failed.append(KafkaException(error))

        producer = self._producer
        producer.begin_transaction()
        for key, value in messages:
            while True:
                try:
                    producer.produce(self._topic, value, key, on_delivery=told)
                    break
                except BufferError:  # full: until something was delivered
                    producer.poll(AGAIN_S)
            producer.poll(0)
        producer.send_offsets_to_transaction([self._place(batch_id + 1)], self._group, CALL_S)
        producer.commit_transaction(CALL_S)  # all is delivered, or it raises
        if failed:
            raise failed[0]
        self._delivered = batch_id


@lru_cache(maxsize=64)
def writer_of(name: str, topic: str, settings: tuple[tuple[str, str], ...]) -> Writer:
    """Return this process's writer of a name, made once: Spark uses its Python workers again."""
    return Writer(name, topic, settings)


def persistently(ids: tuple, batch_id: int, messages: list[Message]) -> None:
    """Deliver a batch; with a new producer after each error, as long as it may pass."""
    deadline = time.monotonic() + PERSIST_S
    while True:
        try:
            return writer_of(*ids).deliver(batch_id, messages)
        except KafkaException:
            writer_of.cache_clear()  # what it has under way is ended by the next of its name
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_S)
