"""A server that a job calls over HTTP: it keeps every request, and counts each key once.

The moments are those of the Kafka proxy. "staged": a whole request has come; "append-received":
it is about to be recorded, and a kill loses it; "appended": it is recorded, and the job does not
know. They are what `staged`, `losing` and `committing` are in the language of schedules.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tickproof.conformance.jobs.comparison import canonical
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.records import MOST
from tickproof.conformance.jobs.sinks import BadOutput, Row, identity
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.log_server.listener import listener
from tickproof.conformance.log_server.obstacle import Obstacle
from tickproof.conformance.text import shown

KEY: Final = "Idempotency-Key"
_MOST_BYTES: Final = 1 << 20
_MOST_DROPPED: Final = 16 << 20
#: Moments of a request, those first that show most; and what is under way at each.
UNDER_WAY: Final[Mapping[str, str]] = {
    "appended": "a recorded request whose answer the job has not got",
    "append-received": "a request that was not yet recorded",
    "staged": "a request that is under way",
}


@dataclass(frozen=True)
class Request:
    """One recorded request; key: "" without one."""

    method: str
    path: str
    key: str
    body: dict[str, Any]


class Ledger:
    """Listens on 127.0.0.1; /NAME and what is below it belongs to the output of that name.

    ``observe(moment, connection)`` is called in the thread of a connection. It may return a
    future, until which the connection stands still: True drops what came with a moment
    "...-received", and the connection with it. ``numbers`` gives connections theirs.
    """

    def __init__(
        self,
        names: Iterator[str] | list[str],
        observe: Callable[[str, int], Future[bool] | None],
        numbers: Iterator[int],
    ) -> None:
        self.observe, self._numbers = observe, numbers
        self.failure: BaseException | None = None
        self.obstacle = Obstacle()
        #: By number of connection.
        self.uses: dict[int, ConnectionUse] = {}
        #: By output: what was answered by 200, in its order; and what was wrong with a request.
        self.requests: dict[str, list[Request]] = {name: [] for name in names}
        self.wrong: dict[str, str] = {}
        #: By output: the first key that came with two bodies.
        self.reused: dict[str, str] = {}
        self._bodies: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._open: dict[int, socket.socket] = {}
        self._servers: list[_Server] = []
        own = listener(0)
        self.port: int = own.getsockname()[1]
        self.listen_on(own)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening, and end every connection."""
        for server in self._servers:
            server.shutdown()
        self.reset_all()
        for server in self._servers:
            server.server_close()

    def listen_on(self, sock: socket.socket) -> None:
        """Accept on one more socket: where a job in a sandbox reaches it. The ledger closes it."""
        server = _Server(self, sock)
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()

    def reset_all(self) -> int:
        """Reset every connection; return how many there were."""
        with self._lock:
            found = list(self._open.values())
            for sock in found:
                _reset(sock)
        return len(found)

    def greet(self, sock: socket.socket, port: int) -> int:
        """Return the number of a new connection."""
        with self._lock:
            number = next(self._numbers)
            self.uses[number] = ConnectionUse(number, port)
            self._open[number] = sock
            return number

    def part(self, number: int) -> None:
        """Forget a connection that is over."""
        with self._lock:
            self._open.pop(number, None)
            self.uses[number].over = True

    def dropped(self, moment: str, number: int) -> bool:
        """Stand still for what happens at a moment; tell whether the request is lost."""
        held = self.observe(moment, number)
        # Whoever carries a fault out ends the future, whatever becomes of the connection.
        return held is not None and held.result()

    def refuse(self, name: str, why: str) -> None:
        """Note the first request that is no row."""
        with self._lock:
            self.wrong.setdefault(name, why)

    def record(self, name: str, request: Request) -> HTTPStatus:
        """Keep a request, and return its answer.

        A key that has come before counts once; with another body it is refused, and not kept.
        """
        body = canonical(request.body)
        with self._lock:
            kept = self.requests[name]
            first = self._bodies.setdefault((name, request.key), body) if request.key else body
            if first != body:
                two = f"{shown(first, 200)} and {shown(body, 200)}"
                said = f"[outputs.{name}]: {KEY} {shown(request.key, 100)} stands for {two}"
                self.reused.setdefault(name, said)
                return HTTPStatus.UNPROCESSABLE_ENTITY
            if len(kept) >= MOST:
                self.wrong.setdefault(name, f"expected at most {MOST:,} requests")
                return HTTPStatus.INSUFFICIENT_STORAGE
            kept.append(request)
        return HTTPStatus.OK


