"""The sink of the reference over Kafka: a batch is there once, wherever its task died."""

from __future__ import annotations

import functools
import random
import time
import uuid
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
sink = pytest.importorskip("tickproof.reference.kafka.sink")
writers = pytest.importorskip("tickproof.reference.sinks.writers")

ROWS = [("a", 1), ("b", 2), (None, 3)]
MESSAGES = [(key and key.encode(), b"%d" % value) for key, value in ROWS]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=30, unique=True),
    cut=st.integers(0, 30),
    order=st.randoms(use_true_random=False),
)
def test_the_messages_of_a_writer_do_not_depend_on_how_rows_come(
    rows: list[tuple[int, int]], cut: int, order: random.Random
) -> None:
    due = [
        (writer, [(b"k", b"%d" % at) for _, at in mine])
        for writer, mine in groupby(sorted(rows), lambda row: row[0])
    ]
    order.shuffle(rows)
    batches = [batch(some) for some in (rows[:cut], rows[cut:])]
    assert list(writers.by_writer(batches)) == due
    assert list(writers.by_writer([])) == []


def batch(rows: list[tuple[int, int]]) -> pa.RecordBatch:
    columns = {
        "writer": pa.array([writer for writer, _ in rows], pa.int32()),
        "key": pa.array([b"k"] * len(rows), pa.binary()),
        "value": pa.array([b"%d" % at for _, at in rows], pa.binary()),
        **{
            f.name: pa.array([at for _, at in rows], f.type)
            for f in writers.PLACE
            if f.name != "part"
        },
        "part": pa.array([b""] * len(rows), pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


class Scene:
    """A topic of one partition, and the names of a writer."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.topic, self._brokers = topic, brokers
        self.ids = topic, (("bootstrap.servers", brokers),), f"{topic}-0"

    def writer(self) -> sink.Writer:
        deadline = time.monotonic() + 60
        while True:
            try:
                return sink.Writer(*self.ids)
            except sink.KafkaException:  # a coordinator that is not ready yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def deliver(self, batch_id: int, messages: list) -> None:
        """Deliver as a task does."""
        *where, name = self.ids
        into = functools.partial(sink.deliver, *where)
        writers.persistently(sink.KafkaException, into, name, batch_id, messages)

    def committed(self) -> list[tuple[bytes | None, bytes]]:
        """Return what a reader of committed messages sees, once no transaction is open."""
        settings = {
            "bootstrap.servers": self._brokers, "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed", "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }  # fmt: skip
        reader = sink.Consumer(settings)
        reader.assign([sink.TopicPartition(self.topic, 0, 0)])
        found = []
        try:
            while True:
                message = reader.poll(30)
                assert message is not None, "neither a message nor the end of the topic"
                if message.error():
                    return found
                found.append((message.key(), message.value()))
        finally:
            reader.close()


@pytest.fixture
def scene(broker, cluster):
    topic = f"sent-{uuid.uuid4().hex[:8]}"
    cluster.create({topic: 1})
    sink.writer_of.cache_clear()
    yield Scene(broker.address.kit, topic)
    sink.writer_of.cache_clear()
    cluster.delete([topic])


def test_a_batch_that_runs_again_is_there_once(scene: Scene) -> None:
    first = scene.writer()
    for _ in range(2):
        first.deliver(0, MESSAGES)
    second = scene.writer()  # a new life
    for batch_id in (0, 1, 1):
        second.deliver(batch_id, MESSAGES)
    assert scene.committed() == MESSAGES * 2


def test_what_a_task_had_under_way_is_gone(scene: Scene) -> None:
    dead = scene.writer()
    dead._producer.begin_transaction()
    dead._producer.produce(scene.topic, b"half")
    dead._producer.flush(30)
    scene.writer().deliver(0, MESSAGES)
    assert scene.committed() == MESSAGES


def test_a_task_that_was_taken_for_dead_writes_nothing_more(scene: Scene) -> None:
    slow, twin = scene.writer(), scene.writer()
    twin.deliver(0, MESSAGES)
    with pytest.raises(sink.KafkaException):
        slow.deliver(0, MESSAGES)
    scene.deliver(0, MESSAGES)  # as its task does next
    assert scene.committed() == MESSAGES


def test_a_commit_whose_answer_is_lost_is_not_done_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has it, and the producer is told of an error."""

    class Deaf:
        def __init__(self, producer) -> None:
            self._producer = producer

        def __getattr__(self, name: str):
            return getattr(self._producer, name)

        def commit_transaction(self, timeout: float) -> None:
            self._producer.commit_transaction(timeout)
            raise sink.KafkaException("no answer")

    known = sink.writer_of(*scene.ids)
    monkeypatch.setattr(known, "_producer", Deaf(known._producer))
    scene.deliver(0, MESSAGES)
    assert scene.committed() == MESSAGES
    assert sink.writer_of(*scene.ids) is not known
