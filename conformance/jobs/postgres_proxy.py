"""The proxy before PostgreSQL: it sees writes and commits, and holds them at their moments.

The moments are those of the Kafka proxy. "staged": a write in a transaction was answered;
"commit-received": COMMIT of a transaction with writes has come, and the server has not got it;
"committed": the server has, and the client does not know; "appended": the same of a write
without a transaction. A write is known by its first word: one that a SELECT does by a function
is not seen. One that the server says changed no row is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from tickproof.conformance.log_server.connection_tasks import ended
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.log_server.listener import listener
from tickproof.conformance.log_server.obstacle import Obstacle

#: Requests that come before the first message: TLS, encryption by GSSAPI, and a cancellation.
_TLS, _GSSAPI, _CANCEL = 80877103, 80877104, 80877102
_LONGEST_STARTUP: Final = 10_000
#: So much of a message is understood.
_HEAD: Final = 1 << 16
#: How long the server may take to end what a client has left.
_LEFT_S: Final = 5.0
#: Moment -> what is under way at it.
UNDER_WAY: Final[Mapping[str, str]] = dict.fromkeys(
    ("committed", "appended"), "a commit of the database that the job does not know of"
)
_WRITES: Final = {b"INSERT", b"UPDATE", b"DELETE", b"MERGE", b"COPY"}
_WORD: Final = re.compile(rb"(?>\s+|--[^\n]*\n|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)
_WRITES_WITHIN: Final = re.compile(rb"\b(?:INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)


class Dialogue:
    """What the messages of one connection mean; it has no socket."""

    def __init__(self) -> None:
        #: By name: what prepared statements, and portals of such, do.
        self._statements: dict[bytes, list[bytes]] = {}
        self._portals: dict[bytes, list[bytes]] = {}
        #: Whether the client has begun a transaction, and has ended one with writes.
        self._begun = self._ended = False
        #: Those in the transaction that are not known to have changed nothing.
        self._writes = 0
        #: Whether a transaction of the server is open; whether it has written without one.
        self._open = self._alone = False

    def asked(self, kind: bytes, body: bytes) -> str:
        """Return the moment of a client's message, "" for none."""
        moment = ""
        for word in self._executed(kind, body):
            if word in (b"BEGIN", b"START"):
                self._begun, self._writes = True, 0
            elif word in (b"COMMIT", b"END"):
                self._ended = self._writes > 0
                self._begun, self._writes = False, 0
                moment = "commit-received" if self._ended else ""
            else:
                self._writes += self._begun and word in _WRITES
        return moment

    def _executed(self, kind: bytes, body: bytes) -> list[bytes]:
        """Return the first word of each statement that a message has executed."""
        name, _, rest = body.partition(b"\0")
        if kind == b"Q":
            return _words(name)
        if kind == b"P":
            self._statements[name] = _words(rest.partition(b"\0")[0])
        elif kind == b"B":
            self._portals[name] = self._statements.get(rest.partition(b"\0")[0], [])
        elif kind == b"E":
            return self._portals.get(name, [])
        return []

    def answered(self, kind: bytes, body: bytes) -> str:
        """Return the moment of a server's message, "" for none."""
        if kind == b"C":  # CommandComplete, with a tag as "INSERT 0 1"
            word, _, counts = body.partition(b"\0")[0].partition(b" ")
            self._open |= word in (b"BEGIN", b"START")
            if word == b"COMMIT":
                return "committed" if self._ended else ""
            if word in _WRITES and counts.rpartition(b" ")[2] == b"0":
                self._writes = max(0, self._writes - 1)
            elif word in _WRITES:
                self._alone |= not self._open
                return "staged" if self._open else ""
        elif kind == b"E":  # which undoes what was written without a transaction
            self._alone = False
        elif kind == b"Z":  # ReadyForQuery: idle, in a transaction, or in a failed one
            alone, self._alone = self._alone, False
            self._open = body[:1] != b"I"
            if not self._open:
                self._begun = self._ended = False
                self._writes = 0
                return "appended" if alone else ""
        return ""


def _words(query: bytes) -> list[bytes]:
    """Return the first word of each statement, in capitals; of WITH, the write in it."""
    words = []
    for statement in query.split(b";"):
        if found := _WORD.match(statement):
            word = found[1].upper()
            if word == b"WITH" and (within := _WRITES_WITHIN.search(statement)):
                word = within[0].upper()
            words.append(word)
    return words


