"""The socket on which engines reach a log server."""

from __future__ import annotations

import socket
from typing import Final

BACKLOG: Final = 128


def listener(port: int) -> socket.socket:
    """Return a socket that listens on 127.0.0.1; port 0 lets the system choose.

    Raises OSError with the port in its text where the port is taken.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"port {port} on 127.0.0.1: {error.strerror}") from error
    sock.listen(BACKLOG)
    return sock
