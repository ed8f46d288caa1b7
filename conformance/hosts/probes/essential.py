"""Level P0: without these no latency figure means anything."""

from __future__ import annotations

import re

from tickproof.conformance.hosts import realtime
from tickproof.conformance.hosts.cgroups import Chain, chain
from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, listed, malformed
from tickproof.conformance.hosts.probes.probe import Observation, Probe
from tickproof.conformance.hosts.visible_cores import usable

_PRESSURE = "proc/pressure/cpu"
_MOST_PRESSURE = 5.0
_CPU = "sys/devices/system/cpu"
_LIMITS = "proc/self/limits"
_STATUS = "proc/self/status"
_THROTTLE = "proc/sys/kernel/sched_rt_runtime_us"
_CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
#: Counters of the processor itself, read without a call into the kernel.
_CLOCKS = ("tsc", "arch_sys_counter")
_CAP_SYS_NICE = 23


def quota(host: HostFiles) -> Observation:
    """Look for a CPU quota of the own cgroup and of every one above it."""
    groups = chain(host, "cpu")
    name = "cpu.max" if groups.version == 2 else "cpu.cfs_quota_us"
    for folder in groups.folders:
        limit = _limit(host, groups, folder)
        if limit is not None:
            return Observation(f"/{folder}/{name}", limit, False)
    if not groups.whole:
        above = "no limit here; what stands above this container cannot be seen"
        raise Unobservable(f"/{groups.folders[-1]}/{name}", above)
    count = len(groups.folders)
    value = f"no limit in {count} cgroup{'s' if count > 1 else ''}"
    return Observation(f"/{groups.folders[0]}/{name}", value, True)


def _limit(host: HostFiles, groups: Chain, folder: str) -> str | None:
    """Return the quota of one cgroup, None where it has none; raises Unobservable."""
    top = groups.whole and folder == groups.folders[-1]
    if groups.version == 1:
        path = f"{folder}/cpu.cfs_quota_us"
        if top and not host.names(folder, "cpu.cfs_quota_us"):
            return None
        quota_us = host.number(path)
        return None if quota_us < 0 else f"{quota_us} us"
    path = f"{folder}/cpu.max"
    # The root has no limit; nor has a cgroup that was not given the controller.
    if not host.names(folder, "cpu.max") and (
        top or "cpu" not in host.text(f"{folder}/cgroup.controllers").split()
    ):
        return None
    text = host.text(path)
    if not re.fullmatch(r"(max|[0-9]+) [0-9]+", text):
        raise malformed(path, text)
    return None if text.startswith("max") else text


def pressure(host: HostFiles) -> Observation:
    """Read for how long some process waited for a core, over ten seconds."""
    text = host.text(_PRESSURE)
    found = re.match(r"some avg10=([0-9]+\.[0-9]+) avg60=[0-9.]+ ", text)
    if not found:
        raise malformed(_PRESSURE, text)
    return Observation(f"/{_PRESSURE}", f"{found[1]} %", float(found[1]) <= _MOST_PRESSURE)


def affinity(host: HostFiles) -> Observation:
    """Compare the cores that this process may use with those that it needs."""
    cores = usable(host)
    return Observation(f"/{_STATUS}", listed(cores), set(host.cores) <= set(cores))


def partition(host: HostFiles) -> Observation:
    """Look for an isolated cpuset around this process: the nearest that is a partition."""
    groups = chain(host, "cpuset")
    if groups.version == 1:
        return _exclusive(host, groups)
    value = path = ""
    for folder in groups.folders:
        if not host.names(folder, "cpuset.cpus.partition"):
            continue
        path = f"{folder}/cpuset.cpus.partition"
        value = host.text(path)
        if not re.fullmatch(r"(member|root|isolated)( invalid.*)?", value):
            raise malformed(path, value)
        if value != "member":
            break
    if not path:
        raise Unobservable(f"/{groups.folders[0]}/cpuset.cpus.partition", "absent")
    return Observation(f"/{path}", value, value == "isolated")