class PostgresProxy:
    """Listens on 127.0.0.1, and leads to a server's Unix socket.

    ``observe(moment, connection)`` is called in the proxy's thread; it must not block. It may
    return a future, until which the connection stands still: True drops what came with a moment
    "...-received", and the connection with it. ``numbers`` gives connections theirs, which are
    negative: those of Kafka are positive.
    """

    def __init__(
        self,
        upstream: Path,
        observe: Callable[[str, int], Future[bool] | None],
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.upstream, self.observe = upstream, observe
        self.obstacle = Obstacle()
        self._numbers = numbers or itertools.count(-1, -1)
        #: What ended the thread, or kept a connection from the server.
        self.failure: BaseException | None = None
        #: By number of connection; the records of those that were never given any are 0.
        self.uses: dict[int, ConnectionUse] = {}
        self._open: dict[int, tuple[_Connection, asyncio.Task[None]]] = {}
        own = listener(0)
        self.port: int = own.getsockname()[1]
        self._stop, started = asyncio.Event(), threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(
            target=self._run, args=(own, started), name="postgres-proxy", daemon=True
        )
        self._thread.start()
        started.wait()

    def __enter__(self) -> PostgresProxy:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening, end every connection, wait for the thread."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(2 * _LEFT_S)

    def listen_on(self, sock: socket.socket) -> None:
        """Accept on one more socket: where a job in a sandbox reaches it. The proxy closes it."""
        asyncio.run_coroutine_threadsafe(self._listen(sock), self._loop).result()

    def reset_all(self) -> int:
        """Reset every connection, once the server is done with it; return how many there were."""

        async def reset() -> int:
            found = list(self._open.values())
            for connection, task in found:
                connection.broken = True
                task.cancel()
            return len(found)

        return asyncio.run_coroutine_threadsafe(reset(), self._loop).result()

    def _run(self, own: socket.socket, started: threading.Event) -> None:
        try:
            asyncio.run(self._serve(own, started))
        except BaseException as error:
            self.failure = self.failure or error
        finally:
            started.set()

    async def _serve(self, own: socket.socket, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        await self._listen(own)
        started.set()
        await self._stop.wait()
        for server in self._servers:
            server.close()
        tasks = [task for _, task in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, sock: socket.socket) -> None:
        self._servers.append(await asyncio.start_server(self._accept, sock=sock))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.obstacle.turns_away():
            writer.close()
            return
        number = next(self._numbers)
        task = asyncio.current_task()
        assert task is not None
        use = self.uses[number] = ConnectionUse(number, writer.get_extra_info("peername")[1])
        connection = _Connection(number, reader, writer, self.observe, self.obstacle)
        self._open[number] = connection, task
        try:
            server = await asyncio.open_unix_connection(str(self.upstream))
            await connection.run(*server)
        except asyncio.CancelledError:
            pass  # asyncio reports a callback that ends as cancelled, with a traceback
        except Exception as error:
            self.failure = self.failure or error
        finally:
            use.over = True
            del self._open[number]
            connection.end()


class _Connection:
    """Both directions of one connection."""

    def __init__(
        self,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        observe: Callable[[str, int], Future[bool] | None],
        obstacle: Obstacle,
    ) -> None:
        self._number, self._reader, self._writer, self._observe = number, reader, writer, observe
        self._obstacle = obstacle
        self._dialogue = Dialogue()
        #: Held by the direction that stands at a moment: the other stands still, too.
        self._still = asyncio.Lock()
        #: Whether it ends by a reset.
        self.broken = False

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass messages on until either end, or a fault, ends the connection."""
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
                if await self._greet(writer):
                    await self._converse(reader, writer)
        finally:
            # What the client had sent is done before it, or whoever follows it, can ask again.
            with contextlib.suppress(OSError, TimeoutError):
                writer.write_eof()
                async with asyncio.timeout(_LEFT_S):
                    while await reader.read(_HEAD):
                        pass
            writer.close()

    def end(self) -> None:
        """Let go of the client."""
        if self.broken:
            sock = self._writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def _greet(self, server: asyncio.StreamWriter) -> bool:
        """Pass on what comes before the first message; False where nothing follows it."""
        while True:
            head = await self._reader.readexactly(8)
            size, code = struct.unpack(">II", head)
            if not 8 <= size <= _LONGEST_STARTUP:
                raise ValueError(f"no PostgreSQL: a first message of {size} bytes")
            rest = await self._reader.readexactly(size - 8)
            if code in (_TLS, _GSSAPI):
                self._writer.write(b"N")
                continue
            server.write(head + rest)
            await server.drain()
            return bool(code != _CANCEL)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        both = [
            asyncio.create_task(self._pass(self._reader, writer, self._dialogue.asked)),
            asyncio.create_task(self._pass(reader, self._writer, self._dialogue.answered)),
        ]
        async with ended(*both):
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)

    async def _pass(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        meaning: Callable[[bytes, bytes], str],
    ) -> None:
        while True:
            head = await source.readexactly(5)
            left = int.from_bytes(head[1:], "big") - 4
            if left < 0:
                raise ValueError("no PostgreSQL: a message of less than no bytes")
            body = await source.readexactly(min(left, _HEAD))
            async with self._still:
                moment = meaning(head[:1], body)
                if moment and await self._dropped(moment):
                    raise ConnectionAbortedError
                # ReadyForQuery ends the answer to a request.
                if head[:1] == b"Z" and sink is self._writer and (lag_s := self._obstacle.lag()):
                    await asyncio.sleep(lag_s)
                sink.write(head + body)
            left -= len(body)
            while left:
                piece = await source.readexactly(min(left, _HEAD))
                sink.write(piece)
                left -= len(piece)
                await sink.drain()
            await sink.drain()

    async def _dropped(self, moment: str) -> bool:
        held = self._observe(moment, self._number)
        # Whoever carries a fault out ends the future, whatever becomes of the connection.
        return held is not None and await asyncio.shield(asyncio.wrap_future(held))
