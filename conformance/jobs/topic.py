"""A topic of a cluster that is there, read once into a file: from its begin to what is stable."""

from __future__ import annotations

import json
import re
import time
from array import array
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from tickproof.conformance.errors import InvalidFile, KafkaUnavailable, KitStopped, RequestError
from tickproof.conformance.jobs.recording import JsonLines
from tickproof.conformance.kafka.cluster import Cluster, client_library
from tickproof.conformance.text import shown

#: The field that the key of a message becomes, if the rules ask for it.
KEY: Final = "@key"
_ADDRESS: Final = re.compile(r"kafka://([\w.-]+:\d{1,5})/([\w.-]{1,249})", re.ASCII)
_ANSWER_S: Final = 5.0
_SILENCE_S: Final = 30.0
_BATCH: Final = 10_000


class Located(NamedTuple):
    """A topic, and where each of its partitions ends for those who read what is committed."""

    cluster: Cluster
    topic: str
    ends: list[int]


def is_topic(text: str) -> bool:
    """Tell whether an argument names a topic, not a file."""
    return text.startswith("kafka:")


def located(text: str) -> Located:
    """Find the topic kafka://HOST:PORT/TOPIC; raises RequestError, KafkaUnavailable."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise RequestError(f"expected kafka://HOST:PORT/TOPIC; got {shown(text, 200)}")
    cluster, topic = Cluster(found[1]), found[2]
    partitions = cluster.partitions(_ANSWER_S).get(topic, 0)
    if not partitions:
        raise RequestError(f"Kafka at {found[1]}: expected the topic {topic}; it is not there")
    return Located(cluster, topic, cluster.ends(topic, partitions, committed=True))


class Topic(JsonLines):
    """A topic of JSON objects, whose messages lie in a file; a place is partition and offset."""

    def __init__(self, name: str, at: Located, folder: Path, *, with_keys: bool) -> None:
        super().__init__(name, folder / f"{name}.jsonl", "")
        self.path = Path(f"topic {at.topic} at {at.cluster.address}")
        self._partitions, self._offsets = array("i"), array("q")
        kafka = client_library()
        settings = {
            "bootstrap.servers": at.cluster.address,
            "group.id": f"tickproof-judge-{uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
        consumer = kafka.Consumer(settings)
        try:
            self._read(kafka, consumer, at, with_keys)
        except OSError as error:
            raise KitStopped(f"{folder}: {error.strerror}") from error
        except kafka.KafkaException as error:
            raise KafkaUnavailable(f"{self.path}: {shown(str(error), 300)}") from error
        finally:
            consumer.close()

    def where(self, line: int) -> str:
        """Return the place of a message in words."""
        partition, offset = self._partitions[line - 1], self._offsets[line - 1]
        return f"partition {partition}, offset {offset:,}"

    def _read(self, kafka: Any, consumer: Any, at: Located, with_keys: bool) -> None:
        """Write each message as a line; raises KafkaUnavailable if no more come."""
        places = [
            kafka.TopicPartition(at.topic, number, kafka.OFFSET_BEGINNING)
            for number in range(len(at.ends))
        ]
        begins = [consumer.get_watermark_offsets(one, _SILENCE_S)[0] for one in places]
        late = [f"partition {n} begins at offset {one:,}" for n, one in enumerate(begins) if one]
        self.gone = late[0] if late else ""
        left = {n for n, end in enumerate(at.ends) if end > begins[n]}
        consumer.assign([places[number] for number in left])
        heard = time.monotonic()
        with self.file.open("wb") as file:
            while left:
                messages = consumer.consume(_BATCH, 1.0)
                if messages:
                    heard = time.monotonic()
                elif time.monotonic() - heard > _SILENCE_S:
                    raise KafkaUnavailable(f"{self.path}: no message in {_SILENCE_S:g} s")
                for message in messages:
                    number, offset = message.partition(), message.offset()
                    if error := message.error():
                        if error.code() != kafka.KafkaError._PARTITION_EOF:
                            raise kafka.KafkaException(error)
                    elif offset < at.ends[number]:
                        self._partitions.append(number)
                        self._offsets.append(offset)
                        file.write(self._line(message, with_keys))
                        offset += 1
                    if offset >= at.ends[number]:
                        left.discard(number)

    def _line(self, message: Any, with_key: bool) -> bytes:
        """Return a message as one line of JSON lines, its key among its fields if that is asked."""
        value = message.value() or b""
        text = bytes(value.replace(b"\n", b" ").strip())
        if not text.startswith(b"{"):
            where = self.where(len(self._offsets))
            got = shown(repr(message.value()), 100)
            raise InvalidFile(self.path, [f"{where}: expected a JSON object; got {got}"])
        if with_key and message.key() is not None:
            key = json.dumps(message.key().decode("utf-8", "backslashreplace"))
            rest = text[1:].lstrip()
            comma = "" if rest.startswith(b"}") else ", "
            text = f"{json.dumps(KEY)}: {key}{comma}".encode() + rest
            text = b"{" + text
        return text + b"\n"
