"""How the tests are spread over processes: by file, the slow ones first, Spark in one process.

Tests of a file share what its fixtures made. To start Spark takes ten seconds of processor
time, so all tests that share a session of it go to the same process.
"""

from __future__ import annotations

from pathlib import PurePath

from xdist.scheduler import LoadScopeScheduling

#: Files whose tests share the one Spark of their process.
SPARK = (
    "tests/spark_check/test_same_verdicts.py",
    "tests/spark_check/test_blocks.py",
    "tests/spark_check/test_check_spark.py",
    "tests/reference/test_streaming.py",
    "tests/reference/test_checkpoints.py",
)
#: What takes longest begins first, so that no process waits for another one at the end.
SLOW = (
    *SPARK, "tests/service_level", "tests/explore", "tests/selftest", "tests/end_to_end",
    "tests/suites", "tests/spark_check", "tests/reference", "tests/session", "tests/runner",
    "tests/kafka", "tests/bench", "tests/cli", "tests/latency", "tests/test_wheel.py", "tests/docs",
)  # fmt: skip


def rank(nodeid: str) -> int:
    """Return where a test comes: its place in SLOW, or after all of them."""
    path = PurePath(nodeid.partition("::")[0])
    return next((i for i, slow in enumerate(SLOW) if path.is_relative_to(slow)), len(SLOW))


class FileScheduler(LoadScopeScheduling):
    """Gives a process all tests of a file, and one process all tests that share Spark."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if file in SPARK else file
