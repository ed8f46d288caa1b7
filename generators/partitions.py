"""One ordered stream of records split over streams and partitions, with its plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.generators.files import Progress, ranges, replacing
from tickproof.generators.layouts import ORDER, ORDER_KIND, framed
from tickproof.generators.numbers import chunk_records
from tickproof.generators.partitioner import AsTexts, decimals, symbols
from tickproof.generators.placement import Placement

#: The plan never has more ticks than this: ticks grow instead.
MAX_TICKS: Final = 1 << 20


@dataclass(frozen=True)
class PartitionFile:
    """One written partition; record_size counts the payload bytes of one record."""

    stream: int
    partition: int
    path: Path
    record_size: int
    records: int
    sha256: str


@dataclass(frozen=True)
class BuiltInput:
    """The input of a run.

    plan: uint64, shape (ticks + 1, len(partitions)); after tick k of the merged order
    partition i holds plan[k][i] records; partitions that end early are ahead of it. Row 0 is
    all zero, the last row is everything.
    warnings: how often each oddity of a CSV file was met. symbols: alias -> original,
    for symbols that do not fit into 8 ASCII bytes.
    """

    partitions: tuple[PartitionFile, ...]
    plan: np.ndarray
    recipe: dict[str, Any]
    warnings: dict[str, int]
    symbols: dict[str, str]

    @property
    def ended_early(self) -> frozenset[tuple[int, int]]:
        """Streams and partitions whose END comes with their last record, not with that of all."""
        some, stream = self.recipe.get("ended_early", ()), self.recipe.get("ended_stream")
        return frozenset(
            (one.stream, one.partition)
            for one in self.partitions
            if one.partition in some or one.stream == stream
        )

    @property
    def records(self) -> int:
        """The number of records in all partitions together."""
        return sum(part.records for part in self.partitions)


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of the merged order.

    records: framed records. keys: uint64 that decides the partition of each (None: in
    turn). streams: the stream of each (None: all in stream 0). as_texts: what keys are as bytes.
    """

    records: np.ndarray
    keys: np.ndarray | None = None
    streams: np.ndarray | None = None
    as_texts: AsTexts = decimals

    @classmethod
    def of_market(cls, records: np.ndarray, two: bool) -> Chunk:
        """Return a chunk of quotes and orders, partitioned by symbol."""
        payload = records.view(framed(ORDER))["payload"]
        keys = np.ascontiguousarray(payload["symbol"]).view("<u8").astype(np.uint64)
        return cls(records, keys, (payload["kind"] == ORDER_KIND) if two else None, symbols)


@dataclass(frozen=True)
class Source:
    """Everything that ``split`` needs to know of an input.

    dtypes: the framed dtype of each stream, all of one size. chunk: returns records
    [start, stop) of the merged order, at most ``step`` of them, valid until it is called again;
    the bytes of a record do not depend on where it is cut. times: event times of all records,
    ascending, where records of one time must be published together.
    """

    records: int
    dtypes: tuple[np.dtype, ...]
    chunk: Callable[[int, int], Chunk]
    times: np.ndarray | None = None
    warnings: dict[str, int] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)

    @property
    def record_bytes(self) -> int:
        """The size of one framed record."""
        return self.dtypes[0].itemsize

    @property
    def step(self) -> int:
        """Records of a chunk."""
        return chunk_records(self.record_bytes)


@dataclass(frozen=True)
class Placed:
    """Records [start, start + len(target)) of the merged order, and where they belong.

    target: for each record, the position of its (stream, partition). counts: how many each
    target gets. groups: (target, its framed records in order) for those that get any.
    """

    start: int
    target: np.ndarray
    counts: np.ndarray
    groups: list[tuple[int, np.ndarray]]


