"""Find the processes at the other end of TCP connections in /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from typing import Final

from tickproof.conformance.usage.process_sample import sockets

#: The tables of a network namespace. A socket of IPv6 may speak IPv4, as those of Java do.
_TABLES: Final = ("tcp", "tcp6")
_LOOPBACK: Final = (b"0100007F", b"0000000000000000FFFF00000100007F")
#: What the address of a host of `engines.network` ends with.
_HOSTS: Final = b"0200C0"


def holders(pids: Iterable[int], ports: Collection[int], server: int) -> dict[int, list[int]]:
    """Return port -> pids, of ``pids``, that hold the connection from it to the server's port.

    Both ports are of 127.0.0.1, in the network namespace that the processes are in, or of hosts
    of our own network, of which no two use the same port. A process that has ended, or that this
    user may not look into, holds none.
    """
    found: dict[int, list[int]] = {}
    tables: dict[str, dict[int, int]] = {}
    for pid in pids:
        try:
            network = os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
            if network not in tables:
                tables[network] = _inodes(pid, ports, server)
            held = sockets(pid) if tables[network] else []
        except OSError:
            continue
        for port in {tables[network][inode] for inode in held if inode in tables[network]}:
            found.setdefault(port, []).append(pid)
    return found


def _inodes(pid: int, ports: Collection[int], server: int) -> dict[int, int]:
    """Return inode -> port of the sockets that are connected to the server from these ports."""
    wanted = {f"{port:04X}".encode(): port for port in ports}
    peer = f":{server:04X}".encode()
    found: dict[int, int] = {}
    for name in _TABLES:
        if len(found) >= len(wanted):
            break  # the second table may be long
        lines: list[bytes] = []
        with (
            contextlib.suppress(FileNotFoundError),  # a kernel without IPv6
            open(f"/proc/{pid}/net/{name}", "rb") as file,  # noqa: PTH123
        ):
            lines = file.read().splitlines()[1:]
        for line in lines:
            if peer not in line:
                continue
            fields = line.split()
            address, _, port = fields[1].partition(b":")
            ours = address in _LOOPBACK or address.endswith(_HOSTS)
            if ours and fields[2].endswith(peer) and port in wanted:
                found[int(fields[9])] = wanted[port]
    found.pop(0, None)  # closed: nobody's any more
    return found
