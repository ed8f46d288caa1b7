"""Use of one data connection; its other end is looked up elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ConnectionUse:
    """A greeted connection. fetched, sent: records, those that were staged included.

    Written in the thread of the log server, read in any.
    """

    number: int
    #: The port of the peer, which names its socket.
    port: int
    fetched: int = 0
    sent: int = 0
    over: bool = False
