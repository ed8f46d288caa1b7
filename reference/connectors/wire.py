"""The log protocol as a client: frames out, frames in, on one connection.

Byte layouts: section 4 of docs/protocol.md. All numbers are little-endian.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

MAX_FRAME = 16 << 20
#: What one FETCH asks for: large enough to amortise a round trip, small enough to stay in cache.
FETCH_BYTES = 4 << 20
#: Payload bytes that fit in one STAGE, its header left out.
STAGE_BYTES = MAX_FRAME - 64
UNNUMBERED = 2**64 - 1

_FETCH_HEAD = struct.Struct("<HHQQBI")


class LogError(RuntimeError):
    """The log refused a request, or what it sent cannot be used; says which and where."""


class Tail(NamedTuple):
    """What one partition holds: offsets, and whether ``end`` is final."""

    start: int
    end: int
    ended: bool


class Chunk(NamedTuple):
    """Consecutive records of one partition, each ``u32 size | payload``, all of one size."""

    base: int
    count: int
    records: bytes


class Log:
    """One connection to the log, owned by one thread."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._socket = socket.create_connection((host, port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask("HELLO", 0x01, struct.pack("<H", 1) + bytes.fromhex(token))

    # -- requests ----------------------------------------------------------------

    def tail(self, stream: int, partition: int) -> Tail:
        """Return the offsets that a partition holds now."""
        body = self._ask(
            f"TAIL of {stream}/{partition}", 0x03, struct.pack("<HH", stream, partition)
        )
        _, _, start, end, flags = struct.unpack("<HHQQB", body)
        return Tail(start, end, bool(flags & 1))

    def release(self, stream: int, partition: int, offset: int) -> None:
        """Promise never to fetch below ``offset`` again."""
        where = f"RELEASE of {stream}/{partition} at {offset}"
        self._ask(where, 0x04, struct.pack("<HHQ", stream, partition, offset))

    def read(self, stream: int, partition: int, start: int, end: int) -> Iterator[Chunk]:
        """Yield the records from ``start`` to ``end``; the log must hold them already.

        The next FETCH is sent as soon as the head of a reply tells its offset, so that the
        log works while a chunk is being used.
        """
        where = f"stream {stream}, partition {partition}"
        ask = struct.Struct("<HHQII")
        self._send(0x02, ask.pack(stream, partition, start, FETCH_BYTES, 0))
        while start < end:
            left = self._head(f"FETCH of {where} at offset {start}", 0x82)
            head = _FETCH_HEAD.unpack(self._exactly(_FETCH_HEAD.size))
            base, count, size = head[2], head[5], left - _FETCH_HEAD.size
            if base != start or count == 0:
                raise LogError(
                    f"{where}: expected records at offset {start}, got {count} at {base}"
                )
            start = base + count
            if start < end:
                self._send(0x02, ask.pack(stream, partition, start, FETCH_BYTES, 0))
            records = self._exactly(size)
            yield _trimmed(Chunk(base, count, records), end, where)

    def have(self, stream: int, writer: int) -> int:
        """Own a writer from now on; return its next number."""
        body = self._ask(f"HAVE of writer {writer}", 0x06, struct.pack("<HQ", stream, writer))
        return struct.unpack("<QQ", body)[1]

    def stage(self, txn: int, stream: int, writer: int, first_seq: int, chunk: Chunk) -> None:
        """Stage records under a transaction; replaces what this writer had staged in it."""
        head = struct.pack("<QHQQI", txn, stream, writer, first_seq, chunk.count)
        self._ask(f"STAGE of transaction {txn}", 0x07, head, chunk.records)

    def commit(self, txn: int) -> int:
        """Make a transaction visible: 1 committed, 2 it was already, 3 unknown to the log."""
        return self._ask(f"COMMIT of transaction {txn}", 0x08, struct.pack("<Q", txn))[8]

    def abort(self, txn: int) -> None:
        """Drop what is staged under a transaction."""
        self._ask(f"ABORT of transaction {txn}", 0x09, struct.pack("<Q", txn))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    # -- frames --------------------------------------------------------------------

    def _ask(self, what: str, op: int, *body: bytes) -> bytes:
        self._send(op, *body)
        return self._exactly(self._head(what, op | 0x80))

    def _send(self, op: int, *body: bytes) -> None:
        length = 1 + sum(map(len, body))
        self._socket.sendall(struct.pack("<IB", length, op) + body[0])
        for part in body[1:]:
            self._socket.sendall(part)

    def _head(self, what: str, expected: int) -> int:
        """Read the head of a reply; return the length of its body. LogError for an error."""
        length, op = struct.unpack("<IB", self._exactly(5))
        if op == 0xFF:
            body = self._exactly(length - 1)
            text = body[2:].decode("utf-8", "backslashreplace")
            raise LogError(f"{what} was refused (code {body[0] | body[1] << 8}): {text}")
        if op != expected or length > MAX_FRAME:
            raise LogError(
                f"{what}: expected reply {expected:#x}, got op {op:#x} of {length} bytes"
            )
        return length - 1

    def _exactly(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            received = self._socket.recv_into(view)
            if not received:
                raise LogError("the log closed the connection")
            view = view[received:]
        return buffer


def _trimmed(chunk: Chunk, end: int, where: str) -> Chunk:
    """Check that all records are of one size; drop those from offset ``end`` on."""
    size = 4 + int.from_bytes(chunk.records[:4], "little")
    if size * chunk.count == len(chunk.records):
        sizes = np.ndarray(chunk.count, "<u4", chunk.records, strides=(size,))
        odd = np.flatnonzero(sizes != size - 4)
        if not len(odd):
            count = min(chunk.count, end - chunk.base)
            return Chunk(chunk.base, count, chunk.records[: count * size])
        raise LogError(
            f"{where}, offset {chunk.base + odd[0]}: expected a record of {size - 4} bytes"
        )
    raise LogError(
        f"{where}, offset {chunk.base}: expected {chunk.count} records of {size - 4} bytes, "
        f"got {len(chunk.records)} bytes in all"
    )
