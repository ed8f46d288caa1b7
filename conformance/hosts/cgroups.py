"""The cgroups of this process: its own and all above it, version 1 or 2."""

from __future__ import annotations

from dataclasses import dataclass

from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, malformed

_OWN = "proc/self/cgroup"
_MOUNTS = "proc/self/mountinfo"


@dataclass(frozen=True)
class Chain:
    """version: 1 or 2. folders: own cgroup first, then each one above, without leading slash.

    whole: the last one is the root of the machine. In a container it often is not, and
    what stands above cannot be seen.
    """

    version: int
    folders: tuple[str, ...]
    whole: bool


def chain(host: HostFiles, controller: str) -> Chain:
    """Return the cgroups that hold this process for one controller; raises Unobservable."""
    version, own = _own(host, controller)
    root, mount = _mount(host, controller, version)
    below = own if root == "/" else own.removeprefix(root)
    if "/.." in own or (root != "/" and below == own) or (below and below[0] != "/"):
        raise Unobservable(f"/{_OWN}", f"own cgroup {own} lies outside of what is mounted")
    parts = [part for part in below.split("/") if part]
    folders = tuple("/".join([mount, *parts[:n]]) for n in range(len(parts), -1, -1))
    return Chain(version, folders, _is_root(host, version, folders[-1]))


def _own(host: HostFiles, controller: str) -> tuple[int, str]:
    """Return version and path of the cgroup; version 1 where it has the controller."""
    unified = ""
    for line in host.text(_OWN).splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or not parts[2].startswith("/"):
            raise malformed(_OWN, line)
        if controller in parts[1].split(","):
            return 1, parts[2]
        if parts[0] == "0":
            unified = parts[2]
    if not unified:
        raise Unobservable(f"/{_OWN}", f"no cgroup with the controller {controller}")
    return 2, unified


def _mount(host: HostFiles, controller: str, version: int) -> tuple[str, str]:
    """Return (path of the cgroup that is mounted, where it is mounted, no leading slash)."""
    for line in reversed(host.text(_MOUNTS).splitlines()):
        front, _, back = line.partition(" - ")
        fields, kind = front.split(), back.split()
        if len(fields) < 5 or len(kind) < 2:
            raise malformed(_MOUNTS, line)
        if (version == 2 and kind[0] == "cgroup2") or (
            version == 1 and kind[0] == "cgroup" and controller in kind[-1].split(",")
        ):
            return fields[3], fields[4].lstrip("/").replace(r"\040", " ")
    raise Unobservable(f"/{_MOUNTS}", f"no cgroup file system of version {version} is mounted")


def _is_root(host: HostFiles, version: int, folder: str) -> bool:
    """True if a folder is the root of all cgroups, by a file that only the root has or lacks."""
    if version == 1:
        return bool(host.names(folder, "release_agent"))
    return bool(host.names(folder, "cgroup.controllers")) and not host.names(folder, "cgroup.type")
