"""Histories larger than one machine: the same checkers, each on a part, on Spark.

Every promise about values holds within one key, one symbol, one payload or one writer.
So records are cut into blocks by that, shuffled, and each part is judged by the checker
that judges small histories whole. What the parts found is merged by its place in the
history; the driver explains the few earliest findings and holds nothing else.

Input is written there, too, in slices. The kit must stand at the same path on every machine, and
so must folders, but for a run that is named by its URI.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickproof.conformance.errors import SparkNotStarted
from tickproof.conformance.session import judging
from tickproof.conformance.session.pack.reader import naming
from tickproof.conformance.verdicts import Outcome
from tickproof.generators.files import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def recheck(folder: Path, master: str) -> list[Outcome]:
    """Judge a recorded run again, its values on Spark; see judging.recheck.

    ``master``: a Spark master such as local[*]. Raises SparkNotStarted and HistoryError.
    """
    with _session(master) as spark:
        from tickproof.conformance.spark_check import history

        return judging.recheck(folder, history.opener(spark))


@contextmanager
def fetched(uri: str, master: str) -> Iterator[tuple[Path, Callable[[], list[Outcome]]]]:
    """Give a copy of a run without its input, and what judges the run; see recheck.

    ``uri``: of a run folder in a file system of Hadoop, as s3a://BUCKET/RUN. Raises
    SparkNotStarted and HistoryError, which name it.
    """
    with _session(master) as spark, tempfile.TemporaryDirectory(prefix="tickproof-") as temporary:
        from tickproof.conformance.spark_check import history, remote

        run, folder = remote.RemoteRun(spark, uri), Path(temporary).resolve()
        run.copy_all(folder)
        with naming(uri, folder):
            yield folder, lambda: judging.recheck(folder, history.opener(spark, run))


def generate(recipe: dict[str, Any], folder: Path, master: str, progress: Progress) -> list[Path]:
    """Write the partition files of an input recipe on Spark; see input.write.

    ``master``: as for recheck. Raises SparkNotStarted too.
    """
    from tickproof.conformance.spark_check import input

    with _session(master) as spark:
        return input.write(spark, recipe, folder, progress)


@contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    if missing := [name for name in ("pyspark", "pandas") if find_spec(name) is None]:
        raise SparkNotStarted(f"{' and '.join(missing)} not found; pip install 'tickproof[spark]'")
    from tickproof.conformance.spark_check import spark

    with spark.session(master) as started:
        yield started
