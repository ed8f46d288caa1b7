"""The events that only runs on several hosts have; events.py has them all."""

from __future__ import annotations

from tickproof.conformance.history.event import Event, EventKind, PlacedProcess


class Placed(Event, kind=EventKind.PLACED):
    """On which of several hosts the processes of the topology before run."""

    placed: tuple[PlacedProcess, ...]


class Network(Event, kind=EventKind.NETWORK):
    """A fault of the network, or of a host, is over. from_ns: when it began.

    packets: how many of TCP it dropped, delayed, let be overtaken, doubled or damaged; of a
    throttle, how often one had to wait.
    """

    do: str
    host: str
    peer: str = ""
    way: str = "both"
    from_ns: int
    packets: int
