"""Hosts as network namespaces: they reach each other, and nothing is left of them."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tickproof import conformance
from tickproof.conformance.engines import network
from tickproof.conformance.engines.network import LOG, Network, NetworkError
from tickproof.conformance.engines.switch import FIRST_PORT, PORTS
from tickproof.conformance.errors import RequestError
from tickproof.conformance.faults import network_rules as rules

WAIT_S = 20.0
#: Of three hosts and the log's.
WIDTH = PORTS // 4
CONNECT = "import socket; socket.create_connection(({!r}, {}), {})"

needs_hosts = pytest.mark.skipif(
    bool(network.obstacle()), reason=f"no hosts on this machine: {network.obstacle()}"
)


def interfaces() -> list[str]:
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def hosts():
    with Network(3) as made:
        yield made


def connects(hosts: Network, name: str, timeout_s: float = WAIT_S) -> bool:
    """Connect from a host to the log's."""
    address, port = hosts.address(LOG), hosts.listener.getsockname()[1]
    try:
        hosts.run(name, [sys.executable, "-c", CONNECT.format(address, port, timeout_s)])
    except NetworkError:
        return False
    return True


@needs_hosts
def test_every_host_reaches_the_log_from_ports_of_its_own(hosts):
    hosts.listener.settimeout(WAIT_S)
    found = {}
    for name in hosts.names:
        assert connects(hosts, name)
        with hosts.listener.accept()[0] as accepted:
            found[accepted.getpeername()[0]] = (accepted.getpeername()[1] - FIRST_PORT) // WIDTH
    assert list(found) == [hosts.address(name) for name in hosts.names]
    assert len(set(found.values())) == 3


@needs_hosts
def test_the_log_s_address_takes_the_place_of_a_broker_s(hosts):
    assert len(hosts.address(LOG)) == len("127.0.0.1")


@needs_hosts
def test_the_machine_s_own_network_and_mounts_stay_as_they_are():
    before = interfaces(), mounts()
    with Network(2):
        assert (interfaces(), mounts()) == before
    assert (interfaces(), mounts()) == before


@needs_hosts
def test_what_is_at_home_elsewhere_is_on_no_host(hosts):
    assert hosts.host_of(os.getpid()) == ""
    assert hosts.host_of(2**22) == ""
    assert hosts.knows("host-3") and hosts.knows(LOG) and not hosts.knows("host-4")


@needs_hosts
def test_only_the_first_host_needs_no_command_to_start_something(hosts):
    first, *others = hosts.hosts_member()
    assert (first["name"], first["start"]) == ("host-1", [])
    assert [one["start"][-1] for one in others] == [one["address"] for one in others]


@needs_hosts
@pytest.mark.parametrize("way", ["both", "out", "in"])
def test_a_partition_drops_what_it_says_and_counts_it(hosts, way):
    hosts.run("", ["nft", "-f", "-"], rules.drop("cut", "host-2", LOG, way))
    assert connects(hosts, "host-1")
    assert not connects(hosts, "host-2", timeout_s=0.3)
    listing = hosts.run("", ["nft", "-j", "list", "table", "bridge", "cut"])
    assert rules.dropped(listing) > 0
    hosts.run("", ["nft", "delete", "table", "bridge", "cut"])
    assert connects(hosts, "host-2")


WAITS = """
import socket, sys
try:
    log = socket.create_connection(({!r}, {}), 20)  # where it is slow, reset before it returns
    print(log.recv(1))
except ConnectionResetError:
    print("reset")
"""


@needs_hosts
@pytest.mark.parametrize("share", [1.0, 0.9999])
def test_a_reset_by_the_log_passes(hosts, share):
    if hosts.user >= 0:
        pytest.skip("nsenter takes root")
    space = hosts.spaces[1]
    enter = ["nsenter", f"--net=/proc/self/fd/{space}", sys.executable, "-c"]
    waits = WAITS.format(hosts.address(LOG), hosts.listener.getsockname()[1])
    hosts.listener.settimeout(WAIT_S)
    with subprocess.Popen([*enter, waits], stdout=subprocess.PIPE, pass_fds=[space]) as waiting:
        accepted, _ = hosts.listener.accept()
        hosts.run("", ["nft", "-f", "-"], rules.drop("cut", hosts.names[1], "", "both", share))
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        assert waiting.communicate(timeout=WAIT_S)[0] == b"reset\n"
    assert not connects(hosts, hosts.names[1], timeout_s=0.3)


@needs_hosts
def test_a_tool_that_fails_says_why(hosts):
    with pytest.raises(NetworkError, match=r"nft -f -: .*syntax error"):
        hosts.run("", ["nft", "-f", "-"], "add nonsense")


KIT = """
import sys
from tickproof.conformance.engines.network import Network
with Network(3) as made:
    made.spoil("host-2", dict(do="delay", lag_s=0.1, share=1.0, ways=["out"], peer=""))
    print(made._process.pid, flush=True)
    sys.stdin.read()
"""


@needs_hosts
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_kit_dies(number):
    before = interfaces(), mounts()
    root = Path(conformance.__file__).parents[2]
    kit = subprocess.Popen(
        [sys.executable, "-c", KIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    with kit:
        # What it holds is all that keeps the namespaces.
        switch = psutil.Process(int(kit.stdout.readline()))
        (cable,) = switch.children()
        kit.send_signal(number)
        kit.wait(WAIT_S)
        assert psutil.wait_procs([switch, cable], WAIT_S)[1] == []
    assert (interfaces(), mounts()) == before


def test_an_engine_without_hosts_is_refused():
    with pytest.raises(RequestError, match=r"single has no \[hosts\] in its engine.toml"):
        network.demand({}, "single")


def test_a_tool_that_is_missing_is_named_with_its_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert network.obstacle.__wrapped__() == "ip is missing; it comes with the package iproute2"


def test_what_the_machine_refuses_is_said_in_a_sentence(monkeypatch):
    def refused(hosts):
        raise NetworkError("no network for hosts: unshare: Operation not permitted")

    monkeypatch.setattr(network, "Network", refused)
    monkeypatch.setattr(network.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(network, "obstacle", network.obstacle.__wrapped__)
    with pytest.raises(RequestError, match="this machine cannot give them: no network for hosts"):
        network.demand({"worker": "any", "coordinator": "first"}, "miniature")
