"""Between the brokers of a cluster: what followers fetch can be held back."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from typing import Final

from tickproof.conformance.log_server.listener import listener

_CHUNK: Final = 1 << 18


class Replication:
    """Leads other brokers to each broker of a cluster, in a thread of its own.

    ``to`` are the ports of 127.0.0.1 at which the brokers listen for each other, in the order of
    their numbers; ``ports`` are those that they have to name instead.
    """

    def __init__(self, to: Sequence[int]) -> None:
        self._sockets = [listener(0) for _ in to]
        self.ports = [sock.getsockname()[1] for sock in self._sockets]
        self._to = dict(zip(self.ports, to, strict=True))
        self._loop = asyncio.new_event_loop()
        self._free = {port: asyncio.Event() for port in self.ports}
        for free in self._free.values():
            free.set()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-replication", daemon=True)
        self._thread.start()

    def hold(self, number: int, on: bool) -> None:
        """Hold back all that others get from a broker, or let it go."""
        free = self._free[self.ports[number - 1]]
        self._loop.call_soon_threadsafe(free.clear if on else free.set)

    def close(self) -> None:
        """End every connection, and wait for the thread; may be called again."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for sock in self._sockets:
                await stack.enter_async_context(
                    await asyncio.start_server(self._connected, sock=sock, limit=_CHUNK)
                )
            await self._over.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to[port], limit=_CHUNK)
        except OSError:  # the broker is dead
            writer.close()
            return
        always = asyncio.Event()
        always.set()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, back, always))
                both.create_task(_pass_on(there, writer, self._free[port]))
        except* (OSError, EOFError):
            pass  # either end has gone
        finally:
            writer.close()
            back.close()


async def _pass_on(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, free: asyncio.Event
) -> None:
    """Pass bytes on until the source ends, which raises EOFError as if it had ended too early."""
    while chunk := await source.read(_CHUNK):
        await free.wait()
        sink.write(chunk)
        await sink.drain()
    raise EOFError
