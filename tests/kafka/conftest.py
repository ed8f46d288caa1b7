"""A real broker for the tests of a process; without Java they are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.presence import expect_broker
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.cluster import Cluster


@pytest.fixture(scope="session")
def kafka() -> None:
    """Skip where no broker can run. A download that fails is an error."""
    expect_broker()


@pytest.fixture(scope="session")
def broker(kafka: None) -> Iterator[Broker]:
    """Give a running broker, shared by all tests of this process: make topics of your own."""
    with Broker() as made:
        yield made


@pytest.fixture(scope="session")
def cluster(broker: Broker) -> Cluster:
    """Give the admin side of the shared broker."""
    return Cluster(broker.address.kit)
