"""Cores that this process may use, and their kinds: isolated, siblings, nodes."""

from __future__ import annotations

import re

from tickproof.conformance.hosts import realtime
from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, malformed, parse_list

_STATUS = "proc/self/status"
_CPU = "sys/devices/system/cpu"


def usable(host: HostFiles) -> tuple[int, ...]:
    """Return the cores that this process may use, ascending; raises Unobservable.

    A process starts without the isolated cores, though it may move to them. So where it
    has just all the others, which nobody chose, the isolated ones that the kernel lets it
    have are added.
    """
    online = set(host.online)
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)$", host.text(_STATUS), re.MULTILINE)
    cores = parse_list(found[1]) if found else None
    if cores is None:
        raise malformed(_STATUS, found[1] if found else host.text(_STATUS))
    allowed = online & set(cores)
    isolated = set(isolated_of(host)) & online
    if isolated and allowed == online - isolated:
        every = tuple(sorted(online))
        return realtime.settable(every) or tuple(sorted(allowed)) if host.live else every
    return tuple(sorted(allowed))


def isolated_of(host: HostFiles) -> tuple[int, ...]:
    """Return the isolated cores; () where there are none or none can be seen."""
    return _cores(host, f"{_CPU}/isolated")


def siblings(host: HostFiles, core: int) -> tuple[int, ...]:
    """Return the cores that share one physical core with ``core``, itself among them."""
    found = _cores(host, f"{_CPU}/cpu{core}/topology/thread_siblings_list")
    return found if core in found else (core,)


def nodes(host: HostFiles) -> dict[str, tuple[int, ...]]:
    """Return NUMA node -> its cores; empty where nodes cannot be seen."""
    names = host.names("sys/devices/system/node", "node[0-9]*")
    return {name: _cores(host, f"sys/devices/system/node/{name}/cpulist") for name in names}


def _cores(host: HostFiles, path: str) -> tuple[int, ...]:
    try:
        return host.cores_in(path)
    except Unobservable:
        return ()
