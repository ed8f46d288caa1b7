"""One part of a history on an executor: spooled to disk, judged as a small history."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import pyarrow as pa

from tickproof.conformance.checkers.arrays import gather, piece_rows
from tickproof.conformance.checkers.counterexamples import Counterexample, Counterexamples
from tickproof.conformance.history.outputs import ARRIVAL, OutputLog
from tickproof.conformance.spark_check.blocks import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Kinds whose place is one in the input; all others stand at an output.
OF_INPUT: Final = frozenset(("lost", "must-reject"))


@dataclass(frozen=True)
class PartOfLog(OutputLog):
    """Some records of an output log, in arrival order, with the arrival time of each."""

    arrived: np.ndarray

    @property
    def times(self) -> np.ndarray:
        """The arrival time (int64, monotonic nanoseconds) of each record."""
        return self.arrived

    def t_ns(self, index: np.ndarray) -> np.ndarray:
        """Return the arrival time (monotonic nanoseconds) of each position in this part."""
        return self.arrived[index]


class Placed(Counterexamples):
    """Counterexamples in a part of an output log, noted by their place in the whole log."""

    def __init__(self, index: np.ndarray) -> None:
        super().__init__()
        self._index = index

    def note(self, kind: str, at: np.ndarray, **columns: np.ndarray) -> None:
        """Count and keep as Counterexamples does; output positions are those in the part."""
        if not len(at):
            return
        if kind not in OF_INPUT:
            at = self._index[at]
        if "first" in columns:
            columns["first"] = self._index[columns["first"]]
        super().note(kind, at, **columns)


@dataclass
class Judged:
    """Findings of one part: counterexamples by place in the whole history, and sums."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[Counterexample]] = field(default_factory=dict)
    facts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, counterexamples: Counterexamples, **facts: int) -> Judged:
        """Take the counterexamples and facts of a checker."""
        return cls(counterexamples.counts, counterexamples.kept, Counter(facts))


class Part:
    """The blocks of one part, by source, as memory maps over temporary files.

    Checkers read arrays far larger than memory in bounded pieces, so spooling keeps a
    part's memory small even where one key has nearly all records.
    """

    def __init__(self, sources: Sequence[Source], folder: Path) -> None:
        self._sources, self._folder = sources, folder

    def spool(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write blocks, which come sorted by source and start, to files, by place."""
        files: dict[str, BinaryIO] = {}
        try:
            for batch in batches:
                numbers = batch.column("source").to_pylist()
                for name in ("records", "places", "times"):
                    for number, value in zip(numbers, batch.column(name), strict=True):
                        path = self._path(number, name)
                        if path.name not in files:
                            files[path.name] = path.open("ab")
                        files[path.name].write(value.as_buffer())
        finally:
            for file in files.values():
                file.close()
        for number in range(len(self._sources)):
            self._sort(number)

    def _sort(self, number: int) -> None:
        """Put records by place where blocks overlap, as those that were led by order do."""
        places = self.places(number)
        if all((piece[1:] > piece[:-1]).all() for piece in _overlapping(places)):
            return
        order = np.argsort(places)
        for name in ("records", "places", "times"):
            path = self._path(number, name)
            aside = path.with_name(f"{path.name}.sorted")
            width = path.stat().st_size // len(order)
            if not width:
                continue
            array = np.memmap(path, f"V{width}", "r")
            with aside.open("wb") as file:
                rows = piece_rows(width)
                for start in range(0, len(order), rows):
                    file.write(gather(array, order[start : start + rows]).tobytes())
            aside.replace(path)

    def records(self, number: int) -> np.ndarray:
        """Return the records of a source, in the order of the source."""
        return self._array(number, "records", self._sources[number].kept)

    def places(self, number: int) -> np.ndarray:
        """Return the place of each record in its source (int64)."""
        return self._array(number, "places", np.dtype(np.int64))

    def log(self, number: int) -> PartOfLog:
        """Return the records of an output source as an output log."""
        times = self._array(number, "times", np.dtype(np.int64))
        return PartOfLog(self.records(number), np.zeros(0, ARRIVAL), times)

    def _array(self, number: int, name: str, dtype: np.dtype) -> np.ndarray:
        path = self._path(number, name)
        if not path.exists() or not path.stat().st_size:
            return np.zeros(0, dtype)
        return np.memmap(path, dtype, "r")

    def _path(self, number: int, name: str) -> Path:
        return self._folder / f"{name}.{number}"


def _overlapping(array: np.ndarray, rows: int = 1 << 20) -> Iterator[np.ndarray]:
    """Yield pieces of an array, each with the first element of the next."""
    for start in range(0, len(array), rows):
        yield array[start : start + rows + 1]


def judge_parts(
    blocks: DataFrame, sources: Sequence[Source], parts: int, judge: Callable[[Part], Judged]
) -> Iterator[Judged]:
    """Shuffle blocks to their parts, judge each on an executor, yield what they gave.

    An exception of ``judge`` is raised here as it was raised there.
    """

    def run(part: Part) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"judged": pa.array([_outcome(judge, part)])})

    for row in on_parts(blocks, sources, parts, run, "judged binary").collect():
        found = pickle.loads(row[0])
        if isinstance(found, Exception):
            raise found
        yield found


def on_parts(
    blocks: DataFrame,
    sources: Sequence[Source],
    parts: int,
    function: Callable[[Part], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Shuffle blocks to their parts and return what ``function`` makes of each part."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
        with tempfile.TemporaryDirectory(prefix="tickproof-", dir=scratch) as folder:
            part = Part(sources, Path(folder))
            part.spool(batches)
            yield from function(part)

    shuffled = blocks.repartitionById(parts, "part").sortWithinPartitions("source", "start")
    return shuffled.mapInArrow(run, schema)


def _outcome(judge: Callable[[Part], Judged], part: Part) -> bytes:
    try:
        return pickle.dumps(judge(part))
    except Exception as error:
        # Spark would try again and bury the message in its own; the driver raises it.
        return pickle.dumps(error)


def merged(found: Iterable[Judged]) -> tuple[Counterexamples, Counter[str]]:
    """Return the counterexamples and facts of all parts together."""
    counterexamples, facts = Counterexamples(), Counter[str]()
    for judged in found:
        counterexamples.take(Counterexamples(judged.counts, judged.kept))
        facts.update(judged.facts)
    return counterexamples, facts
