"""One Spark for all tests; histories cut into many slices and parts, though they are small."""

from __future__ import annotations

import importlib.util
from contextlib import ExitStack

import pytest

# The recorded runs and the ways to tamper with them are those of the suites' tests.
MISSING = [name for name in ("pyspark", "pandas", "chispa") if not importlib.util.find_spec(name)]
collect_ignore_glob = ["test_*.py"] if MISSING else []
PARTS = 3


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    from tests.suites.recorded import shared

    return shared(tmp_path_factory)


#: For small histories: to compile for speed costs more than it saves.
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from tests.spark_pythons import forked
    from tickproof.conformance.spark_check.spark import session

    with ExitStack() as stack:
        pythons = stack.enter_context(forked(tmp_path_factory.mktemp("pythons")))
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PYSPARK_PYTHON", str(pythons))
            # For this JVM alone: other tests of the process start theirs.
            environment.setenv("JDK_JAVA_OPTIONS", FLAGS)
            started = stack.enter_context(session("local[2]"))
        for key, value in {"spark.sql.shuffle.partitions": "2", **INTERPRETED}.items():
            started.conf.set(key, value)
        yield started


@pytest.fixture
def many_parts(monkeypatch):
    """Cut histories of some hundred kilobytes into several slices a file, and PARTS parts."""
    from tickproof.conformance.spark_check import blocks, values

    monkeypatch.setattr(blocks, "SLICE_BYTES", 100 << 10)
    monkeypatch.setattr(values, "part_count", lambda sources, parallel: PARTS)
