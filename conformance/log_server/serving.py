"""The log server as its connections see it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from tickproof.conformance.log_server.connection_faults import Links
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.sink import Sink

#: Hears of a moment and a connection; see `server.LogServer`.
Observer = Callable[[str, int], Future[bool] | None]


class Server(Protocol):
    """The log server as its connections see it; `server.LogServer` is one."""

    log: InputLog
    recorder: Recorder
    sink: Sink
    links: Links
    event: Callable[..., None]
    observer: Observer
    greeted: Callable[[ConnectionUse], None]
    token: bytes
    passed_s: Callable[[float], float]

    def wake(self) -> None:
        """Have those that wait looked at now."""
