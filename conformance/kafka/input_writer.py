"""Writes the kit's input to Kafka, and knows of every message that is not in its topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tickproof.conformance.errors import KitStopped
from tickproof.conformance.kafka.cluster import Cluster, client_library
from tickproof.conformance.text import shown


class InputWriter:
    """An idempotent producer that loses nothing in silence; for one thread.

    settings: of the client, beside or in place of the writer's own. counted: keep ``taken``.
    """

    def __init__(
        self, cluster: Cluster, settings: Mapping[str, Any], *, counted: bool = False
    ) -> None:
        self._cluster = cluster
        self._sent: Counter[tuple[str, int]] = Counter()
        #: What the broker has acknowledged, by topic and partition, as far as `serve` has heard.
        self.taken: Counter[tuple[str, int]] = Counter()
        self._refused = ""
        self._producer = client_library().Producer(
            {
                "bootstrap.servers": cluster.address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
                "delivery.report.only.error": not counted,
                "on_delivery": self._hear,
                **settings,
            }
        )

    def __len__(self) -> int:
        """Return how many messages the broker has not answered yet."""
        return len(self._producer)

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes, time_ms: int = 0
    ) -> bool:
        """Hand over a message; False if there is no room for it yet. time_ms: 0 for now."""
        try:
            self._producer.produce(topic, value, key, partition, timestamp=time_ms)
        except BufferError:
            return False
        self._sent[topic, partition] += 1
        return True

    def serve(self, wait_s: float = 0.0) -> None:
        """Hear what became of messages; raises KitStopped for one that was refused."""
        self._producer.poll(wait_s)
        if self._refused:
            raise KitStopped(self._refused)

    def flush(self, limit_s: float) -> None:
        """Wait until the broker has answered all; raises KitStopped as `serve` does."""
        self._producer.flush(limit_s)
        self.serve()

    def close(self, limit_s: float) -> bool:
        """Leave out what the broker has not answered; say whether it has answered all.

        Raises KitStopped as `serve` does.
        """
        self.serve()
        whole = not len(self._producer)
        self._producer.purge()
        self._producer.flush(limit_s)
        return whole

    def check(self) -> None:
        """Raise KitStopped if a topic holds less than the broker has acknowledged.

        If the first batch for a new partition comes before its leader is ready, a broker appends
        the second and refuses the first as out of order (KAFKA-15591), which librdkafka takes for
        a sign that it is there. Raises KafkaUnavailable.
        """
        for topic in sorted({topic for topic, _ in self._sent}):
            due = {number: n for (of, number), n in self._sent.items() if of == topic}
            ends = self._cluster.ends(topic, max(due) + 1, committed=False)
            for number, count in sorted(due.items()):
                if ends[number] < count:
                    raise KitStopped(
                        f"Kafka has acknowledged {count:,} records of the input for partition "
                        f"{number} of {topic}, which holds {ends[number]:,}"
                    )

    def _hear(self, error: Any, message: Any) -> None:
        if not error:
            self.taken[message.topic(), message.partition()] += 1
        elif not self._refused:
            where = f"partition {message.partition()} of {message.topic()}"
            self._refused = f"Kafka refused a record of the input, {where}: " + shown(
                error.str(), 300
            )