def _reset(sock: socket.socket) -> None:
    """End a connection so that its peer sees a reset, whoever closes it."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, ledger: Ledger, sock: socket.socket) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.ledger = sock, ledger

    def verify_request(self, *_: object) -> bool:
        """Tell whether a connection is taken."""
        return not self.ledger.obstacle.turns_away()

    def handle_error(self, *_: object) -> None:
        """Say nothing: connections end as the job or a fault ends them."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._number = self.server.ledger.greet(self.connection, self.client_address[1])

    def finish(self) -> None:
        self.server.ledger.part(self._number)
        super().finish()

    def do_GET(self) -> None:
        """Answer that the server is there."""
        self._answer(HTTPStatus.OK)

    def do_POST(self) -> None:
        """Keep a request."""
        ledger = self.server.ledger
        name = self.path.lstrip("/").partition("?")[0].partition("/")[0]
        if (size := self.headers.get("Content-Length", "")) and not size.isdecimal():
            size = ""
        if not size or int(size) > _MOST_BYTES:
            self.close_connection = True  # what follows is its body
            # A client that still sends would find a reset in place of the answer.
            self.rfile.read(min(int(size or 0), _MOST_DROPPED))
            self._answer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE if size else HTTPStatus.LENGTH_REQUIRED
            )
            return
        content = self.rfile.read(int(size))
        if len(content) < int(size):
            self.close_connection = True
            return  # no whole request
        if name not in ledger.requests:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            got = shown(content.decode("utf-8", "backslashreplace"), 100)
            ledger.refuse(name, f"{self.command} {shown(self.path, 100)}: expected a JSON object; "
                          f"got {got!r}")  # fmt: skip
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        request = Request(self.command, self.path, self.headers.get(KEY, ""), body)
        if any(ledger.dropped(one, self._number) for one in ("staged", "append-received")):
            self.close_connection = True
            return
        status = ledger.record(name, request)
        ledger.dropped("appended", self._number)
        self._answer(status)

    do_PUT = do_PATCH = do_POST

    def _answer(self, status: HTTPStatus) -> None:
        if lag_s := self.server.ledger.obstacle.lag():
            time.sleep(lag_s)
        content = json.dumps({"status": status.phrase}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing on standard error."""


class HttpSink:
    """The requests to one output; each Idempotency-Key counts once."""

    open = "a request that is under way"

    def __init__(self, table: OutputTable, ledger: Ledger, name: str) -> None:
        self._table, self._ledger, self._name = table, ledger, name
        self.where = f"http://127.0.0.1:{ledger.port}/{name}"

    def take(self) -> None:
        """Raise BadOutput if a request was no row."""
        if why := self._ledger.wrong.get(self._name):
            raise BadOutput(f"[outputs.{self._name}] {why}")

    def position(self) -> object:
        """Return how many requests have come."""
        return len(self._ledger.requests[self._name])

    def whole(self) -> bool:
        """Return True: a request is recorded before its answer."""
        return True

    def rows(self, ended: bool = False) -> list[Row]:
        """Return the bodies of requests, in their order: of those with the same key, the first."""
        found: dict[str, Row] = {}
        for number, one in enumerate(list(self._ledger.requests[self._name]), 1):
            where = (
                f"[outputs.{self._name}] request {number:,}, {one.method} {shown(one.path, 100)}"
            )
            if not (one.key or self._table.identity):
                raise BadOutput(f"{where}: expected identity in job.toml, or {KEY}; got neither")
            row = identity(self._table, one.body, one.key, where), one.body
            found.setdefault(one.key or f"\0{number}", row)
        return list(found.values())

    def keys(self) -> dict[str, list[str]]:
        """Return the keys of requests by the identity of their rows."""
        found: dict[str, list[str]] = {}
        for one in self._ledger.requests[self._name]:
            found.setdefault(identity(self._table, one.body, one.key, ""), []).append(one.key)
        return found

    def settled(self) -> int | None:
        """Return None: requests say nothing of the input."""
        return None

    def transactions(self) -> frozenset[str]:
        """Return none: the ledger has moments of its own."""
        return frozenset()

    def close(self) -> None:
        """Do nothing: the ledger ends with the run."""
