"""Partition files of a recipe, written by the tasks of Spark: the bytes that ``build`` writes.

A task writes a slice of the merged order (generators/slices.py) into files that are there. Tasks
that Spark runs again, or twice at a time, write the same bytes at the same places. Folder and
kit must stand at the same path on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tickproof.generators import slices
from tickproof.generators.files import Progress, ranges, replacing_all
from tickproof.generators.partitions import Division
from tickproof.generators.placement import Placement
from tickproof.generators.recipes import source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item, Result = TypeVar("Item"), TypeVar("Result")
#: Bytes of records that one task writes.
SLICE_BYTES: Final = 32 << 20
#: After so many tasks for each core it is said how far writing is.
_TASKS_A_CORE: Final = 16


def write(
    spark: SparkSession, recipe: dict[str, Any], folder: Path, progress: Progress | None = None
) -> list[Path]:
    """Write the partitions of a recipe into a folder, and return their paths; see recipes.build.

    ``progress(records)`` is called now and then. Raises ValueError for a wrong recipe, CsvError,
    and OSError, that of a task too.
    """
    source, full = source_of(recipe)
    division = Division(source, Placement.of(full))
    text = json.dumps(full)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    paths = division.paths(folder)
    stretches = slices.bounds(division, SLICE_BYTES)
    if len(paths) == 1:  # nothing to make: where each slice belongs is plain
        counts = [slices.count(division, *stretch) for stretch in stretches]
    else:
        counts = _mapped(spark, partial(_count, text), stretches)
    parts = slices.located(stretches, counts)
    wave = spark.sparkContext.defaultParallelism * _TASKS_A_CORE
    with replacing_all(paths) as made:
        for first, end in ranges(len(parts), wave):
            try:
                _mapped(spark, partial(_write, text, made), parts[first:end])
            except FileNotFoundError as error:
                why = "expected a folder that every machine of the cluster sees"
                raise FileNotFoundError(error.errno, why, error.filename) from error
            if progress is not None:
                progress(parts[end - 1].stop)
    return paths


def digests(spark: SparkSession, paths: Sequence[Path]) -> list[str]:
    """Return the sha256 of each file, one task a file; raises OSError."""
    return _mapped(spark, _digest, paths)


def _mapped(
    spark: SparkSession, function: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result]:
    """Return ``function(item)`` of each, one task an item; raises the first OSError of a task."""
    if not items:
        return []
    tasks = spark.sparkContext.parallelize(items, len(items))
    results = tasks.mapPartitions(partial(_guarded, function)).collect()
    for result in results:
        if isinstance(result, OSError):
            raise result
    return results


def _guarded(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result | OSError]:
    """Give an OSError back: a full disk or a folder that is not there is nothing to try again."""
    try:
        return [function(item) for item in items]
    except OSError as error:
        return [error]


@lru_cache(maxsize=1)
def _division(recipe: str) -> Division:
    """Return what a recipe makes, once in each process: a recorded market is read for it."""
    source, full = source_of(json.loads(recipe))
    return Division(source, Placement.of(full))


def _count(recipe: str, stretch: tuple[int, int]) -> Any:
    return slices.count(_division(recipe), *stretch)


def _write(recipe: str, paths: Sequence[Path], part: slices.Slice) -> None:
    slices.write(_division(recipe), part, paths)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
