"""The topics of a cluster: made, found and removed through its admin protocol."""

from __future__ import annotations

import contextlib
import functools
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.text import shown

#: How long one request may take, and a topic to be there or gone.
LIMIT_S: Final = 30.0
_LOOK_S: Final = 0.02
_CONNECT_S: Final = 2.0
#: Errors that end without anybody's doing: a young broker gives them until its partitions have
#: leaders and its coordinators have loaded. The client library marks none of them.
PASSING: Final = (
    "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION",
    "REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_CONTROLLER",
    "CONCURRENT_TRANSACTIONS", "KAFKA_STORAGE_ERROR", "LISTENER_NOT_FOUND", "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "UNSTABLE_OFFSET_COMMIT",
    "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_TOPIC_ID",
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE", "_RETRY",
    "_WAIT_COORD", "_WAIT_CACHE", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_NOENT",
)  # fmt: skip

#: Rounds of hashing of a password, the fewest that Kafka takes.
_ITERATIONS: Final = 4096
#: The number of the broker that leads a partition without a leader.
NOBODY: Final = -1

_Answer = TypeVar("_Answer")


def client_library() -> Any:
    """Return the module confluent_kafka; raises KafkaUnavailable without it."""
    try:
        import confluent_kafka.admin
    except ImportError as error:
        raise KafkaUnavailable(
            f"Kafka needs the package confluent-kafka ({error}); pip install 'tickproof[kafka]'"
        ) from error
    return confluent_kafka


def passes(error: Any) -> bool:
    """Tell whether an error of the client library may be gone when the same is asked again."""
    known = client_library().KafkaError
    return error.code() in {getattr(known, name) for name in PASSING}


