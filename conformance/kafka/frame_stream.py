"""Whole frames out of a socket that does not block, as asyncio reads it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from typing import Final

from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.wire import MAX_FRAME
from tickproof.conformance.log_server.frame_splitter import Truncated

_SIZE: Final = struct.Struct(">i")
_ROOM: Final = 256 * 1024


class FrameStream:
    """Reads frames through one buffer, which grows with what has come, not with what is announced.

    A frame is given with its size before it, as it is passed on: a view that stays valid
    until the next `read`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray(_ROOM)
        self._start = self._end = 0

    async def read(self) -> bool:
        """Read until a frame is whole; False at a clean end. Raises Malformed, Truncated, OSError.

        All frames that were whole have to be taken out before.
        """
        loop = asyncio.get_running_loop()
        while not self._whole():
            self._make_room()
            got = await loop.sock_recv_into(self._sock, memoryview(self._buffer)[self._end :])
            if not got:
                if self._end > self._start:
                    have = self._end - self._start
                    raise Truncated(f"the connection ended {have} bytes into a frame")
                return False
            self._end += got
        return True

    def frames(self) -> Iterator[memoryview]:
        """Take out all frames that are whole."""
        view = memoryview(self._buffer)
        while size := self._whole():
            self._start += size
            yield view[self._start - size : self._start]

    def _whole(self) -> int:
        """Return the bytes of the next frame, its size included, 0 where it is not whole."""
        have = self._end - self._start
        if have < _SIZE.size:
            return 0
        size = _SIZE.unpack_from(self._buffer, self._start)[0]
        if not 0 < size <= MAX_FRAME:
            raise Malformed(f"a frame of {size} bytes, at most {MAX_FRAME} are allowed")
        return size + _SIZE.size if have >= size + _SIZE.size else 0

    def _make_room(self) -> None:
        have = self._end - self._start
        if not have:
            self._start = self._end = 0
        elif self._start:
            self._buffer[:have] = self._buffer[self._start : self._end]
            self._start, self._end = 0, have
        if self._end == len(self._buffer):
            fresh = bytearray(2 * len(self._buffer))
            fresh[: self._end] = self._buffer
            self._buffer = fresh


def sized(body: bytes) -> memoryview:
    """Return a frame with its size before it."""
    return memoryview(_SIZE.pack(len(body)) + body)
