"""The input log: partitions of framed records in files, published step by step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from tickproof.conformance.history.event import EventKind, PartitionState
from tickproof.conformance.history.rows import FETCH, PUBLISH, RELEASE
from tickproof.conformance.history.tables import Table
from tickproof.conformance.log_server.frames import Code, Fetch, Release, Tail
from tickproof.conformance.log_server.recorder import Refused

MAX_WAIT_MS = 60_000


class PartitionSource(Protocol):
    """The file of a partition; generators.partitions.PartitionFile is one."""

    @property
    def stream(self) -> int: ...  # noqa: D102
    @property
    def partition(self) -> int: ...  # noqa: D102
    @property
    def path(self) -> Path: ...  # noqa: D102
    @property
    def record_size(self) -> int: ...  # noqa: D102
    @property
    def records(self) -> int: ...  # noqa: D102


class Slice(NamedTuple):
    """A reply to FETCH: where its bytes lie in a file."""

    end: int
    ended: bool
    count: int  # type: ignore[assignment]  # nobody asks a slice for tuple.count
    fd: int
    position: int
    length: int


@dataclass
class _Partition:
    stream: int
    partition: int
    fd: int
    stride: int
    records: int
    #: Whether END comes with its last record, rather than with that of all partitions.
    ends_early: bool
    published: int = 0
    ended: bool = False
    fetched: int = 0
    released: int = 0
    #: RELEASEs that moved it.
    cuts: int = 0
    #: Where a source that has fallen silent seems to end; None: it speaks.
    silent_at: int | None = None

    @property
    def end(self) -> int:
        """The end offset that the engine is told."""
        return self.published if self.silent_at is None else self.silent_at

    @property
    def over(self) -> bool:
        """True if the engine is told END."""
        return self.ended and self.silent_at is None

    @property
    def hides(self) -> bool:
        """True if there is more than the engine is told."""
        return self.published > self.end or self.ended > self.over


class InputLog:
    """All input partitions of a run.

    One thread reads and releases; one thread, which may be another, publishes.
    Every publication, fetch and release is a row of a table in ``folder``. Of ``ended_early``,
    streams and partitions, each ends when all of its records are out.
    """

    def __init__(
        self,
        sources: Iterable[PartitionSource],
        folder: Path,
        on_event: Callable[..., None],
        ended_early: Collection[tuple[int, int]] = (),
    ) -> None:
        self._event = on_event
        self._partitions = [
            _Partition(
                s.stream,
                s.partition,
                os.open(s.path, os.O_RDONLY),
                s.record_size + 4,
                s.records,
                (s.stream, s.partition) in ended_early,
            )
            for s in sources
        ]
        self._by_address = {(p.stream, p.partition): p for p in self._partitions}
        self._interrupted = False
        #: Called when those that wait may find more.
        self.changed: Callable[[], None] = lambda: None
        self._publishes = Table(folder / "publishes.bin", PUBLISH)
        self._fetches = Table(folder / "fetches.bin", FETCH)
        self._releases = Table(folder / "releases.bin", RELEASE)
        self.total = sum(p.records for p in self._partitions)
        self.bytes = sum(p.records * p.stride for p in self._partitions)
        #: Called for each FETCH and TAIL that is told of less than there is.
        self._on_withheld: Callable[[], None] | None = None
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None

    @property
    def fetched(self) -> int:
        """Distinct records sent to the engine so far."""
        return sum(p.fetched for p in self._partitions)

    @property
    def published(self) -> int:
        """Records published so far."""
        return sum(p.published for p in self._partitions)

    @property
    def released(self) -> int:
        """Records that the engine has released so far."""
        return sum(p.released for p in self._partitions)

    def cuts(self) -> list[int]:
        """Return how many RELEASEs have moved each partition: one for each cut that covers more."""
        return [p.cuts for p in self._partitions]

    @property
    def ended(self) -> bool:
        """Say whether END is announced everywhere."""
        return all(p.ended for p in self._partitions)

    def states(self) -> list[PartitionState]:
        """Return how far each partition has come."""
        return [
            PartitionState(p.stream, p.partition, p.records, p.published, p.fetched, p.released)
            for p in self._partitions
        ]

    def publish(self, ends: Iterable[int]) -> None:
        """Publish each partition (in the order of construction) up to its end."""
        t_ns = time.monotonic_ns()
        moved = [
            (partition, int(end))
            for partition, end in zip(self._partitions, ends, strict=True)
            if end > partition.published
        ]
        self._note(self._publishes, t_ns, *moved)
        for partition, end in moved:
            partition.published = end
        for partition in self._partitions:
            if partition.ends_early and partition.published == partition.records:
                partition.ends_early, partition.ended = False, True
                self._event(
                    EventKind.PARTITION_ENDED,
                    stream=partition.stream,
                    partition=partition.partition,
                    records=partition.records,
                )
        self.changed()

    def end(self) -> None:
        """Announce END: no record will be published any more."""
        for partition in self._partitions:
            partition.ended = True
        self.changed()
        self._event(EventKind.END_PUBLISHED, records=self.published)

    def withhold_records(self, on_withheld: Callable[[], None] | None) -> None:
        """Answer as if nothing new were published, END neither; None: tell all again.

        ``on_withheld`` is called for each answer to which that makes a difference.
        """
        self._on_withheld = on_withheld
        for partition in self._partitions:
            if on_withheld is None:
                partition.silent_at = None
            elif not partition.ended:
                partition.silent_at = partition.end
        self.changed()

    def withholds(self, request: Fetch) -> bool:
        """Note, and say, whether more was published than this FETCH at the end is told of."""
        if self._on_withheld is None:
            return False
        partition = self._find(request.stream, request.partition)
        if partition.end != request.offset or not partition.hides:
            return False
        self._on_withheld()
        return True

    def fetch(self, request: Fetch, max_bytes: int) -> Slice:
        """Return the records from an offset on, as many as there are; see `waits`."""
        partition = self._find(request.stream, request.partition)
        self._check(partition, request.offset)
        available = partition.end - request.offset
        wanted = max(1, min(request.max_bytes, max_bytes) // partition.stride)
        # Nobody is there any more to get what a dead engine asked for.
        count = 0 if self._interrupted else min(available, wanted)
        if count:
            end = request.offset + count
            partition.fetched = max(partition.fetched, end)
            self._note(self._fetches, time.monotonic_ns(), (partition, request.offset, end))
        return Slice(
            partition.end,
            partition.over,
            count,
            partition.fd,
            request.offset * partition.stride,
            count * partition.stride,
        )

    def fetched_elsewhere(self, stream: int, partition: int, first: int, end: int) -> int:
        """Note that the engine was sent records ``first`` to ``end`` by somebody else.

        Returns how many of them it had been sent before.
        """
        found = self._find(stream, partition)
        again = max(0, min(end, found.fetched) - first)
        found.fetched = max(found.fetched, end)
        self._note(self._fetches, time.monotonic_ns(), (found, first, end))
        return again

    def interrupt(self, on: bool) -> None:
        """End (or allow again) all waiting and all reading: the engine is dead."""
        self._interrupted = on
        self.changed()

    def waits(self, request: Fetch) -> bool:
        """Say whether this FETCH waits for more, as long as it has time."""
        partition = self._by_address.get((request.stream, request.partition))
        return (
            partition is not None
            and request.wait_ms > 0
            and not self._interrupted
            and request.offset == partition.end
            and not partition.over
        )

    def tail(self, request: Tail) -> tuple[int, int, bool]:
        """Return (first offset that can be fetched, end offset, END)."""
        partition = self._find(request.stream, request.partition)
        if partition.hides and self._on_withheld:
            self._on_withheld()
        return partition.released, partition.end, partition.over

    def release(self, request: Release) -> None:
        """Throw records below an offset away; lower than before does nothing."""
        partition = self._find(request.stream, request.partition)
        if request.offset > partition.end:
            raise Refused(
                Code.BEYOND_END,
                f"RELEASE to {request.offset}, but the end offset is {partition.end}",
            )
        if request.offset > partition.released:
            partition.released = request.offset
            partition.cuts += 1
            self._note(self._releases, time.monotonic_ns(), (partition, request.offset))

    def _note(self, table: Table, t_ns: int, *rows: tuple[_Partition, *tuple[int, ...]]) -> None:
        """Add rows; note the first failure, so that the run ends with its reason."""
        try:
            table.add_all((t_ns, p.stream, p.partition, *offsets) for p, *offsets in rows)
        except OSError as error:
            self.failure = self.failure or error
            raise

    def sha256(self) -> dict[str, str]:
        """Return the digests of the tables, by the names of their files."""
        return {
            "publishes.bin": self._publishes.sha256,
            "fetches.bin": self._fetches.sha256,
            "releases.bin": self._releases.sha256,
        }

    def close(self) -> None:
        """Close all files; only when no connection is served any more."""
        for partition in self._partitions:
            os.close(partition.fd)
        for table in (self._publishes, self._fetches, self._releases):
            table.close()

    def _find(self, stream: int, partition: int) -> _Partition:
        try:
            return self._by_address[stream, partition]
        except KeyError:
            raise Refused(
                Code.UNKNOWN_STREAM, f"there is no input stream {stream}, partition {partition}"
            ) from None

    @staticmethod
    def _check(partition: _Partition, offset: int) -> None:
        if offset < partition.released:
            raise Refused(
                Code.RELEASED, f"offset {offset} was released (up to {partition.released})"
            )
        if offset > partition.end:
            raise Refused(Code.BEYOND_END, f"offset {offset} is beyond the end ({partition.end})")
