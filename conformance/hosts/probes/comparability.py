"""Level P2: what comparing figures of different hosts or days needs in addition."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import NamedTuple

from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, malformed
from tickproof.conformance.hosts.probes.probe import Observation, Probe

_STAT = "proc/stat"
_CPUINFO = "proc/cpuinfo"
_NET = "proc/sys/net/core"
#: Steal is watched for so many ticks of 10 ms over all cores, or until the deadline.
_TICKS = 10
_DEADLINE_S = 0.15
_STEP_S = 0.01
LEAST_BUFFER = 4 << 20
LEAST_BACKLOG = 10_000
LEAST_POLL_US = 50
_SAME = "the same before and after"


def steal(host: HostFiles) -> Observation:
    """Look for time that a hypervisor gave to others while this machine wanted it."""
    before = _ticks(host)
    if before.stolen == 0:
        if host.guest:
            raise Unobservable(f"/{_STAT}", "0 since boot: this hypervisor may not tell")
        return Observation(f"/{_STAT}", "0 ticks since boot", True)
    deadline = time.monotonic() + _DEADLINE_S
    after = before
    while after.total < before.total + _TICKS and time.monotonic() < deadline:
        time.sleep(_STEP_S)
        after = _ticks(host)
    passed, lost = after.total - before.total, after.stolen - before.stolen
    if passed <= 0 or lost < 0:
        raise Unobservable(f"/{_STAT}", "the counters stood still")
    return Observation(f"/{_STAT}", f"{lost} of {passed} ticks", lost == 0)


class _Ticks(NamedTuple):
    """Ticks since boot, over all cores."""

    total: int
    stolen: int


def _ticks(host: HostFiles) -> _Ticks:
    text = host.text(_STAT, fresh=True)
    found = re.match(r"cpu ((?: [0-9]+){8})", text)
    if not found:
        raise malformed(_STAT, text.partition("\n")[0])
    ticks = list(map(int, found[1].split()))
    return _Ticks(sum(ticks), ticks[7])  # user nice system idle iowait irq softirq steal


def microcode(host: HostFiles) -> Observation:
    """Read the microcode of the processors: a fact, which cannot be wrong in itself."""
    found = re.findall(r"^microcode\s*: (\S+)$", host.text(_CPUINFO), re.MULTILINE)
    if not found:
        raise Unobservable(f"/{_CPUINFO}", "no line microcode")
    return Observation(f"/{_CPUINFO}", ", ".join(sorted(set(found))), True)


def kernel(host: HostFiles) -> Observation:
    """Read release and build of the kernel: a fact, which cannot be wrong in itself."""
    path = "proc/sys/kernel/osrelease"
    release, build = host.text(path), host.text("proc/sys/kernel/version")
    if not release:
        raise malformed(path, release)
    return Observation(f"/{path}", f"{release} {build}", True)


def _at_least(name: str, least: int) -> Callable[[HostFiles], Observation]:
    """Return a probe of a number under net.core."""

    def number(host: HostFiles) -> Observation:
        value = host.number(f"{_NET}/{name}")
        return Observation(f"/{_NET}/{name}", str(value), value >= least)

    return number


PROBES: tuple[Probe, ...] = (
    Probe("steal", "P2", "no tick stolen",
          "Time that a hypervisor takes stops everything at once.", steal),
    Probe("microcode", "P2", _SAME,
          "Microcode changes what a processor does against its flaws, and its speed.", microcode),
    Probe("kernel", "P2", _SAME,
          "Figures of two kernels are figures of two machines.", kernel),
    Probe("net-receive-buffer", "P2", f"at least {LEAST_BUFFER}",
          "A receive buffer that is full stops its sender.",
          _at_least("rmem_max", LEAST_BUFFER)),
    Probe("net-send-buffer", "P2", f"at least {LEAST_BUFFER}",
          "A send buffer that is full stops the process that writes.",
          _at_least("wmem_max", LEAST_BUFFER)),
    Probe("net-backlog", "P2", f"at least {LEAST_BACKLOG}",
          "Packets beyond the backlog are dropped and sent again 200 ms later.",
          _at_least("netdev_max_backlog", LEAST_BACKLOG)),
    Probe("net-busy-poll", "P2", f"at least {LEAST_POLL_US}",
          "A socket that polls does not wait for an interrupt.",
          _at_least("busy_poll", LEAST_POLL_US)),
)  # fmt: skip
