"""The Spark session of an engine: its Java, its executors, its settings, and why each."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pyspark
from pyspark.sql import SparkSession

from reference import java

#: C1 alone and one collector thread: executors live for minutes and move few, large rows.
JVM_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    # State: on local disk, its changes in the checkpoint with every batch.
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A task does not wait three seconds for an executor that is dead.
    "spark.locality.wait": "0",
    # Rows are blocks of thousands of records: compiling code for them costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.daemon.module": "reference.daemon",
}  # fmt: skip


def start(
    master: str, workers: int, scratch: Path, *, state_partitions: int = 2, memory_mb: int = 800
) -> SparkSession:
    """Start Spark with ``workers`` executors; ``scratch`` is for what need not survive.

    master: "local-cluster" or the URL of a cluster. state_partitions is fixed for the life of
    a checkpoint.
    """
    java.prepare()
    home = _home(scratch)
    if master == "local-cluster":
        master = f"local-cluster[{workers},1,{memory_mb}]"
    packages = Path(__file__).resolve().parents[1]
    paths = [str(packages), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_LAUNCHER_OPTS": JVM_FLAGS,
        # Spark's workers would take python3 from PATH.
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(paths))),
        "OPENBLAS_NUM_THREADS": "1",
    }
    builder = SparkSession.builder.master(master).appName("tickproof")
    jars = f"{_installed()}/jars/*"
    settings = SETTINGS | {
        "spark.sql.shuffle.partitions": str(state_partitions),
        "spark.executor.memory": f"{memory_mb}m",
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.extraJavaOptions": JVM_FLAGS,
        "spark.executor.extraJavaOptions": JVM_FLAGS,
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop(spark: SparkSession) -> None:
    """Stop Spark, and end all processes that were started for it."""
    gateway = spark.sparkContext._gateway
    below = psutil.Process().children(recursive=True)
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    for process in psutil.wait_procs(below, timeout=5)[1]:
        process.kill()


def _installed() -> Path:
    return Path(pyspark.__file__).resolve().parent


def _home(scratch: Path) -> Path:
    """Make a SPARK_HOME that borrows programs and jars from the installed one.

    Executors keep their logs below SPARK_HOME, which may not be writable; and Python modules
    come from site-packages, compiled, and not from a zip file that is compiled at each start.
    """
    home = scratch / "spark"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "jars"):
        link = home / name
        if not link.is_symlink():
            link.symlink_to(_installed() / name)
    return home
