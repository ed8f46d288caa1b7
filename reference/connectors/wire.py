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
#: A chunk of a read: large enough to amortise a round trip, small enough to stay near a core.
CHUNK_BYTES = 4 << 20
#: Payload bytes that fit in one STAGE, its header left out.
STAGE_BYTES = MAX_FRAME - 64

_FETCH = struct.Struct("<HHQII")
_FETCH_HEAD = struct.Struct("<HHQQBI")
_NOT_NOW = 8
#: How long a log may say nothing.
SILENT_S = 60


class LogError(RuntimeError):
    """The log refused a request, or what it sent cannot be used; says which and where."""


class Passing(LogError):
    """The log cannot be reached, is silent, or takes no output now: asked again, it may answer."""


class Tail(NamedTuple):
    """What one partition holds: offsets, and whether ``end`` is final."""

    start: int
    end: int
    ended: bool


class Chunk(NamedTuple):
    """Consecutive records of one partition, each ``u32 size | payload``, all of one size."""

    base: int
    count: int  # type: ignore[assignment]
    records: bytes


class Log:
    """One connection to the log, owned by one thread."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._doing = f"connection to {host}:{port}"
        #: A reply is missing, in whole or in part: a new connection is needed.
        self.lost = False
        try:
            self._socket = socket.create_connection((host, port), timeout=SILENT_S)
        except OSError as error:
            raise Passing(f"{self._doing}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask(
            f"HELLO to {host}:{port}, with the token",
            0x01,
            struct.pack("<H", 1) + bytes.fromhex(token),
        )

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

        The borders of the chunks depend on the range and the size of a record alone, so that
        a task that is run again makes the same of them.
        """
        if start >= end:
            return
        where = stream, partition
        _, probe = self._fetch(*where, start, 1, 4)
        size = 4 + int.from_bytes(probe[:4], "little")
        each = max(1, CHUNK_BYTES // size)
        for base in range(start, end, each):
            count, parts = min(each, end - base), []
            at = base
            while at < base + count:
                got, data = self._fetch(*where, at, base + count - at, size)
                if len(data) != got * size:
                    raise LogError(
                        f"stream {stream}, partition {partition}, offset {at}: "
                        f"expected a record of {size - 4} bytes"
                    )
                parts.append(data)
                at += got
            yield Chunk(base, count, parts[0] if len(parts) == 1 else b"".join(parts))

    def _fetch(self, stream: int, partition: int, at: int, most: int, size: int):
        """Return (how many, records from ``at`` on), ``most`` of them at most."""
        where = f"stream {stream}, partition {partition}"
        self._doing = f"FETCH of {where} at offset {at}"
        self._send(0x02, _FETCH.pack(stream, partition, at, most * size, 0))
        left = self._head(0x82) - _FETCH_HEAD.size
        _, _, base, _, _, count = _FETCH_HEAD.unpack(self._exactly(_FETCH_HEAD.size))
        if base != at or count == 0:
            raise LogError(f"{where}: expected records at offset {at}, got {count} at {base}")
        data = self._exactly(left)
        self.lost = False
        size = 4 + int.from_bytes(data[:4], "little")
        if size * count != left:
            raise LogError(
                f"{where}, offset {at}: expected {count} records of {size - 4} bytes, "
                f"got {left} bytes in all"
            )
        odd = np.ndarray(count, "<u4", data, strides=(size,)) != size - 4
        if odd.any():
            at += int(odd.argmax())
            raise LogError(f"{where}, offset {at}: expected a record of {size - 4} bytes")
        return min(count, most), data if count <= most else data[: most * size]

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

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    # -- frames --------------------------------------------------------------------

    def _ask(self, what: str, op: int, *body: bytes) -> bytearray:
        self._doing = what
        self._send(op, *body)
        reply = self._exactly(self._head(op | 0x80))
        self.lost = False
        return reply

    def _send(self, op: int, *body: bytes) -> None:
        length = 1 + sum(map(len, body))
        self.lost = True
        try:
            self._socket.sendall(struct.pack("<IB", length, op) + body[0])
            for part in body[1:]:
                self._socket.sendall(part)
        except OSError as error:
            raise self._gone(f"the connection is lost: {error}") from error

    def _head(self, expected: int) -> int:
        """Read the head of a reply; return the length of its body. LogError for an error."""
        length, op = struct.unpack("<IB", self._exactly(5))
        if op == 0xFF:
            body = self._exactly(length - 1)
            self.lost = False
            text = body[2:].decode("utf-8", "backslashreplace")
            code = body[0] | body[1] << 8
            kind = Passing if code == _NOT_NOW else LogError
            raise kind(f"{self._doing} was refused (code {code}): {text}")
        if op != expected or length > MAX_FRAME:
            raise LogError(
                f"{self._doing}: expected reply {expected:#x}, got op {op:#x} of {length} bytes"
            )
        return length - 1

    def _exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            try:
                received = self._socket.recv_into(view)
            except OSError as error:
                raise self._gone(f"the connection is lost: {error}") from error
            if not received:
                raise self._gone("the log closed the connection")
            view = view[received:]
        return buffer

    def _gone(self, why: str) -> Passing:
        return Passing(f"{self._doing}: {why}")
