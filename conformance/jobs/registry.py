"""A stub of Confluent's schema registry: schemas by subject and id, for one run of a job.

It keeps what job.toml declares and what the job registers, over the deaths of the job, and checks
no compatibility. It answers what clients need to write and read Avro, else 404, as an older
registry does.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tickproof.conformance.jobs.comparison import canonical
from tickproof.conformance.log_server.listener import listener

#: First in a message, before the id of its schema in 4 bytes, most significant first.
MAGIC: Final = b"\0"
AVRO: Final = "AVRO"
_NAME: Final = "a stub of Tickproof"
_MOST_BYTES: Final = 1 << 20
_SUBJECT: Final = r"/subjects/(?P<subject>[^/]+)"
Answer = tuple[int, Any]


class Registry:
    """Listens on 127.0.0.1. schemas: subject -> text; their ids are 1, 2, ... in that order."""

    def __init__(self, schemas: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        #: Type and text by id, from 1; and ids by subject, those of its versions from 1.
        self._schemas: list[tuple[str, str]] = []
        self._subjects: dict[str, list[int]] = {}
        for subject, text in schemas.items():
            self._register(subject, AVRO, text)
        self._servers: list[_Server] = []
        own = listener(0)
        self.port: int = own.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.listen_on(own)

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def listen_on(self, sock: Any) -> None:
        """Accept on one more socket: where a job in a sandbox reaches it. It is closed here."""
        server = _Server(self, sock)
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()

    def answer(self, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        """Return status and document of a request."""
        for verb, pattern, handle in self._routes():
            if verb == method and (found := re.fullmatch(pattern, path)):
                with self._lock:
                    return handle(body, **{k: unquote(v) for k, v in found.groupdict().items()})
        return _error(404, 404, f"{method} {path}: not known to {_NAME}")

    def _routes(self) -> tuple[tuple[str, str, Callable[..., Answer]], ...]:
        return (
            ("GET", "/?", lambda _: (200, {"registry": _NAME})),
            ("GET", "/subjects", lambda _: (200, sorted(self._subjects))),
            ("GET", "/schemas/types", lambda _: (200, [AVRO])),
            ("GET", r"/schemas/ids/(?P<id_>\d+)", self._by_id),
            ("GET", f"{_SUBJECT}/versions", self._versions),
            ("GET", rf"{_SUBJECT}/versions/(?P<version>\d+|latest|-1)", self._by_version),
            ("POST", f"{_SUBJECT}/versions", self._registered),
            ("POST", _SUBJECT, self._looked_up),
            ("GET", "/config(/[^/]+)?", lambda _: (200, {"compatibilityLevel": "NONE"})),
        )

    def _by_id(self, _: object, id_: str) -> Answer:
        if not 1 <= int(id_) <= len(self._schemas):
            return _error(404, 40403, f"Schema {id_} not found.")
        return 200, self._document(int(id_))

    def _versions(self, _: object, subject: str) -> Answer:
        if subject not in self._subjects:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        return 200, list(range(1, len(self._subjects[subject]) + 1))

    def _by_version(self, _: object, subject: str, version: str) -> Answer:
        if not (ids := self._subjects.get(subject)):
            return _error(404, 40401, f"Subject '{subject}' not found.")
        number = int(version) if version.isdecimal() else len(ids)
        if not 1 <= number <= len(ids):
            return _error(404, 40402, f"Version {version} not found.")
        return 200, self._version(subject, ids[number - 1])

    def _registered(self, body: Mapping[str, Any], subject: str) -> Answer:
        try:
            id_ = self._register(subject, str(body.get("schemaType") or AVRO), body["schema"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            return _error(422, 42201, f"Invalid schema: {error}")
        return 200, self._version(subject, id_)

    def _looked_up(self, body: Mapping[str, Any], subject: str) -> Answer:
        if subject not in self._subjects:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        try:
            asked = _schema(str(body.get("schemaType") or AVRO), body["schema"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            return _error(422, 42201, f"Invalid schema: {error}")
        for id_ in self._subjects[subject]:
            if self._schemas[id_ - 1] == asked:
                return 200, self._version(subject, id_)
        return _error(404, 40403, "Schema not found.")

    def _register(self, subject: str, type_: str, text: str) -> int:
        """Return the id of a schema, which is the same in every subject; raises ValueError."""
        schema = _schema(type_, text)
        if schema not in self._schemas:
            self._schemas.append(schema)
        id_ = self._schemas.index(schema) + 1
        ids = self._subjects.setdefault(subject, [])
        if id_ not in ids:
            ids.append(id_)
        return id_

    def _version(self, subject: str, id_: int) -> dict[str, Any]:
        version = self._subjects[subject].index(id_) + 1
        return {"subject": subject, "version": version, "id": id_} | self._document(id_)

    def _document(self, id_: int) -> dict[str, Any]:
        type_, text = self._schemas[id_ - 1]
        return {"schema": text} | ({} if type_ == AVRO else {"schemaType": type_})


def _schema(type_: str, text: str) -> tuple[str, str]:
    """Return type and text of a schema, JSON in one form; raises ValueError, TypeError."""
    return type_, text if type_ == "PROTOBUF" else canonical(json.loads(text))


def _error(status: int, code: int, message: str) -> Answer:
    return status, {"error_code": code, "message": message}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, registry: Registry, sock: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.registry = sock, registry

    def handle_error(self, *_: object) -> None:
        """Say nothing: connections end as the job ends them."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """Answer a request."""
        size = self.headers.get("Content-Length") or "0"
        if not size.isdecimal() or int(size) > _MOST_BYTES:
            self.close_connection = True  # what follows is its body
            self._send(_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, 413, "the body is too large"))
            return
        try:
            body = json.loads(self.rfile.read(int(size)) or b"{}")
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            self._send(_error(HTTPStatus.BAD_REQUEST, 400, "expected a JSON object"))
            return
        path = urlsplit(self.path).path
        self._send(self.server.registry.answer(self.command, path, body))

    do_POST = do_PUT = do_DELETE = do_GET

    def _send(self, answer: Answer) -> None:
        status, document = answer
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        """Return what it calls itself."""
        return _NAME

    def log_message(self, *_: object) -> None:
        """Say nothing on standard error."""
