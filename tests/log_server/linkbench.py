"""Clients that belong to the source or the sink, and faults that meet them."""

from __future__ import annotations

from tests.log_server.logbench import until
from tickproof.conformance.fault_steps import fault_step
from tickproof.conformance.faults.kinds import fault_of

#: Longer than any of these tests takes: its end has to be brought about.
LONG_S = 60.0


def reader(bench):
    """Return a client whose connection belongs to the source; 1,000 records are published."""
    bench.log.publish([1_000])
    client = bench.connect()
    assert len(client.fetch(0, 120).region) == 120
    return client


def writer(bench, number=0):
    """Return a client whose connection belongs to the sink, and owns a writer."""
    client = bench.connect()
    client.have(number)
    return client


def strike(bench, do, target, **rest):
    return bench.server.links.aim(fault_of(fault_step(do, target, "fetched", **rest)))()


def proofs(bench, do=None):
    """Return the events of faults that met something or are over."""
    return [f for name, f in bench.events if name == "link" and do in (None, f["do"])]


def proof(bench, do):
    until(lambda: proofs(bench, do))
    (found,) = proofs(bench, do)
    return found


def rest_of(client):
    """Read to the end; return the bytes, and whether the end was a reset."""
    held = bytes(client.reader._buffer[client.reader._start : client.reader._end])
    try:
        while piece := client.socket.recv(1 << 16):
            held += piece
    except ConnectionResetError:
        return held, True
    return held, False
