"""Level P2: what a comparison between hosts and days needs besides."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from tickproof.conformance.hosts.host_files import Look, Unseen, malformed
from tickproof.conformance.hosts.probes.probe import Probe, Seen

_STAT = "proc/stat"
_CPUINFO = "proc/cpuinfo"
_NET = "proc/sys/net/core"
#: A look at steal ends with so many ticks of 10 ms over all cores, or at the deadline.
_TICKS = 10
_DEADLINE_S = 0.15
_STEP_S = 0.01
LEAST_BUFFER = 4 << 20
LEAST_BACKLOG = 10_000
LEAST_POLL_US = 50
_SAME = "the same before and after"


def steal(look: Look) -> Seen:
    """Look for time that a hypervisor gave to others while this machine wanted it."""
    total, stolen = _ticks(look)
    if stolen == 0:
        if look.guest:
            raise Unseen(f"/{_STAT}", "0 since boot: this hypervisor may not tell")
        return Seen(f"/{_STAT}", "0 ticks since boot", True)
    deadline = time.monotonic() + _DEADLINE_S
    later = (total, stolen)
    while later[0] < total + _TICKS and time.monotonic() < deadline:
        time.sleep(_STEP_S)
        later = _ticks(look)
    passed, lost = later[0] - total, later[1] - stolen
    if passed <= 0 or lost < 0:
        raise Unseen(f"/{_STAT}", "the counters stood still")
    return Seen(f"/{_STAT}", f"{lost} of {passed} ticks", lost == 0)


def _ticks(look: Look) -> tuple[int, int]:
    """Return (all ticks, those stolen) since boot, over all cores."""
    text = look.text(_STAT, fresh=True)
    found = re.match(r"cpu ((?: [0-9]+){8})", text)
    if not found:
        raise malformed(_STAT, text.partition("\n")[0])
    ticks = list(map(int, found[1].split()))
    return sum(ticks), ticks[7]


def microcode(look: Look) -> Seen:
    """Read the microcode of the processors: a fact, which cannot be wrong in itself."""
    found = re.findall(r"^microcode\s*: (\S+)$", look.text(_CPUINFO), re.MULTILINE)
    if not found:
        raise Unseen(f"/{_CPUINFO}", "no line microcode")
    return Seen(f"/{_CPUINFO}", ", ".join(sorted(set(found))), True)


def kernel(look: Look) -> Seen:
    """Read release and build of the kernel: a fact, which cannot be wrong in itself."""
    path = "proc/sys/kernel/osrelease"
    release, build = look.text(path), look.text("proc/sys/kernel/version")
    if not release:
        raise malformed(path, release)
    return Seen(f"/{path}", f"{release} {build}", True)


def _at_least(name: str, least: int) -> Callable[[Look], Seen]:
    """Return a probe of a number under net.core."""

    def number(look: Look) -> Seen:
        value = look.number(f"{_NET}/{name}")
        return Seen(f"/{_NET}/{name}", str(value), value >= least)

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
