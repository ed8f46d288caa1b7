"""The client's end of a connection as the proxy reads and writes it: plain, or inside TLS.

TLS is computed in memory, and the socket stays the proxy's own: a reset, half of an answer and
silence look to a client of TLS as they do to any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any, Final, Protocol, cast

from tickproof.conformance.errors import TickproofError

#: A longer answer is encrypted piece by piece: other connections go on in between.
_PIECE: Final = 64 * 1024
_ROOM: Final = 64 * 1024
#: First byte of a TLS connection: a record of the handshake.
_HANDSHAKE: Final = 0x16


class NoTls(TickproofError):
    """A client did not shake hands as TLS asks."""


class Channel(Protocol):
    """Bytes from and to one client. `receive_into` and `send` raise OSError."""

    async def open(self) -> bool:
        """Begin; False if the client went away before. Raises NoTls, OSError."""

    async def receive_into(self, view: memoryview) -> int:
        """Wait for bytes; return how many there are, 0 at the end."""

    async def send(self, data: bytes | memoryview) -> None:
        """Send all of it."""


class PlainChannel:
    """A socket as it is."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._loop = sock, asyncio.get_running_loop()

    async def open(self) -> bool:
        """Nothing comes before the first frame."""
        return True

    async def receive_into(self, view: memoryview) -> int:
        """See Channel."""
        return await self._loop.sock_recv_into(self._sock, view)

    async def send(self, data: bytes | memoryview) -> None:
        """See Channel."""
        await self._loop.sock_sendall(self._sock, data)


class TlsChannel:
    """The server's side of TLS over a socket. It never says that it ends: faults do not, either."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock, self._loop = sock, asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._buffer = bytearray(_ROOM)
        self._sending = asyncio.Lock()
        self._first = b""

    async def open(self) -> bool:
        """Shake hands; see Channel."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    return False
            except ssl.SSLError as error:
                with contextlib.suppress(OSError):  # the client may be gone, and need no reason
                    await self._flush()
                raise NoTls(self._refusal(error)) from error
            else:
                await self._flush()
                return True

    def _refusal(self, error: ssl.SSLError) -> str:
        if self._first[:1] != bytes([_HANDSHAKE]):
            return "expected a TLS handshake; the client spoke plain text"
        return f"the handshake failed: {error.reason or error}"

    async def receive_into(self, view: memoryview) -> int:
        """See Channel. A client that ends without saying so in TLS has ended all the same."""
        while True:
            try:
                # It takes any buffer, and then returns a number.
                got: Any = self._tls.read(len(view), cast("bytearray", view))
                return int(got)
            except ssl.SSLZeroReturnError:
                return 0
            except ssl.SSLWantReadError:
                pass
            await self._flush()  # the client may have asked for new keys
            if not await self._fill():
                return 0

    async def send(self, data: bytes | memoryview) -> None:
        """See Channel."""
        view = memoryview(data)
        async with self._sending:
            for at in range(0, len(view), _PIECE):
                self._tls.write(view[at : at + _PIECE])
                await self._send_outgoing()

    async def _flush(self) -> None:
        """Send what TLS has to say by itself; whoever is sending sends it along."""
        if self._outgoing.pending and not self._sending.locked():
            async with self._sending:
                await self._send_outgoing()

    async def _send_outgoing(self) -> None:
        while self._outgoing.pending:
            await self._loop.sock_sendall(self._sock, self._outgoing.read())

    async def _fill(self) -> bool:
        """Wait for more of the client's bytes; False at their end."""
        got = await self._loop.sock_recv_into(self._sock, self._buffer)
        self._first = self._first or bytes(self._buffer[:1])
        if got:
            self._incoming.write(memoryview(self._buffer)[:got])
        return bool(got)


def channel(sock: socket.socket, context: ssl.SSLContext | None) -> Channel:
    """Return the client's end of a connection, inside TLS if there is a context."""
    return PlainChannel(sock) if context is None else TlsChannel(sock, context)
