"""Checkpoints that are no local files: Spark alone knows how to read and write them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chispa import assert_df_equality

from tests.long import LONG
from tests.reference.hdfs import hdfs
from tests.reference.querying import DEADLINE_S, recorded, running
from tests.reference.served import Served, serving_values
from tickproof.reference import apps
from tickproof.reference.compiler import batch

ROOT = Path(__file__).parents[2]
RECORDS = 400
#: Whether functions take arrays.


@pytest.fixture
def served(tmp_path):
    """Serve two partitions of values, 20 keys in each; nothing is published yet."""
    with serving_values(tmp_path, RECORDS, 20) as made:
        yield made


def go_on(spark, served: Served, checkpoint: str) -> None:
    """Run to the end from what a checkpoint has; expect all points as in batch, and its own."""
    application = apps.make("count", {"emit": "every"})
    served.publish()
    with running(spark, application, served, checkpoint, max_records=200) as run:
        run.until(served.ends)
    made, expected = (
        recorded(spark, application, served),
        batch.run(spark, application, served.files),
    )
    assert_df_equality(made, expected, ignore_row_order=True, ignore_nullable=True)
    double = apps.make("double", {})
    with running(spark, double, served, checkpoint) as run:
        text = f"CheckpointError: {checkpoint}: application: expected 'double', got 'count'"
        assert text in run.failure()


def offsets(spark, checkpoint: str) -> int:
    """Return how many batches Spark's own file system finds in the offset log."""
    return spark.read.text(f"{checkpoint}/offsets/*").where("value like '{%0/0%'").count()


@LONG
def test_a_checkpoint_whose_path_is_no_local_one(spark, served, tmp_path, monkeypatch):
    # A mount table: what Hadoop calls viewfs://table/far lies in a folder of another name.
    (tmp_path / "near").mkdir()
    monkeypatch.chdir(tmp_path)
    spark.conf.set("fs.viewfs.mounttable.table.link./far", (tmp_path / "near").as_uri())
    checkpoint = "viewfs://table/far/checkpoint"
    application = apps.make("count", {"emit": "every"})
    served.publish(0.5)
    with running(spark, application, served, checkpoint, max_records=200) as run:
        run.until(served.ends)
    go_on(spark, served, checkpoint)
    assert (tmp_path / "near" / "checkpoint" / "commits" / "0").is_file()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("viewfs", "far"))]


#: A program of its own, to be killed: a driver that knows the checkpoint by its URL alone.
PROGRAM = """
import sys
from tickproof.reference import apps, java, session
from tickproof.reference.compiler import streaming

host, port, token, checkpoint = sys.argv[1:]
java.prepare()
address = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
spark = session.start("local[2]", address)
application = apps.make("count", {"emit": "every"})
log = {"host": host, "port": port, "token": token}
streaming.start(spark, application, log, {0: 2}, checkpoint, max_records=20).awaitTermination()
"""


@LONG
def test_a_checkpoint_on_hdfs_outlives_a_driver_that_was_killed(spark, served, tmp_path):
    (tmp_path / "hdfs").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    with hdfs(tmp_path / "hdfs") as url:
        checkpoint = f"{url}/checkpoint"
        served.publish(0.5)
        command = [sys.executable, tmp_path / "program.py", *served.options.values()]
        driver = subprocess.Popen(
            [*command, checkpoint], cwd=tmp_path, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not all(served.released.values()):  # twenty batches; it is in their midst
                assert driver.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # its JVM and its Pythons with it
            driver.wait(DEADLINE_S)
        before = offsets(spark, checkpoint)
        assert before > 0 and served.released != served.ends, "it was not killed in mid-stream"
        go_on(spark, served, checkpoint)
        assert offsets(spark, checkpoint) > before
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("hdfs:")]
