"""What of Spark is used that is no public interface: all of it is here.

tests/reference/test_internals.py says so when a version of Spark changes it, and when another
module uses more. What was thought of in place of each: docs/decisions/0023-checkpoints.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The oldest and the newest PySpark that all of it was tried on.
TRIED = ("4.2.0", "4.3.0")

#: The work is done in Python: compiling what Spark itself does costs more than it saves. Spark
#: takes the name of a setting that it does not know without a word.
SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

#: For a checkpoint on a local disk, and no other: for each file that it writes there, Spark's
#: default starts eight processes that read links.
LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass":
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}  # fmt: skip

# -- for the adapter, which starts Spark and names its processes ---------------------

#: Main classes of Spark's JVMs.
DRIVER = "org.apache.spark.deploy.SparkSubmit"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"

#: What Spark's Python processes import, beside what the adapter has imported.
PYTHONS = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
)


def executors(spark: SparkSession) -> set[str]:
    """Return the ids of the executors that are up."""
    ids = spark.sparkContext._jsc.sc().getExecutorIds()
    return {ids.apply(number) for number in range(ids.size())}


def ask_for_executors(spark: SparkSession, number: int) -> None:
    """Ask the Master for so many executors from now on. It starts new ones, and ends none."""
    jvm = spark.sparkContext._gateway.jvm
    nowhere = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    spark.sparkContext._jsc.sc().requestTotalExecutors(number, 0, nowhere)


def stop(spark: SparkSession) -> None:
    """Stop Spark, and let its driver's JVM end."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
