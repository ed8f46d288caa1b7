"""A real HDFS on loopback: a NameNode and a DataNode in a JVM of their own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tickproof.conformance.kafka import jars
from tickproof.reference import java

JARS = Path(__file__).with_name("hdfs-jars.toml")
DEADLINE_S = 120


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Start it on folders below ``folder``; give its URL, and kill it in the end.

    Raises KafkaUnavailable where the jars cannot be brought.
    """
    brought = jars.bring(jars.load(JARS))
    details, log = folder / "details.json", folder / "hdfs.log"
    command = [
        java.find("HDFS", "spark").home / "bin" / "java",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Dhdfs.minidfs.basedir={folder}",
        f"-Dtest.build.data={folder}",
        "-cp",
        f"{brought}/*",
        "org.apache.hadoop.test.MiniDFSClusterManager",
        "-datanodes",
        "1",
        "-format",
        "-writeDetails",
        details,
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not (details.exists() and details.read_text().endswith("}")):
            assert process.poll() is None, f"HDFS ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"no HDFS: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        port = json.loads(details.read_text())["namenode_port"]
        yield f"hdfs://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(DEADLINE_S)
