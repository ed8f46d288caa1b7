"""Starting Spark for a judgement, or to write input."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tickproof.conformance.errors import SparkNotStarted
from tickproof.reference import java

#: Bytes of blocks that Spark hands to Python at a time; one block may be larger.
BATCH_BYTES: Final = 32 << 20
_LOOPBACK: Final = "127.0.0.1"


@contextlib.contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Give a Spark session that ends with the block; raises SparkNotStarted.

    PYSPARK_PYTHON, where it is set, is the Python of the executors, else this one.
    """
    # The setting spark.pyspark.python counts for spark-submit only.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)  # executors of a local-cluster, too
    try:
        java.prepare()
        spark = SparkSession.builder.master(master).config(map=settings(master)).getOrCreate()
    except java.JavaNotFound as error:
        raise SparkNotStarted(str(error)) from error
    except (PySparkException, Py4JError) as error:
        # The first line of an error from Java says only which call failed.
        why = str(error).strip().splitlines()[:2][-1].lstrip(": ")
        raise SparkNotStarted(f"Spark did not start on {master}: {why}") from error
    try:
        yield spark
    finally:
        spark.stop()


def settings(master: str) -> dict[str, str]:
    """Return the settings that either needs; loopback where all is in one process."""
    root = str(Path(__file__).parents[3])
    loopback = {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return {
        **(loopback if master.startswith("local") else {}),
        "spark.app.name": "tickproof",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.executorEnv.PYTHONPATH": root,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "0",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    }
