"""Versions of what an engine or a job over Kafka is judged with."""

from __future__ import annotations

import importlib.metadata
from typing import NamedTuple

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.cluster import client_library


class KafkaSoftware(NamedTuple):
    """The broker, the Java that it runs on, and the client of the kit."""

    broker: str
    java: str
    client: str

    def __str__(self) -> str:
        return f"Apache Kafka {self.broker} on Java {self.java}; {self.client} in the kit"


def installed() -> KafkaSoftware | None:
    """Return what is installed, None where something is missing."""
    try:
        library = client_library()
        package = importlib.metadata.version("confluent-kafka")
        client = f"confluent-kafka {package}, librdkafka {library.libversion()[0]}"
        broker = jars.load(jars.BROKER).coordinates[0].rpartition(":")[2]
        return KafkaSoftware(broker, jars.find_java().version, client)
    except KafkaUnavailable:
        return None
