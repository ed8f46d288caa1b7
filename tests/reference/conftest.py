"""One Spark for all tests of the reference."""

from __future__ import annotations

import importlib.util
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

MISSING = [name for name in ("pyspark", "pandas", "chispa") if not importlib.util.find_spec(name)]
NEED_SPARK = [
    "test_streaming.py", "test_checkpoints.py", "test_rows.py", "test_wire.py",
    "test_internals.py", "test_file_systems.py", "test_sink.py", "test_columns.py",
    "test_outputs.py",
]  # fmt: skip
collect_ignore = NEED_SPARK if MISSING else []
ROOT = Path(__file__).parents[2]
#: For a JVM that lives for a minute.
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Give a local Spark as the reference starts it; other tests of the process may share it."""
    from pyspark.sql import SparkSession

    from tests.spark_pythons import forked
    from tickproof.reference import java, session

    with pytest.MonkeyPatch.context() as environment, ExitStack() as stack:
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setenv("OPENBLAS_NUM_THREADS", "1")
        path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        program = stack.enter_context(forked(tmp_path_factory.mktemp("pythons")))
        environment.setenv("PYSPARK_PYTHON", str(program))
        shared = SparkSession.getActiveSession() is not None
        java.prepare()
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": FLAGS,
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            # Spark's own default. A judgement sets 0, which a Python source does not take.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        }
        started = session.start("local[2]", settings)
        yield started
        if not shared:
            started.stop()
