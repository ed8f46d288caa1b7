"""Whole frames out of a channel, as asyncio reads it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tickproof.conformance.kafka.channels import Channel
from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.wire import MAX_FRAME
from tickproof.conformance.log_server.frame_splitter import Truncated

_SIZE: Final = struct.Struct(">i")
#: Of a buffer at first.
_LEAST: Final = 16 * 1024
#: Frames up to this size cost no budget; a buffer shrinks to it after a longer one.
_ROOM: Final = 64 * 1024
#: Bytes that the longer frames of all connections of a proxy may take together.
BUDGET: Final = 192 * 1024 * 1024


class Budget:
    """Bytes that buffers may take together; not thread-safe."""

    def __init__(self, left: int = BUDGET) -> None:
        self.left = left

    def take(self, size: int) -> None:
        """Take bytes, or give them back if negative; raises Malformed if too few are left."""
        if size > self.left:
            raise Malformed(f"long frames of all connections: more than {BUDGET:,} bytes")
        self.left -= size


class FrameStream:
    """Reads frames through one buffer, which grows with what has come, not with what is announced.

    A frame is given with its size before it, as it is passed on: a view that stays valid
    until the next `read`. What a long frame takes comes out of a budget until `close`, or until
    it was read.
    """

    def __init__(self, channel: Channel, budget: Budget) -> None:
        self._channel, self._budget = channel, budget
        self._buffer = bytearray(_LEAST)
        self._start = self._end = 0

    def close(self) -> None:
        """Give back what was taken out of the budget."""
        self._replace(_LEAST)

    async def read(self) -> bool:
        """Read until a frame is whole; False at a clean end. Raises Malformed, Truncated, OSError.

        All frames that were whole have to be taken out before.
        """
        while not self._whole():
            self._make_room()
            got = await self._channel.receive_into(memoryview(self._buffer)[self._end :])
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
            raise Malformed(f"a frame of {size:,} bytes, at most {MAX_FRAME:,} are allowed")
        return size + _SIZE.size if have >= size + _SIZE.size else 0

    def _make_room(self) -> None:
        have, full = self._end - self._start, self._end == len(self._buffer)
        if have:
            if self._start:
                self._buffer[:have] = self._buffer[self._start : self._end]
            if have == len(self._buffer):
                self._replace(self._next_room(have))
        elif len(self._buffer) > _ROOM:
            self._replace(_ROOM)
        elif full and len(self._buffer) < _ROOM:
            self._replace(2 * len(self._buffer))
        self._start, self._end = 0, have

    def _next_room(self, have: int) -> int:
        """Return the size of the next buffer: twice this one, but no more than the frame needs."""
        frame = _SIZE.size + _SIZE.unpack_from(self._buffer)[0]
        return max(_ROOM, min(2 * have, frame)) if 2 * have > _ROOM else 2 * have

    def _replace(self, size: int) -> None:
        """Go on with another buffer, which keeps what this one holds if it is larger."""
        self._budget.take(max(size - _ROOM, 0) - max(len(self._buffer) - _ROOM, 0))
        fresh = bytearray(size)
        kept = min(size, len(self._buffer))
        fresh[:kept] = memoryview(self._buffer)[:kept]
        self._buffer = fresh


def sized(body: bytes) -> memoryview:
    """Return a frame with its size before it."""
    return memoryview(_SIZE.pack(len(body)) + body)
