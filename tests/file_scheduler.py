"""How the tests are spread over processes: by file, the slow ones first, each Java in one process.

Tests of a file share what its fixtures made. To start Spark or a broker takes ten seconds of
processor time, so the tests that share one go to the same process.
"""

from __future__ import annotations

from functools import cache
from pathlib import PurePath
from typing import Final

from xdist.scheduler import LoadScopeScheduling

#: Files whose tests share the one Spark of their process, by the name of what they share.
SPARK: Final = {
    "tests/spark_check/test_same_verdicts.py": "spark",
    "tests/spark_check/test_blocks.py": "spark",
    "tests/spark_check/test_check_spark.py": "spark",
    "tests/spark_check/test_input.py": "spark",
    "tests/reference/test_streaming.py": "spark",
    "tests/reference/test_checkpoints.py": "spark",
    "tests/reference/test_examples.py": "spark",
    "tests/reference/test_rows.py": "spark",
    "tests/reference/test_file_systems.py": "spark",
    "tests/reference/test_internals.py": "spark",
}
#: Folders whose tests share the brokers of their process.
KAFKA: Final = ("tests/kafka", "tests/jobs")
#: What takes longest begins first, so that no process waits for another one at the end.
SLOW: Final = (
    *SPARK, *KAFKA, "tests/service_level", "tests/explore", "tests/selftest", "tests/end_to_end",
    "tests/suites", "tests/spark_check", "tests/reference", "tests/session", "tests/runner",
    "tests/bench", "tests/cli", "tests/latency", "tests/test_wheel.py", "tests/docs",
)  # fmt: skip


def rank(nodeid: str) -> int:
    """Return where a test comes: its place in SLOW, or after all of them."""
    return _rank_of_file(nodeid.partition("::")[0])


@cache
def _rank_of_file(file: str) -> int:
    path = PurePath(file)
    return next((i for i, slow in enumerate(SLOW) if path.is_relative_to(slow)), len(SLOW))


class FileScheduler(LoadScopeScheduling):
    """Gives a process all tests of a file, and of all files that share a Spark or brokers."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "kafka" if file.startswith(KAFKA) else SPARK.get(file, file)
