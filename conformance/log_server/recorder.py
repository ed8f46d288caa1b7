"""The output recorder: every accepted record as it came, never repaired, never sorted.

Records of the expected size go to ``s<stream>.log`` (an array of framed records),
their arrivals to ``s<stream>.arrivals``; records of any other size go to ``s<stream>.odd``
with an event. Staged records wait for their commit behind the last record of the log, so that
COMMIT has nothing to copy. They move to ``staged.bin`` if anything else is recorded first.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.history.digests import BLOCK, BlockDigest
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.history.tables import Table
from tickproof.conformance.log_server.frames import UNNUMBERED, Append, Code, CommitOutcome

#: Writers of a stream, and writers with records in open transactions: far above what any engine
#: has, and not for an engine to exhaust the kit's memory with.
MOST_WRITERS: Final = 1 << 16
MOST_STAGED: Final = 1 << 16


class Refused(TickproofError):
    """A request that gets an error reply; nothing was recorded."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class _Writer:
    next_seq: int = 0
    numbered: bool | None = None
    owner: int | None = None


@dataclass
class _Staged:
    """Staged records, but for their bytes, which lie in the log or in ``staged.bin``."""

    append: Append
    length: int
    position: int
    in_log: bool


@dataclass
class _Stream:
    record_size: int
    fd: int
    arrivals: Table
    odd_path: Path
    digest: BlockDigest = field(default_factory=BlockDigest)
    odd_digest: Any = field(default_factory=hashlib.sha256)
    position: int = 0
    odd_bytes: int = 0
    records: int = 0
    writers: dict[int, _Writer] = field(default_factory=dict)
    #: The transaction whose records wait behind ``position``, and where they end.
    waiting: int | None = None
    waiting_end: int = 0
    #: Where the log ended when its digest was marked.
    marked: int = 0

    def sha256(self) -> dict[str, str]:
        """Return the digest of each file, by its name."""
        name = self.odd_path.stem
        return {
            f"{name}.log": self.digest.hexdigest(),
            f"{name}.arrivals": self.arrivals.sha256,
            f"{name}.odd": self.odd_digest.hexdigest(),
        }


