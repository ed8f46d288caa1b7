"""A real broker for the tests of a process; without Java they are skipped."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator

import pytest

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.cluster import Cluster, client_library


@pytest.fixture(scope="session")
def kafka() -> None:
    """Skip where no broker can run. A download that fails is an error."""
    try:
        client_library()
        jars.find_java()
    except KafkaUnavailable as error:
        pytest.skip(str(error))
    if importlib.util.find_spec("pyspark") is None and shutil.which("mvn") is None:
        pytest.skip("neither pyspark nor mvn, which could bring the broker's jars")


@pytest.fixture(scope="session")
def broker(kafka: None) -> Iterator[Broker]:
    """Give a running broker, shared by all tests of this process: make topics of your own."""
    with Broker() as made:
        yield made


@pytest.fixture(scope="session")
def cluster(broker: Broker) -> Cluster:
    """Give the admin side of the shared broker."""
    return Cluster(broker.address.kit)
