"""The page and the metrics of a session, served on loopback while it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web
from markupsafe import Markup
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from tickproof.conformance.report import templates
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.live_page import metrics, snapshot
from tickproof.conformance.report.live_page.follower import Follower
from tickproof.conformance.report.session_state import SessionState

HOST: Final = "127.0.0.1"
#: How often the log is read, and pages are told.
PERIOD_S: Final = 0.5
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_SCRIPT: Final = Path(__file__).with_name("live.js")


class LiveServer:
    """Follows the newest session below a folder."""

    def __init__(self, folder: Path) -> None:
        self._follower = Follower(folder)
        self._collector = metrics.SessionCollector(SessionState())
        self._registry: CollectorRegistry = metrics.registry(self._collector)
        self._changed = asyncio.Condition()
        self._over = False

    def application(self) -> web.Application:
        """Return what serves the page, its events, the metrics and the report."""
        made = web.Application(middlewares=[_local_only])
        made.router.add_get("/", self._page)
        made.router.add_get("/events", self._events)
        made.router.add_get("/metrics", self._metrics)
        made.router.add_get(f"/{PAGE_NAME}", self._report)
        made.cleanup_ctx.append(self._following)
        return made

    async def end(self) -> None:
        """Read what is left, tell every page, and let them go."""
        self._read()
        async with self._changed:
            self._over = True
            self._changed.notify_all()

    async def _following(self, _: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._follow())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._follower.close()

    async def _follow(self) -> None:
        while True:
            self._read()
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(PERIOD_S)

    def _read(self) -> None:
        for began, rows in self._follower.new():
            if began:
                self._collector.watch = SessionState()
            for row in rows:
                self._collector.watch.take(row)

    async def _page(self, _: web.Request) -> web.Response:
        nonce = secrets.token_urlsafe(16)
        text = templates.render(
            "live.html.j2", script=Markup(_SCRIPT.read_text("utf-8")), nonce=nonce
        )
        policy = (
            f"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
            "connect-src 'self'; img-src data:"
        )
        return web.Response(
            text=text, content_type="text/html", headers={"Content-Security-Policy": policy}
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        over = False
        with contextlib.suppress(ConnectionError):
            while not over:
                over = self._over
                told = snapshot.of(self._collector.watch)
                data = json.dumps(told | {"over": over}, separators=(",", ":"))
                await response.write(f"data: {data}\n\n".encode())
                if not over:
                    async with self._changed:
                        if not self._over:
                            await self._changed.wait()
        return response

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _report(self, _: web.Request) -> web.StreamResponse:
        session = self._follower.session
        path = session / PAGE_NAME if session else None
        if path is None or path.is_symlink() or not path.is_file():
            raise web.HTTPNotFound(text="there is no report yet")
        return web.FileResponse(path)


@web.middleware
async def _local_only(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse a page of somebody else's that a browser was led to by a name of its own."""
    if request.host.rpartition(":")[0] not in _HOSTS:
        raise web.HTTPForbidden(text="expected the host 127.0.0.1")
    return await handler(request)


async def serve(
    folder: Path, port: int, until: Awaitable[object], on_ready: Callable[[str], None]
) -> None:
    """Serve until ``until`` is done; raises OSError for a port that cannot be had.

    port: 0 for any. on_ready: called with the page's address.
    """
    server = LiveServer(folder)
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        (address, *_) = runner.addresses
        on_ready(f"http://{HOST}:{address[1]}/")
        await until
        await server.end()
    finally:
        await runner.cleanup()


async def end_of_stdin() -> None:
    """Return when stdin ends: when who started this process closes it, or dies."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass
