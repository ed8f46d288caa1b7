"""The sockets on which engines reach a log server."""

from __future__ import annotations

import select
import socket
import time
from typing import Final

BACKLOG: Final = 128


def listener(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a socket that listens on an address of the loopback; port 0 lets the system choose.

    Raises OSError with the port in its text where the port is taken.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"port {port} on {host}: {error.strerror}") from error
    sock.listen(BACKLOG)
    return sock


class Listeners:
    """Listening sockets that ``epoll`` watches, but for the times in which they are held off.

    The first lasts; a later one takes the place of the one before. Not thread-safe.
    """

    def __init__(self, epoll: select.epoll, first: socket.socket) -> None:
        self._epoll = epoll
        self._sockets: list[socket.socket] = []
        #: When connections are accepted again (time.monotonic), 0 while they are.
        self._again_at = 0.0
        self.add(first)

    def add(self, sock: socket.socket) -> None:
        """Accept on one more socket, in place of all but the first."""
        for old in self._sockets[1:]:
            if not self._again_at:
                self._epoll.unregister(old)
            self._sockets.remove(old)
            old.close()
        sock.setblocking(False)
        self._sockets.append(sock)
        if not self._again_at:
            self._epoll.register(sock, select.EPOLLIN)

    def by_descriptor(self, descriptor: int) -> socket.socket | None:
        """Return the socket with this descriptor."""
        return next((one for one in self._sockets if one.fileno() == descriptor), None)

    def hold_off(self, seconds: float) -> None:
        """Accept nothing for so long; what comes waits in the backlog."""
        if not self._again_at:
            for sock in self._sockets:
                self._epoll.unregister(sock)
        self._again_at = time.monotonic() + seconds

    def resume(self) -> None:
        """Accept again, at the next look."""
        self._again_at = min(self._again_at, time.monotonic())

    def look(self) -> None:
        """Accept again where the time to hold off is over."""
        if 0 < self._again_at <= time.monotonic():
            self._again_at = 0.0
            for sock in self._sockets:
                self._epoll.register(sock, select.EPOLLIN)

    def close(self) -> None:
        """Close all of them."""
        for sock in self._sockets:
            sock.close()