class Recorder:
    """Keeps the output streams of one run.

    ``streams`` maps a stream number to the payload size that its app prescribes.
    ``stage_in_log``: staged records may lie in the log, for nobody reads it before it is closed.
    Thread-safe: one lock orders all output, which is the arrival order.
    """

    def __init__(
        self,
        folder: Path,
        streams: dict[int, int],
        on_event: Callable[..., None],
        stage_in_log: bool = True,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._stage_in_log = stage_in_log
        self._event = on_event
        self._lock = threading.Lock()
        self._streams = {
            stream: _Stream(
                size,
                _create(folder / f"s{stream}.log"),
                Table(folder / f"s{stream}.arrivals", ARRIVAL),
                folder / f"s{stream}.odd",
            )
            for stream, size in streams.items()
        }
        self._staging = _create(folder / "staged.bin")
        self._staged: dict[int, dict[tuple[int, int], _Staged]] = {}
        self._staged_end = self._staged_count = 0
        self._committed: set[int] = set()
        self._sha256: dict[str, str] = {}
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None

    @property
    def records(self) -> int:
        """Records recorded so far on all streams."""
        return sum(stream.records for stream in self._streams.values())

    @property
    def bytes(self) -> int:
        """Bytes on disk: recorded, of other sizes, and staged."""
        recorded = sum(
            (stream.position if stream.waiting is None else stream.waiting_end) + stream.odd_bytes
            for stream in self._streams.values()
        )
        return recorded + self._staged_end

    @property
    def taken(self) -> int:
        """Records accepted so far: recorded, or staged and not settled."""
        with self._lock:
            staged = sum(s.append.count for txn in self._staged.values() for s in txn.values())
            return self.records + staged

    @property
    def staged_open(self) -> int:
        """Transactions that hold records and are neither committed nor aborted."""
        with self._lock:
            return sum(any(s.append.count for s in txn.values()) for txn in self._staged.values())

    def staged(self, txn: int) -> int:
        """Return how many records are staged under ``txn`` now."""
        with self._lock:
            return sum(staged.append.count for staged in self._staged.get(txn, {}).values())

    def have(self, stream: int, writer: int, connection: int) -> int:
        """Make ``connection`` the writer's owner; return the next number."""
        with self._lock:
            state = self._writer(stream, writer)
            fenced, state.owner = state.owner, connection
            next_seq = state.next_seq
        self._event(
            EventKind.HAVE,
            stream=stream,
            writer=writer,
            next_seq=next_seq,
            connection=connection,
            fenced=fenced,
        )
        return next_seq

    def append(self, append: Append, connection: int) -> int:
        """Record the frame's records; return the writer's next number."""
        with self._lock:
            state = self._admit(append, connection)
            self._check_numbers(state, append.first_seq, append.writer)
            self._settle_style(state, append)
            self._write(append, connection)
            self._advance(state, append.first_seq, append.count)
            return state.next_seq

    def stage(self, txn: int, append: Append, connection: int) -> None:
        """Keep records until ``txn`` is committed; replaces an earlier STAGE of the writer."""
        with self._lock:
            if txn in self._committed:
                return
            state = self._admit(append, connection)
            self._settle_style(state, append)
            place = append.stream, append.writer
            if place not in self._staged.get(txn, {}):
                if self._staged_count >= MOST_STAGED:
                    raise Refused(Code.NOT_ALLOWED, f"more than {MOST_STAGED:,} open STAGE")
                self._staged_count += 1
            held = self._staged.setdefault(txn, {})
            held[place] = self._keep(txn, append)

    def commit(self, txn: int, connection: int) -> CommitOutcome:
        """Record all that was staged under ``txn``, or nothing (Refused)."""
        with self._lock:
            if txn in self._committed:
                return CommitOutcome.ALREADY
            self._expect_recording()
            held = self._staged.get(txn)
            if held is None:
                return CommitOutcome.UNKNOWN
            for staged in held.values():
                append = staged.append
                writer = self._writer(append.stream, append.writer)
                self._check_numbers(writer, append.first_seq, append.writer)
            for number, stream in self._streams.items():
                if stream.waiting == txn:
                    self._adopt(number, stream, held.values())
            for staged in held.values():
                append = staged.append
                if staged.in_log:
                    try:
                        self._arrived(append, staged.length, time.monotonic_ns(), connection, txn)
                    except OSError:
                        self._cut(self._stream(append.stream))
                        raise
                else:
                    region = os.pread(self._staging, staged.length, staged.position)
                    self._write(append._replace(region=memoryview(region)), connection, txn)
                writer = self._writer(append.stream, append.writer)
                self._advance(writer, append.first_seq, append.count)
            self._committed.add(txn)
            self._drop(txn)
            return CommitOutcome.COMMITTED

    def abort(self, txn: int) -> None:
        """Drop what was staged under ``txn``; nothing happens if there is none."""
        with self._lock:
            self._drop(txn)

    def sha256(self) -> dict[str, str]:
        """Return the digests of the files, by name, once they are closed."""
        return self._sha256

    def close(self) -> None:
        """Close all files; what is recorded stays."""
        with self._lock:
            for stream in self._streams.values():
                if stream.waiting is not None:
                    self._cut(stream)
                os.close(stream.fd)
                stream.arrivals.close()
                stream.digest.close()
                self._sha256 |= stream.sha256()
            os.close(self._staging)
            self._streams.clear()

    def _keep(self, txn: int, append: Append) -> _Staged:
        """Write staged records where they wait."""
        stream, length = self._stream(append.stream), len(append.region)
        told = append._replace(region=memoryview(b""))
        fits = append.count > 0 and append.record_size == stream.record_size
        if self._stage_in_log and fits and stream.waiting in (None, txn):
            if stream.waiting is None:
                stream.waiting = txn
                stream.waiting_end = stream.marked = stream.position
                stream.digest.mark()
            staged = _Staged(told, length, stream.waiting_end, in_log=True)
            try:
                self._guard(_write_all, stream.fd, append.region, staged.position)
            except OSError:
                os.ftruncate(stream.fd, staged.position)
                raise
            stream.digest.update(append.region)
            stream.waiting_end += length
        else:
            staged = _Staged(told, length, self._staged_end, in_log=False)
            self._guard(_write_all, self._staging, append.region, staged.position)
            self._staged_end += length
        return staged

    def _adopt(self, number: int, stream: _Stream, held: Iterable[_Staged]) -> None:
        """Have what waits in the log follow its records at once; move it if there are gaps."""
        end = stream.position
        for staged in held:
            if staged.append.stream == number and staged.append.count:
                follows = staged.in_log and staged.position == end
                end = end + staged.length if follows else -1
        if end == stream.waiting_end:
            stream.waiting = None
        else:
            self._make_way(number)

    def _make_way(self, number: int) -> None:
        """Move what waits in the log to ``staged.bin``: something else comes before it."""
        stream = self._stream(number)
        if stream.waiting is None:
            return
        for staged in self._staged[stream.waiting].values():
            if staged.in_log and staged.append.stream == number:
                region = os.pread(stream.fd, staged.length, staged.position)
                self._guard(_write_all, self._staging, memoryview(region), self._staged_end)
                staged.position, staged.in_log = self._staged_end, False
                self._staged_end += staged.length
        self._cut(stream)

    @staticmethod
    def _cut(stream: _Stream) -> None:
        """Remove from the log what waits there, or what could not be recorded."""
        os.ftruncate(stream.fd, stream.position)
        stream.digest.go_back()
        at, stream.waiting = stream.marked, None
        while region := os.pread(stream.fd, BLOCK, at):  # recorded before the disk was full
            stream.digest.update(region)
            at += len(region)

    def _drop(self, txn: int) -> None:
        for stream in self._streams.values():
            if stream.waiting == txn:
                self._cut(stream)
        self._staged_count -= len(self._staged.pop(txn, ()))
        if not self._staged and self._staged_end:
            os.ftruncate(self._staging, 0)
            self._staged_end = 0

    def _stream(self, stream: int) -> _Stream:
        try:
            return self._streams[stream]
        except KeyError:
            raise Refused(Code.UNKNOWN_STREAM, f"there is no output stream {stream}") from None

    def _writer(self, stream: int, writer: int) -> _Writer:
        writers = self._stream(stream).writers
        if writer not in writers and len(writers) >= MOST_WRITERS:
            raise Refused(Code.NOT_ALLOWED, f"more than {MOST_WRITERS:,} writers of one stream")
        return writers.setdefault(writer, _Writer())

    def _admit(self, append: Append, connection: int) -> _Writer:
        self._expect_recording()
        state = self._writer(append.stream, append.writer)
        if state.owner not in (None, connection):
            raise Refused(
                Code.FENCED, f"writer {append.writer} belongs to a connection that asked HAVE later"
            )
        numbered = append.first_seq != UNNUMBERED
        if append.count and state.numbered not in (None, numbered):
            raise Refused(
                Code.NOT_ALLOWED, f"writer {append.writer} mixes numbered and unnumbered records"
            )
        return state

    def _expect_recording(self) -> None:
        if self.failure is not None:
            raise Refused(Code.NOT_ALLOWED, "the recording has stopped")

    @staticmethod
    def _settle_style(state: _Writer, append: Append) -> None:
        # Only an accepted frame settles it: a refused one leaves no trace.
        if append.count:
            state.numbered = append.first_seq != UNNUMBERED

    @staticmethod
    def _check_numbers(state: _Writer, first_seq: int, writer: int) -> None:
        if first_seq != UNNUMBERED and first_seq > state.next_seq:
            raise Refused(
                Code.SEQUENCE_GAP,
                f"writer {writer}: first_seq {first_seq}, but {state.next_seq} is next",
            )

    @staticmethod
    def _advance(state: _Writer, first_seq: int, count: int) -> None:
        if first_seq != UNNUMBERED:
            state.next_seq = max(state.next_seq, first_seq + count)

    def _write(self, append: Append, connection: int, txn: int | None = None) -> None:
        """Record records whose bytes are not in the log yet."""
        if not append.count:
            return
        stream = self._stream(append.stream)
        if append.record_size != stream.record_size:
            self._write_odd(stream, append)
            return
        t_ns = time.monotonic_ns()
        self._make_way(append.stream)
        try:
            self._guard(_write_all, stream.fd, append.region, stream.position)
            self._arrived(append, len(append.region), t_ns, connection, txn)
        except OSError:
            os.ftruncate(stream.fd, stream.position)
            raise
        stream.digest.update(append.region)

    def _arrived(
        self, append: Append, length: int, t_ns: int, connection: int, txn: int | None
    ) -> None:
        """Record that the next bytes of the log have arrived; ``t_ns``: when."""
        stream = self._stream(append.stream)
        self._guard(
            stream.arrivals.add,
            t_ns,
            append.writer,
            append.first_seq,
            stream.position // (append.record_size + 4),
            append.count,
            connection,
            txn or 0,
            txn is not None,
        )
        stream.position += length
        stream.records += append.count

    def _write_odd(self, stream: _Stream, append: Append) -> None:
        t_ns = time.monotonic_ns()
        self._guard(_append, stream.odd_path, append.region)
        stream.odd_digest.update(append.region)
        stream.odd_bytes += len(append.region)
        self._event(
            EventKind.ODD_OUTPUT,
            t_ns,
            stream=append.stream,
            writer=append.writer,
            first_seq=append.first_seq,
            count=append.count,
            record_size=append.record_size,
            expected=stream.record_size,
        )
        stream.records += append.count

    def _guard(self, write: Callable[..., Any], *arguments: Any) -> None:
        """Call a write; note the first failure, so that the run ends with its reason."""
        try:
            write(*arguments)
        except OSError as error:
            self.failure = self.failure or error
            raise


def _create(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)


def _append(path: Path, data: memoryview) -> None:
    """Append to a file; what cannot be written whole leaves no part behind."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        end = os.fstat(fd).st_size
        try:
            _write_all(fd, data, end)
        except OSError:
            os.ftruncate(fd, end)
            raise
    finally:
        os.close(fd)


def _write_all(fd: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(fd, data, position)
        data, position = data[written:], position + written
