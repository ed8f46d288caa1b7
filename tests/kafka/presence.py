"""Whether a broker can run here."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.cluster import client_library


def expect_broker() -> None:
    """Skip the test where no broker can run. A download that fails is an error."""
    try:
        client_library()
        jars.find_java()
    except KafkaUnavailable as error:
        pytest.skip(str(error))
    if importlib.util.find_spec("pyspark") is None and shutil.which("mvn") is None:
        pytest.skip("neither pyspark nor mvn, which could bring the broker's jars")
