"""Cutting a byte stream into frames, for both ends of a connection."""

from __future__ import annotations

import socket
import struct

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.log_server.frames import MAX_FRAME, BadFrame

_LENGTH = struct.Struct("<I")


class FrameTooLarge(TickproofError):
    """A frame announces more bytes than are allowed."""


class Truncated(TickproofError):
    """The connection ended inside a frame."""


class FrameReader:
    """Reads frames from a socket through one buffer.

    ``next()`` gives (op, body); the body is a view that stays valid until the
    following call. None at a clean end of the stream. ``size``: bytes of the buffer, which
    grows to a frame that is longer; ``limit``: the longest frame that is taken.
    """

    def __init__(self, sock: socket.socket, size: int = 1 << 18, limit: int = MAX_FRAME) -> None:
        self._sock, self._limit = sock, limit
        self._buffer = bytearray(size)
        self._start = self._end = 0

    def widen(self, size: int, limit: int) -> None:
        """Take longer frames from now on, through a buffer of at least ``size`` bytes."""
        self._limit = limit
        self._grow(max(size, len(self._buffer)))

    @property
    def begun(self) -> bool:
        """True if a part of a frame was read that is not whole yet."""
        return self._end > self._start

    def ready(self) -> bool:
        """Say whether a frame lies in the buffer: whole, or one that `next` will not take."""
        have = self._end - self._start
        return have >= 4 and (have >= 4 + (length := self._length()) or length > self._limit)

    def _length(self) -> int:
        return _LENGTH.unpack_from(self._buffer, self._start)[0]

    def next(self) -> tuple[int, memoryview] | None:
        """Return the next frame; raises FrameTooLarge, BadFrame, Truncated, OSError."""
        if not self._fill(4):
            return None
        length = self._length()
        if length > self._limit:
            raise FrameTooLarge(f"a frame of {length:,} bytes, at most {self._limit:,} are allowed")
        if length == 0:
            raise BadFrame("a frame of length 0 has no op")
        self._fill(4 + length)
        begin = self._start + 4
        self._start = begin + length
        return self._buffer[begin], memoryview(self._buffer)[begin + 1 : begin + length]

    def receive(self) -> bool:
        """Read once of what is not `ready` yet; False at a clean end of the stream.

        For a socket that does not block: where nothing has come, nothing is read. Raises
        Truncated, OSError.
        """
        have = self._end - self._start
        try:
            return self._read(4 + self._length() if have >= 4 else 4)
        except BlockingIOError:
            return True

    def silent(self) -> bool:
        """Say whether nothing has come that was not read, on a socket that does not block."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass  # whoever reads is told
        return False

    def _fill(self, wanted: int) -> bool:
        """Have ``wanted`` bytes in the buffer; False at the end of the stream."""
        while self._end - self._start < wanted:
            if not self._read(wanted):
                return False
        return True

    def _read(self, wanted: int) -> bool:
        """Read once, into a buffer that has room for ``wanted`` bytes; False at the end."""
        self._make_room(wanted)
        got = self._sock.recv_into(memoryview(self._buffer)[self._end :])
        self._end += got
        if not got and self._end > self._start:
            raise Truncated(f"the connection ended {self._end - self._start} bytes into a frame")
        return bool(got)

    def _make_room(self, wanted: int) -> None:
        have = self._end - self._start
        if self._start + wanted <= len(self._buffer) and self._end < len(self._buffer):
            if have == 0:
                self._start = self._end = 0
            return
        self._grow(max(len(self._buffer), wanted))

    def _grow(self, size: int) -> None:
        """Move what was read to the front of a buffer of ``size`` bytes."""
        have = self._end - self._start
        # A fresh buffer where the frame is larger: views of the old one may still live.
        fresh = bytearray(size) if size > len(self._buffer) else self._buffer
        fresh[:have] = self._buffer[self._start : self._end]
        self._buffer, self._start, self._end = fresh, 0, have
