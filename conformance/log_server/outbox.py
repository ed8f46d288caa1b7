"""Bytes that a peer has yet to take, on a socket that does not block."""

from __future__ import annotations

import fcntl
import socket
import sys
import termios


class Outbox:
    """Replies that wait to be sent, in order."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._parts: list[bytes | memoryview] = []
        #: Bytes of all of it.
        self.size = 0

    def add(self, data: bytes | memoryview) -> None:
        """Put something behind what is there."""
        self._parts.append(data)
        self.size += len(data)

    def take(self) -> bytes:
        """Take all out again."""
        parts, self._parts, self.size = self._parts, [], 0
        return b"".join(parts)

    def send(self, flags: int = 0) -> bool:
        """Send as much as the peer takes now; returns whether nothing is left. Raises OSError."""
        if not self._parts:
            return True
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        try:
            sent = self._sock.send(data, flags)
        except BlockingIOError:
            sent = 0
        self.size -= sent
        self._parts = [memoryview(data)[sent:]] if self.size else []
        return not self._parts

    def on_its_way(self) -> int:
        """Return how many bytes were sent and have not reached the peer."""
        queue = bytearray(4)
        fcntl.ioctl(self._sock, termios.TIOCOUTQ, queue)
        return int.from_bytes(queue, sys.byteorder)
