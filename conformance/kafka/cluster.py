"""The topics of a cluster: made, found and removed through its admin protocol."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.text import shown

#: How long one request may take, and a topic to be there or gone.
LIMIT_S: Final = 30.0
_LOOK_S: Final = 0.02
_CONNECT_S: Final = 2.0


def client_library() -> Any:
    """Return the module confluent_kafka; raises KafkaUnavailable without it."""
    try:
        import confluent_kafka.admin
    except ImportError as error:
        raise KafkaUnavailable(
            f"Kafka needs the package confluent-kafka ({error}); pip install 'tickproof[kafka]'"
        ) from error
    return confluent_kafka


def listens(address: str) -> bool:
    """Tell whether something takes connections at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except OSError:
        return False
    return True


class Cluster:
    """The admin side of a cluster. ``address``: host:port. ``properties``: more client settings.

    Every method raises KafkaUnavailable: the cluster does not answer in time, or refuses.
    """

    def __init__(self, address: str, properties: Mapping[str, str] | None = None) -> None:
        self.address = address
        self._kafka = client_library()
        settings = {
            "bootstrap.servers": address,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **(properties or {}),
        }
        try:
            self._admin = self._kafka.admin.AdminClient(settings)
        except (self._kafka.KafkaException, ValueError, TypeError) as error:
            raise KafkaUnavailable(f"settings of the Kafka client: {_reason(error)}") from error

    def id(self, limit_s: float = LIMIT_S) -> str:
        """Return the cluster's id, which it answers once it is up."""
        return str(self._metadata(limit_s).cluster_id)

    def brokers(self, limit_s: float = LIMIT_S) -> dict[int, tuple[str, int]]:
        """Return host and port that each broker tells its clients, by its number."""
        known = self._metadata(limit_s).brokers.values()
        return {one.id: (str(one.host), int(one.port)) for one in known}

    def settings(
        self, broker: int, names: Iterable[str], limit_s: float = LIMIT_S
    ) -> dict[str, str]:
        """Return those of a broker's settings that it has and shows."""
        admin = self._kafka.admin
        asked = admin.ConfigResource(admin.ResourceType.BROKER, str(broker))
        try:
            futures = self._admin.describe_configs([asked], request_timeout=limit_s)
            found = futures[asked].result(limit_s)
        except (self._kafka.KafkaException, TimeoutError) as error:
            what = f"cannot read settings of broker {broker}"
            raise KafkaUnavailable(f"Kafka at {self.address}: {what}: {_reason(error)}") from error
        return {name: found[name].value for name in names if name in found and found[name].value}

    def partitions(self, limit_s: float = LIMIT_S) -> dict[str, int]:
        """Return the number of partitions that have a leader, by topic."""
        return {
            name: sum(one.leader >= 0 for one in topic.partitions.values())
            for name, topic in self._metadata(limit_s).topics.items()
        }

    def create(
        self, topics: Mapping[str, int], settings: Mapping[str, str] | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:  # fmt: skip
        """Make topics, name -> partitions, and wait until they can be written to and read."""
        new = self._kafka.admin.NewTopic
        wanted = [
            new(name, count, replication_factor=-1, config=dict(settings or {}))
            for name, count in topics.items()
        ]
        self._finish(self._admin.create_topics(wanted, request_timeout=limit_s), "make", limit_s)
        self._until(lambda there: topics.items() <= there.items(), "is not there", limit_s)

    def delete(self, topics: Iterable[str], limit_s: float = LIMIT_S) -> None:
        """Remove topics, and wait until they are gone."""
        names = list(topics)
        if not names:
            return
        futures = self._admin.delete_topics(names, request_timeout=limit_s)
        self._finish(futures, "remove", limit_s)
        self._until(lambda there: there.keys().isdisjoint(names), "is still there", limit_s)

    def clean(self, name: str, limit_s: float = LIMIT_S) -> None:
        """Remove the topics and groups that have a name in theirs, but for groups with members."""
        self.delete([topic for topic in self.partitions(limit_s) if name in topic], limit_s)
        try:
            listed = self._admin.list_consumer_groups(request_timeout=limit_s).result(limit_s)
            groups = [one.group_id for one in listed.valid if name in one.group_id]
            if not groups:
                return
            futures = self._admin.delete_consumer_groups(groups, request_timeout=limit_s)
        except (self._kafka.KafkaException, TimeoutError) as error:
            why = f"cannot list groups: {_reason(error)}"
            raise KafkaUnavailable(f"Kafka at {self.address}: {why}") from error
        for future in futures.values():
            # The broker forgets the others by itself, once they have had no member for a while.
            with contextlib.suppress(self._kafka.KafkaException, TimeoutError):
                future.result(limit_s)

    def configure_group(
        self, group: str, settings: Mapping[str, str], limit_s: float = LIMIT_S
    ) -> None:
        """Give a group settings of its own, whether it is there yet or not."""
        admin = self._kafka.admin
        entries = [
            admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        asked = admin.ConfigResource(admin.ResourceType.GROUP, group, incremental_configs=entries)
        futures = self._admin.incremental_alter_configs([asked], request_timeout=limit_s)
        try:
            futures[asked].result(limit_s)
        except (self._kafka.KafkaException, TimeoutError) as error:
            what = f"cannot configure group {shown(group, 100)}"
            raise KafkaUnavailable(f"Kafka at {self.address}: {what}: {_reason(error)}") from error

    def ends(
        self, topic: str, partitions: int, *, committed: bool, limit_s: float = LIMIT_S
    ) -> list[int]:
        """Return where each partition of a topic ends.

        committed: for those who read what is committed, at the last stable offset.
        """
        kafka = self._kafka
        level = kafka.IsolationLevel
        places = [kafka.TopicPartition(topic, number) for number in range(partitions)]
        futures = self._admin.list_offsets(
            dict.fromkeys(places, kafka.admin.OffsetSpec.latest()), request_timeout=limit_s,
            isolation_level=level.READ_COMMITTED if committed else level.READ_UNCOMMITTED,
        )  # fmt: skip
        named = {f"{topic} {place.partition}": futures[place] for place in places}
        return [one.offset for one in self._finish(named, "find the end of", limit_s).values()]

    def topic_ids(self, topics: Iterable[str], limit_s: float = LIMIT_S) -> dict[str, bytes]:
        """Return the ids of topics, 16 bytes each, as requests of newer clients name them."""
        wanted = self._kafka.TopicCollection(list(topics))
        futures = self._admin.describe_topics(wanted, request_timeout=limit_s)
        found = self._finish(futures, "describe", limit_s)
        return {name: _bytes(one.topic_id) for name, one in found.items()}

    def _metadata(self, limit_s: float) -> Any:
        try:
            return self._admin.list_topics(timeout=limit_s)
        except self._kafka.KafkaException as error:
            raise KafkaUnavailable(f"Kafka at {self.address}: {_reason(error)}") from error

    def _finish(self, futures: Mapping[str, Any], verb: str, limit_s: float) -> dict[str, Any]:
        """Wait for the answers of a request, by topic."""
        done = {}
        for name, future in futures.items():
            try:
                done[name] = future.result(limit_s)
            except (self._kafka.KafkaException, TimeoutError) as error:
                what = f"cannot {verb} topic {shown(name, 100)}"
                raise KafkaUnavailable(
                    f"Kafka at {self.address}: {what}: {_reason(error)}"
                ) from error
        return done

    def _until(self, condition: Any, otherwise: str, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not condition(self.partitions(max(0.1, deadline - time.monotonic()))):
            if time.monotonic() > deadline:
                why = f"a topic {otherwise} after {limit_s:g} s"
                raise KafkaUnavailable(f"Kafka at {self.address}: {why}")
            time.sleep(_LOOK_S)


def _bytes(uuid: Any) -> bytes:
    """Return the 16 bytes of a Uuid of the client library."""
    bits = ((uuid.get_most_significant_bits() << 64) & (1 << 128) - 1) | (
        uuid.get_least_significant_bits() & (1 << 64) - 1
    )
    return int(bits).to_bytes(16, "big")


def _reason(error: Exception) -> str:
    """Return what an exception of the client library says, on one line."""
    inner = error.args[0] if error.args else error
    return shown(inner.str() if hasattr(inner, "str") else str(inner) or "no answer in time", 300)
