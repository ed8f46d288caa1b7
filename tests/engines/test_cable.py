"""Bad cables: what they do to packets, what they count, and that the kernel puts it right."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.test_network import needs_hosts
from tickproof.conformance.engines import cable
from tickproof.conformance.engines.network import LOG, Network
from tickproof.conformance.fault_steps import fault_step
from tickproof.conformance.faults import network_rules as rules
from tickproof.conformance.faults.host_fault import CableFault
from tickproof.conformance.faults.kinds import FAULTS

BYTES = 300_000
#: Sends random bytes, and expects them back.
CLIENT = """
import os, socket, sys, threading
log = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
data = os.urandom(int(sys.argv[3]))
threading.Thread(target=lambda: (log.sendall(data), log.shutdown(1))).start()
back = b"".join(iter(lambda: log.recv(1 << 16), b""))
print(back == data)
"""
MORE = {
    "delay": {"lag_s": 0.02}, "reorder": {"lag_s": 0.02, "share": 0.2}, "duplicate": {"share": 0.2},
    "garble": {"share": 0.1},
}  # fmt: skip


@pytest.fixture(scope="module")
def hosts():
    with Network(3) as made:
        threading.Thread(target=echo, args=(made.listener,), daemon=True).start()
        yield made


def echo(listener: socket.socket) -> None:
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:
            return
        with caller:
            while piece := caller.recv(1 << 16):
                caller.sendall(piece)


def spoiled(do: str, **rest) -> dict:
    return rules.cable(fault_step(do, "host", "fetched", seconds=1.0, **MORE[do], **rest))


def there_and_back(hosts: Network, name: str) -> None:
    """Send bytes to the log's host and back."""
    address, port = hosts.address(LOG), hosts.listener.getsockname()[1]
    words = [sys.executable, "-c", CLIENT, address, str(port), str(BYTES)]
    assert hosts.run(name, words).split() == ["True"]


def refused(hosts: Network, name: str) -> int:
    """Return how many packets of TCP a host's kernel has refused."""
    lines = hosts.run(name, ["cat", "/proc/net/snmp"]).splitlines()
    names, values = [line.split() for line in lines if line.startswith("Tcp:")]
    return int(dict(zip(names, values, strict=True))["InErrs"])


DONE = {get_type_hints(kind)["step"].do for kind in FAULTS if issubclass(kind, CableFault)}


@needs_hosts
@pytest.mark.parametrize("do", sorted(DONE))
def test_all_bytes_arrive_over_a_bad_cable_and_packets_met_it(hosts, do):
    hosts.spoil("host-2", spoiled(do))
    there_and_back(hosts, "host-2")
    there_and_back(hosts, "host-3")
    assert hosts.mend("host-2") > 0
    there_and_back(hosts, "host-2")


@needs_hosts
def test_the_kernel_refuses_packets_that_were_damaged(hosts):
    before = refused(hosts, "host-3")
    hosts.spoil("host-3", spoiled("garble", way="in", peer=LOG))
    there_and_back(hosts, "host-3")
    damaged = hosts.mend("host-3")
    # Most often as many; it does not count what it drops for want of room, or of a whole header.
    assert damaged > 0 and refused(hosts, "host-3") > before


@needs_hosts
def test_only_what_passes_between_the_two_meets_it(hosts):
    hosts.spoil("host-2", spoiled("duplicate", peer="host-3"))
    there_and_back(hosts, "host-2")
    assert hosts.mend("host-2") == 0


@needs_hosts
def test_a_partition_holds_over_a_bad_cable(hosts):
    cut = rules.drop("cut", "host-2", "", "both")
    hosts.spoil("host-2", spoiled("duplicate"))
    hosts.run("", ["nft", "-f", "-"], cut)
    address, port = hosts.address(LOG), hosts.listener.getsockname()[1]
    tried = "import socket; socket.create_connection(({!r}, {}), 0.3)".format
    with pytest.raises(OSError, match="TimeoutError"):
        hosts.run("host-2", [sys.executable, "-c", tried(address, port)])
    hosts.run("", ["nft", "delete", "table", "bridge", "cut"])
    there_and_back(hosts, "host-2")
    assert hosts.mend("host-2") > 0


@needs_hosts
def test_no_interface_of_a_bad_cable_is_left(hosts):
    before = hosts.run("", ["ip", "-o", "link"]).count("\n")
    hosts.spoil("host-2", spoiled("delay"))
    assert hosts.run("", ["ip", "-o", "link"]).count("\n") == before + 2
    hosts.mend("host-2")
    assert hosts.run("", ["ip", "-o", "link"]).count("\n") == before


def frame(payload: bytes, kind: int = 0x0800) -> bytes:
    """Return a frame of Ethernet with a packet of IPv4 around a payload."""
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, 6, 0, b"", b"")
    return bytes(12) + kind.to_bytes(2, "big") + header + payload


@given(st.binary(min_size=1, max_size=1480))
def test_damage_flips_one_bit_behind_the_header(payload):
    before = frame(payload)
    after = cable.damaged(before)
    assert after[:34] == before[:34]
    assert (int.from_bytes(after) ^ int.from_bytes(before)).bit_count() == 1


@pytest.mark.parametrize("untouched", [frame(b"", 0x0800), frame(b"abc", 0x86DD), bytes(14)])
def test_what_is_no_packet_with_content_stays_as_it_is(untouched):
    assert cable.damaged(untouched) == untouched