def _exclusive(host: HostFiles, groups: Chain) -> Observation:
    """Look for cpu_exclusive of version 1. The root says 1 too, and is everybody's."""
    own = groups.folders[:-1] if groups.whole else groups.folders
    path = f"{groups.folders[0]}/cpuset.cpu_exclusive"
    if not own:
        return Observation(f"/{path}", "the root cpuset, which all processes share", False)
    flags = [host.number(f"{folder}/cpuset.cpu_exclusive") for folder in own]
    return Observation(f"/{path}", f"cpu_exclusive {flags[0]}", 1 in flags)


def isolated(host: HostFiles) -> Observation:
    """Look for isolcpus of the kernel command line."""
    return _holds_measuring(host, f"{_CPU}/isolated")


def tickless(host: HostFiles) -> Observation:
    """Look for nohz_full of the kernel command line."""
    return _holds_measuring(host, f"{_CPU}/nohz_full")


def _holds_measuring(host: HostFiles, path: str) -> Observation:
    cores = host.cores_in(path)
    return Observation(f"/{path}", listed(cores), set(host.cores) <= set(cores))


def real_time(host: HostFiles) -> Observation:
    """Say whether SCHED_FIFO may be set: tried, where this is the host itself."""
    text = host.text(_LIMITS)
    found = re.search(r"^Max realtime priority +(unlimited|[0-9]+) ", text, re.MULTILINE)
    if not found:
        raise malformed(_LIMITS, text)
    value = f"RLIMIT_RTPRIO {found[1]}"
    if host.live:
        why = realtime.refused()
        return Observation(f"/{_LIMITS}", f"{value}, tried: {why or 'allowed'}", not why)
    capable = _capabilities(host) >> _CAP_SYS_NICE & 1
    value += ", CAP_SYS_NICE" if capable else ""
    return Observation(f"/{_LIMITS}", value, bool(capable) or found[1] != "0")


def _capabilities(host: HostFiles) -> int:
    text = host.text(_STATUS)
    found = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", text, re.MULTILINE)
    if not found:
        raise malformed(_STATUS, text)
    return int(found[1], 16)


def throttling(host: HostFiles) -> Observation:
    """Read how much time real-time processes must leave to others."""
    value = host.number(_THROTTLE)
    return Observation(f"/{_THROTTLE}", str(value), value == -1)


def clock(host: HostFiles) -> Observation:
    """Read which clock the kernel tells time by."""
    name = host.text(_CLOCK)
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        raise malformed(_CLOCK, name)
    return Observation(f"/{_CLOCK}", name, name in _CLOCKS)


PROBES: tuple[Probe, ...] = (
    Probe("cpu-quota", "P0", "no limit up to the root",
          "A quota stops all threads for the rest of its period, up to 100 ms.", quota),
    Probe("cpu-pressure", "P0", f"some avg10 at most {_MOST_PRESSURE:g} %",
          "While processes wait for a core, their wait is measured as latency.", pressure),
    Probe("affinity", "P0", "hold {cores}",
          "A core that may not be used cannot be given to kit or engine.", affinity),
    Probe("cpuset-partition", "P0", "isolated",
          "Other processes are moved onto cores that are not set apart.", partition),
    Probe("isolated-cores", "P0", "hold {cores}",
          "The scheduler balances other work onto cores without isolcpus.", isolated),
    Probe("nohz-full", "P0", "hold {cores}",
          "The timer interrupts a busy core 100 to 1,000 times a second.", tickless),
    Probe("real-time-policy", "P0", "SCHED_FIFO allowed",
          "Without it any process may take the core of the generator.", real_time),
    Probe("real-time-throttling", "P0", "-1",
          "A real-time process is stopped for 50 ms of each second it is busy.", throttling),
    Probe("clock-source", "P0", "tsc",
          "Another clock costs a call into the kernel, microseconds each.", clock),
)  # fmt: skip
