"""Whether a broker can run here."""

from __future__ import annotations

import importlib.util

import pytest

from tests.machine import no_network, no_program
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.cluster import client_library


def expect_broker() -> None:
    """Skip the test where no broker can run. Jars that do not come over a network are an error."""
    try:
        client_library()
        jars.find_java()
    except KafkaUnavailable as error:
        pytest.skip(str(error))
    if importlib.util.find_spec("pyspark") is None and no_program("mvn"):
        pytest.skip("neither pyspark nor mvn, which could bring the broker's jars")
    try:
        jars.bring(jars.load(jars.BROKER))
    except KafkaUnavailable as error:
        if missing := no_network():
            pytest.skip(f"no jars of the broker: {missing}")
        raise RuntimeError(str(error)) from error