@dataclass(frozen=True)
class Division:
    """A source, and how its records fall into the streams and partitions of a run."""

    source: Source
    placement: Placement

    @property
    def targets(self) -> list[tuple[int, int]]:
        """Every (stream, partition), in the order of their positions."""
        streams, partitions = len(self.source.dtypes), self.placement.partitions
        return [(s, p) for s in range(streams) for p in range(partitions)]

    def paths(self, folder: Path) -> list[Path]:
        """Return the file of each target."""
        return [folder / f"s{s}p{p}.log" for s, p in self.targets]

    def placed(self, start: int, stop: int) -> Iterator[Placed]:
        """Yield records [start, stop) of the merged order, a chunk at a time."""
        targets = len(self.targets)
        for first, end in ranges(stop, self.source.step, start):
            chunk = self.source.chunk(first, end)
            target = self._targets(chunk, first)
            counts = np.bincount(target, minlength=targets)
            yield Placed(first, target, counts, _grouped(chunk.records, target, counts))

    def _targets(self, chunk: Chunk, first: int) -> np.ndarray:
        if chunk.keys is None:
            target = self.placement.in_turn(first, first + len(chunk.records))
        else:
            target = self.placement.of_keys(chunk.keys, chunk.as_texts)
        if chunk.streams is not None:
            target = target + chunk.streams.astype(np.int64) * self.placement.partitions
        return target


def _grouped(
    records: np.ndarray, target: np.ndarray, counts: np.ndarray
) -> list[tuple[int, np.ndarray]]:
    """Return the records of each target that has any, in order."""
    if len(counts) == 1:
        return [(0, records)]
    order = np.argsort(target.astype(np.uint16), kind="stable")  # u16 sorts by radix
    # As opaque bytes: fields would be copied one by one.
    records = records.view(f"V{records.itemsize}")[order]
    ends = np.cumsum(counts)
    filled = np.flatnonzero(counts).tolist()
    return [(i, records[ends[i] - counts[i] : ends[i]]) for i in filled]


def tick_ends(records: int, tick: int, times: np.ndarray | None = None) -> np.ndarray:
    """Return how many records of the merged order are out after each tick (uint64).

    A tick that would end between records of one time goes on to the last of them.
    """
    tick = max(tick, -(-records // MAX_TICKS))
    ends = np.minimum(np.arange(tick, records + tick, tick, dtype=np.int64), records)
    if times is not None and records:
        ends = np.unique(np.searchsorted(times, times[ends - 1], side="right"))
    return ends


def split(
    source: Source, recipe: dict[str, Any], folder: Path, progress: Progress | None = None
) -> BuiltInput:
    """Write every partition of a source into ``folder`` and return what was made."""
    placement = Placement.of(recipe)
    division = Division(source, placement)
    targets, paths = division.targets, division.paths(folder)
    ends = tick_ends(source.records, recipe["tick"], source.times)
    counts = np.zeros((len(ends) + 1, len(targets)), np.int64)
    digests = [hashlib.sha256() for _ in targets]
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in paths]
        for piece in division.placed(0, source.records):
            done = piece.start + len(piece.target)
            tick = np.searchsorted(ends, np.arange(piece.start, done), side="right") + 1
            _count(counts, tick, piece.target)
            for i, records in piece.groups:
                files[i].write(records.view(np.uint8).data)
                digests[i].update(records.view(np.uint8).data)
            if progress is not None:
                progress(done)
    plan = placement.timed(np.cumsum(counts, axis=0).astype(np.uint64))
    built = tuple(
        PartitionFile(s, p, path, source.dtypes[s].itemsize - 4, int(total), digest.hexdigest())
        for (s, p), path, total, digest in zip(targets, paths, plan[-1], digests, strict=True)
    )
    return BuiltInput(built, plan, recipe, source.warnings, source.symbols)


def _count(counts: np.ndarray, tick: np.ndarray, target: np.ndarray) -> None:
    """Add one to counts[tick, target] for each record; ticks ascend."""
    if len(tick):
        first, last = tick[0], tick[-1] + 1
        width = counts.shape[1]
        cells = np.bincount((tick - first) * width + target, minlength=(last - first) * width)
        counts[first:last] += cells.reshape(-1, width)