def patiently(
    request: Callable[[float], _Answer], limit_s: float = LIMIT_S, also: Collection[int] = ()
) -> _Answer:
    """Make a request, which is given the seconds left, until it meets no error that passes.

    also: codes of more errors that pass. Raises what the last request raised: a KafkaException,
    or TimeoutError.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return request(max(_LOOK_S, deadline - time.monotonic()))
        except client_library().KafkaException as error:
            known = passes(error.args[0]) or error.args[0].code() in also
            if not known or time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_S)


def listens(address: str) -> bool:
    """Tell whether something takes connections at host:port, or at one of several with commas."""
    for one in address.split(","):
        host, _, port = one.rpartition(":")
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), _CONNECT_S).close()
            return True
    return False


@dataclass(frozen=True)
class Led:
    """A partition. leader: the number of a broker, or `NOBODY`; whole: every copy is in sync."""

    topic: str
    leader: int
    whole: bool


class Cluster:
    """The admin side of a cluster. ``address``: host:port. ``properties``: more client settings.

    Every method raises KafkaUnavailable: the cluster does not answer in time, or refuses.
    """

    def __init__(self, address: str, properties: Mapping[str, str] | None = None) -> None:
        self.address = address
        self._kafka = client_library()
        self._settings = {
            "bootstrap.servers": address,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **(properties or {}),
        }
        self.forget()

    def forget(self) -> None:
        """Forget leaders and their epochs: a broker that came back has newer ones."""
        try:
            self._admin = self._kafka.admin.AdminClient(self._settings)
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

        def request(left_s: float) -> Any:
            return self._admin.describe_configs([asked], request_timeout=left_s)[asked].result(
                left_s
            )

        with self._failing_as(f"cannot read settings of broker {broker}"):
            found = patiently(request, limit_s)
        return {name: found[name].value for name in names if name in found and found[name].value}

    def led(self, limit_s: float = LIMIT_S) -> list[Led]:
        """Return who leads, and who has, each partition of which there are several copies."""
        return [
            Led(name, one.leader, len(one.isrs) == len(one.replicas))
            for name, topic in self._metadata(limit_s).topics.items()
            for one in topic.partitions.values()
            if len(one.replicas) > 1
        ]

    def elect(self, limit_s: float = LIMIT_S) -> bool:
        """Have each partition led by the first of its brokers; False if one has not all of it.

        It is the controller that answers: brokers may not have heard yet who leads.
        """
        first = self._kafka.ElectionType.PREFERRED

        def request(left_s: float) -> Any:
            # Of all partitions. It takes no request_timeout, whatever its documents say.
            return self._admin.elect_leaders(first).result(left_s)

        with self._failing_as("cannot elect leaders"):
            return not any(patiently(request, limit_s).values())

    def partitions(self, limit_s: float = LIMIT_S) -> dict[str, int]:
        """Return the number of partitions that have a leader, by topic."""
        return {
            name: sum(one.leader >= 0 for one in topic.partitions.values())
            for name, topic in self._metadata(limit_s).topics.items()
        }

    def create(
        self,
        topics: Mapping[str, int],
        settings: Mapping[str, str] | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        """Make topics, name -> partitions, and wait until they can be written to and read.

        A leader that is known need not be ready yet: each partition has to answer. Else clients
        lose their first messages (see `InputWriter.check`).
        """
        new = self._kafka.admin.NewTopic
        wanted = {
            name: new(name, count, replication_factor=-1, config=dict(settings or {}))
            for name, count in topics.items()
        }

        def request(names: list[str], left_s: float) -> Mapping[str, Any]:
            asked = [wanted[name] for name in names]
            return dict(self._admin.create_topics(asked, request_timeout=left_s))

        self._finish("make", wanted, request, limit_s, self._kafka.KafkaError.TOPIC_ALREADY_EXISTS)
        self._until(lambda there: topics.items() <= there.items(), "is not there", limit_s)
        for name, count in topics.items():
            self.ends(name, count, committed=False, limit_s=limit_s)

    def delete(self, topics: Iterable[str], limit_s: float = LIMIT_S) -> None:
        """Remove topics, and wait until they are gone; those that are gone already are fine."""
        names = list(topics)
        if not names:
            return

        def request(some: list[str], left_s: float) -> Mapping[str, Any]:
            return dict(self._admin.delete_topics(some, request_timeout=left_s))

        done = self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
        self._finish("remove", names, request, limit_s, done)
        self._until(lambda there: there.keys().isdisjoint(names), "is still there", limit_s)

    def clean(self, name: str, limit_s: float = LIMIT_S) -> None:
        """Remove the topics and groups that have a name in theirs, but for groups with members."""
        self.delete([topic for topic in self.partitions(limit_s) if name in topic], limit_s)
        admin = self._admin
        with self._failing_as("cannot list groups"):
            listed = patiently(
                lambda left_s: admin.list_consumer_groups(request_timeout=left_s).result(left_s),
                limit_s,
            )
            groups = [one.group_id for one in listed.valid if name in one.group_id]
            if not groups:
                return
            futures = admin.delete_consumer_groups(groups, request_timeout=limit_s)
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

        def request(left_s: float) -> Any:
            futures = self._admin.incremental_alter_configs([asked], request_timeout=left_s)
            return futures[asked].result(left_s)

        with self._failing_as(f"cannot configure group {shown(group, 100)}"):
            patiently(request, limit_s)

    def add_user(self, name: str, password: str, mechanism: str, limit_s: float = LIMIT_S) -> None:
        """Add a user who logs in by a mechanism of SCRAM, or set the password of the user."""
        admin = self._kafka.admin
        known = admin.ScramMechanism[mechanism.replace("-", "_")]
        wanted = admin.UserScramCredentialUpsertion(
            name, admin.ScramCredentialInfo(known, _ITERATIONS), password.encode()
        )

        def request(left_s: float) -> Any:
            futures = self._admin.alter_user_scram_credentials([wanted], request_timeout=left_s)
            return futures[name].result(left_s)

        with self._failing_as(f"cannot add user {shown(name, 100)}"):
            patiently(request, limit_s)

    def remake(
        self,
        topic: str,
        partitions: int,
        settings: Mapping[str, str],
        group: str,
        limit_s: float = LIMIT_S,
    ) -> None:
        """Replace a topic by an empty one of its name; a group keeps the offsets it has there.

        Waits until the group has no member and no open transaction that holds offsets.
        """
        kafka = self._kafka
        of_group, admin = kafka.ConsumerGroupTopicPartitions, self._admin
        places = [kafka.TopicPartition(topic, at) for at in range(partitions)]

        def committed(left_s: float) -> Any:
            asked = [of_group(group, places)]
            options = {"require_stable": True, "request_timeout": left_s}
            return admin.list_consumer_group_offsets(asked, **options)[group].result(left_s)

        def restore(left_s: float) -> None:
            asked = [of_group(group, kept)]
            futures = admin.alter_consumer_group_offsets(asked, request_timeout=left_s)
            for one in futures[group].result(left_s).topic_partitions:
                if one.error:
                    raise kafka.KafkaException(one.error)

        with self._failing_as(f"cannot keep the offsets of group {shown(group, 100)}"):
            found = patiently(committed, limit_s).topic_partitions
            kept = [
                kafka.TopicPartition(topic, one.partition, one.offset)
                for one in found
                if one.offset >= 0
            ]
            self.delete([topic], limit_s)
            self.create({topic: partitions}, settings, limit_s)
            if kept:
                members = {kafka.KafkaError.UNKNOWN_MEMBER_ID, kafka.KafkaError.NON_EMPTY_GROUP}
                patiently(restore, limit_s, members)

    def ends(
        self, topic: str, partitions: int, *, committed: bool, limit_s: float = LIMIT_S
    ) -> list[int]:
        """Return where each partition of a topic ends.

        committed: for those who read what is committed, at the last stable offset.
        """
        kafka, level = self._kafka, self._kafka.IsolationLevel
        read = level.READ_COMMITTED if committed else level.READ_UNCOMMITTED
        places = {f"{topic} {at}": kafka.TopicPartition(topic, at) for at in range(partitions)}

        def request(names: list[str], left_s: float) -> Mapping[str, Any]:
            asked = {places[name]: kafka.admin.OffsetSpec.latest() for name in names}
            futures = self._admin.list_offsets(asked, request_timeout=left_s, isolation_level=read)
            return {name: futures[places[name]] for name in names}

        found = self._finish("find the end of", places, request, limit_s)
        return [found[name].offset for name in places]

    def topic_ids(self, topics: Iterable[str], limit_s: float = LIMIT_S) -> dict[str, bytes]:
        """Return the ids of topics, 16 bytes each, as requests of newer clients name them."""

        def request(names: list[str], left_s: float) -> Mapping[str, Any]:
            wanted = self._kafka.TopicCollection(names)
            return dict(self._admin.describe_topics(wanted, request_timeout=left_s))

        found = self._finish("describe", topics, request, limit_s)
        return {name: _bytes(one.topic_id) for name, one in found.items()}

    @contextlib.contextmanager
    def _failing_as(self, what: str) -> Iterator[None]:
        """Raise KafkaUnavailable, which says what could not be done, for errors of the library."""
        try:
            yield
        except (self._kafka.KafkaException, TimeoutError) as error:
            raise KafkaUnavailable(f"Kafka at {self.address}: {what}: {_reason(error)}") from error

    def _metadata(self, limit_s: float) -> Any:
        try:
            return patiently(lambda left_s: self._admin.list_topics(timeout=left_s), limit_s)
        except self._kafka.KafkaException as error:
            raise KafkaUnavailable(f"Kafka at {self.address}: {_reason(error)}") from error

    def _finish(
        self,
        verb: str,
        topics: Iterable[str],
        request: Callable[[list[str], float], Mapping[str, Any]],
        limit_s: float,
        done_already: int | None = None,
    ) -> dict[str, Any]:
        """Return the answers of a request by topic; a topic is asked again if its error passes.

        done_already: the code that says, when asked again, that the first time was enough.
        """
        names = list(topics)
        first = dict(request(names, limit_s))

        def answer(name: str, left_s: float) -> Any:
            again = name not in first
            if again:  # the library looks for no leader that it knows to be missing
                self._admin.list_topics(timeout=left_s)
            future = request([name], left_s)[name] if again else first.pop(name)
            try:
                return future.result(left_s)
            except self._kafka.KafkaException as error:
                if again and error.args[0].code() == done_already:
                    return None
                raise

        done = {}
        for name in names:
            with self._failing_as(f"cannot {verb} topic {shown(name, 100)}"):
                done[name] = patiently(functools.partial(answer, name), limit_s)
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
