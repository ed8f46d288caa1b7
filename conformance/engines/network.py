"""A network of hosts on this machine: network namespaces of our own, for one run.

switch.py holds them, and says how they vanish. Nothing of the machine's own network is touched.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import RequestError, TickproofError

#: The host of the kit's log server, or of the broker. An engine's hosts are host-1, host-2, ...
LOG: Final = "log"
_PREFIX: Final = "host-"
#: Of the range that is reserved for documentation (RFC 5737): no machine has it.
_SUBNET: Final = "192.0.2."
#: As long as 127.0.0.1 with it: the proxy puts this address in its place in what a broker says.
_LOG_NUMBER: Final = 1
#: More addresses of that host, as there are of the loopback: one for each broker of a cluster.
_BROKERS: Final = (2, 3, 4)
_FIRST_NUMBER: Final = 11
#: One alone has no network; more would have too few ports each.
FEWEST: Final = 2
MOST: Final = 32
_HERE: Final = Path(__file__).parent
_SWITCH: Final = _HERE / "switch.py"
_STARTER: Final = _HERE / "host_starter.py"
TOOLS: Final[Mapping[str, str]] = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
#: What faults of the network take of nftables, and of tc.
_TRIAL: Final = """table bridge trial {
chain passing {
type filter hook forward priority 0;
iifname "host-1" ip protocol tcp numgen random mod 100 < 5 counter drop
}
}
"""
_TRIAL_TC: Final = "tc qdisc add dev host-1 root tbf rate 1mbit burst 32kb limit 1mb"
_TRIAL_CABLE: Final = {"do": "delay", "lag_s": 0.0, "share": 1.0, "ways": ["out"], "peer": ""}
_ANSWER: Final = 1 << 20


class NetworkError(TickproofError, OSError):
    """A network cannot be laid out, or a tool in it failed."""


def names(hosts: int) -> list[str]:
    """Return the names of an engine's hosts."""
    return [f"{_PREFIX}{number}" for number in range(1, hosts + 1)]


def port(name: str) -> str:
    """Return what is on the bridge in a host's place while its cable is a bad one."""
    return f"{name}-port"


class Network:
    """Hosts, and cables to one switch. Thread-safe; use as a context manager.

    ``port``: the one that the log server, or the proxy before a broker, is reached at. Raises
    NetworkError.
    """

    def __init__(self, hosts: int, port: int = 0) -> None:
        self.names = names(hosts)
        self._addresses = {LOG: f"{_SUBNET}{_LOG_NUMBER}"} | {
            name: f"{_SUBNET}{number}" for number, name in enumerate(self.names, _FIRST_NUMBER)
        }
        self._lock = threading.Lock()
        self._kit, its = socket.socketpair()
        more = ",".join(f"{_SUBNET}{number}" for number in _BROKERS)
        pairs = [f"{name}={address}" for name, address in self._addresses.items()]
        pairs[0] += f",{more}"
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SWITCH), str(its.fileno()), str(port), *pairs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                start_new_session=True,
                cwd="/",
            )
        self._rest = b""
        self._descriptors: list[int] = []
        try:
            answer = self._receive(len(self._addresses) + 2)
            if not answer["ok"]:
                raise NetworkError(f"no network for hosts: {answer['error']}")
        except BaseException:
            self.close()
            raise
        listener, *self._descriptors = self._descriptors
        #: Where the log server is reached on its host.
        self.listener = socket.socket(fileno=listener)
        users = self._descriptors[: answer["user"]]
        #: Of the user namespace that the others belong to, -1 where that is the machine's.
        self.user = users[0] if users else -1
        spaces = self._descriptors[len(users) :]
        self._inodes = {
            os.fstat(space).st_ino: name
            for name, space in zip(self._addresses, spaces, strict=True)
        }
        #: Of the network namespaces of the engine's hosts, in the order of ``names``.
        self.spaces = spaces[1:]

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def address(self, name: str) -> str:
        """Return the IPv4 address of a host."""
        return self._addresses[name]

    def knows(self, name: str) -> bool:
        """Tell whether there is a host of this name."""
        return name in self._addresses

    def host_of(self, pid: int) -> str:
        """Return the name of the host that a process is on, "" for none of these or if gone."""
        try:
            return self._inodes.get(Path(f"/proc/{pid}/ns/net").stat().st_ino, "")
        except OSError:
            return ""

    def hosts_member(self) -> list[dict[str, Any]]:
        """Return the member ``hosts`` of deploy: how an engine starts its processes where."""
        starter = [sys.executable, "-I", "-S", str(_STARTER), "on"]
        return [
            {
                "name": name,
                "address": self.address(name),
                "start": [*starter, self.address(name)] if number else [],
            }
            for number, name in enumerate(self.names)
        ]

    def run(self, name: str, command: list[str], text: str = "") -> str:
        """Run a tool on a host, on the switch where ``name`` is "", and return what it printed.

        Raises NetworkError where it fails.
        """
        return self._ask(" ".join(command), host=name, run=command, input=text)

    def spoil(self, name: str, fault: Mapping[str, Any]) -> None:
        """Have all that a host sends and is sent go over a bad cable; cable.py says of what kind.

        A packet that comes in the moment of the change may be lost. Raises NetworkError.
        """
        self._ask(f"cable of {name}", host=name, cable={**fault, "port": port(name)})

    def mend(self, name: str) -> int:
        """Give a host its cable back; returns how many packets met the bad one's fault."""
        return int(self._ask(f"cable of {name}", host=name, cable=None))

    def _ask(self, what: str, **asked: Any) -> str:
        with self._lock:
            self._kit.sendall(json.dumps(asked).encode() + b"\n")
            answer = self._receive()
        if answer["status"]:
            raise NetworkError(f"{what}: {answer['error'].strip()}")
        return str(answer["out"])

    def _receive(self, descriptors: int = 0) -> dict[str, Any]:
        while b"\n" not in self._rest:
            data, passed, _, _ = socket.recv_fds(self._kit, _ANSWER, descriptors)
            self._descriptors += passed
            if not data:
                raise NetworkError("the network of the hosts is gone")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))

    def close(self) -> None:
        """Let go of the namespaces; they are gone with the last process in them."""
        self._kit.close()
        self._process.wait()
        while self._descriptors:
            os.close(self._descriptors.pop())
        with contextlib.suppress(AttributeError):
            self.listener.close()


def demand(placement: Mapping[str, str], engine: str) -> None:
    """Raise RequestError where an engine cannot be run on several hosts of this machine.

    placement: [hosts] of its engine.toml, empty where it has none.
    """
    if not placement:
        raise RequestError(
            f"--hosts: {engine} has no [hosts] in its engine.toml, which says what runs where"
        )
    if why := obstacle():
        raise RequestError(f"--hosts: this machine cannot give them: {why}")


@functools.cache
def obstacle() -> str:
    """Say what keeps this machine from having hosts of its own, or ""."""
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool} is missing; it comes with the package {package}"
    try:
        with Network(FEWEST) as network:
            network.run("", ["nft", "-f", "-"], _TRIAL)
            network.run("", _TRIAL_TC.split())
            network.spoil("host-1", _TRIAL_CABLE)
            network.mend("host-1")
    except OSError as error:
        return str(error)
    return ""
