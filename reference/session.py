"""The Spark session of the reference, and why each setting."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from tickproof.reference import internals

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # State: on local disk, its changes in the checkpoint with every batch.
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A task does not wait three seconds for an executor that is dead.
    "spark.locality.wait": "0",
    # The output of a map task that died with its executor is made again, not waited for.
    "spark.shuffle.io.maxRetries": "2",
    "spark.shuffle.io.retryWait": "200ms",
    **internals.SETTINGS,
}  # fmt: skip


def start(
    master: str | None,
    settings: Mapping[str, str] = {},
    *,
    state_partitions: int = 2,
    memory_mb: int = 800,
) -> SparkSession:
    """Start Spark on a cluster, ``local-cluster[2,1,800]`` say; ``settings`` win over SETTINGS.

    master: None for that of spark-submit. state_partitions: how many tasks share the state; fixed
    for the life of a checkpoint.
    """
    memory = f"{memory_mb}m"
    sizes = {
        "spark.sql.shuffle.partitions": str(state_partitions),
        "spark.executor.memory": memory,
        "spark.driver.memory": memory,
    }
    builder = SparkSession.builder.appName("tickproof")
    if master is not None:
        builder = builder.master(master)
    for key, value in {**SETTINGS, **sizes, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
