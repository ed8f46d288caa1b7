"""Level P1: what causes a tail of microseconds to milliseconds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, listed, malformed
from tickproof.conformance.hosts.probes.probe import Observation, Probe

_CPU = "sys/devices/system/cpu"
_TURBO = ((f"{_CPU}/intel_pstate/no_turbo", 1), (f"{_CPU}/cpufreq/boost", 0))
_DMA = "dev/cpu_dma_latency"
_CMDLINE = "proc/cmdline"
_SHALLOW = re.compile(r"POLL|C1|C1_ACPI|WFI|C1-\w+")
_IRQ = "proc/irq"
_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
_SWAPS = "proc/swaps"
_NODE = "sys/devices/system/node"
_BALANCING = "proc/sys/kernel/numa_balancing"
_LIMITS = "proc/self/limits"
_QUEUES = "sys/devices/virtual/workqueue/cpumask"
_GUEST = "a virtual machine: only its hypervisor knows"
_MOST_NAMED = 8


def governor(host: HostFiles) -> Observation:
    """Read the frequency governor of each measuring core."""
    paths = {core: f"{_CPU}/cpu{core}/cpufreq/scaling_governor" for core in host.cores}
    found = {core: host.text(path) for core, path in paths.items()}
    for core, name in found.items():
        if not re.fullmatch(r"[a-z_]+", name):
            raise malformed(paths[core], name)
    first = f"/{paths[host.cores[0]]}"
    return Observation(first, _by_value(found), set(found.values()) == {"performance"})


def turbo(host: HostFiles) -> Observation:
    """Look for frequencies above the nominal one, by either driver."""
    for path, wanted in _TURBO:
        folder, _, name = path.rpartition("/")
        if host.names(folder, name):
            value = host.number(path)
            if value not in (0, 1):
                raise malformed(path, str(value))
            return Observation(f"/{path}", f"{name} {value}", value == wanted)
    raise Unobservable(f"/{_TURBO[0][0]}", _hidden(host))


def idle_states(host: HostFiles) -> Observation:
    """Look for idle states deeper than C1 that a measuring core may enter."""
    usable: dict[int, str] = {}
    folder = f"{_CPU}/cpu{host.cores[0]}/cpuidle"
    for core in host.cores:
        if not host.names(f"{_CPU}/cpu{core}/cpuidle", "state[0-9]*"):
            return _without_states(host, f"{_CPU}/cpu{core}/cpuidle")
        usable[core] = " ".join(deep_states(host, core).values())
    if any("haltpoll" in names for names in usable.values()):
        raise Unobservable(f"/{folder}", f"haltpoll, {_GUEST}")
    if any(usable.values()):
        return Observation(
            f"/{folder}", _by_value({c: n or "none" for c, n in usable.items()}), False
        )
    return Observation(f"/{folder}", "none deeper than C1", True)


def deep_states(host: HostFiles, core: int) -> dict[str, str]:
    """Return folder -> name of each idle state deeper than C1 that a core may enter."""
    limit_us = _latency_limit_us(host)
    found = {}
    for state in host.names(f"{_CPU}/cpu{core}/cpuidle", "state[0-9]*"):
        path = f"{_CPU}/cpu{core}/cpuidle/{state}"
        name = host.text(f"{path}/name")
        disabled, latency_us = host.number(f"{path}/disable"), host.number(f"{path}/latency")
        if not _SHALLOW.fullmatch(name) and disabled != 1 and latency_us <= limit_us:
            found[state] = name
    return found


def _latency_limit_us(host: HostFiles) -> int:
    """Return the longest wake-up that any process allows, in us; no limit if unreadable."""
    try:
        data = host.raw(_DMA)
    except Unobservable:
        return 1 << 31
    return int.from_bytes(data, "little", signed=True) if len(data) == 4 else 1 << 31


def _without_states(host: HostFiles, folder: str) -> Observation:
    """Return what the command line says of a kernel that shows no idle states."""
    words = host.text(_CMDLINE).split()
    for word in words:
        if word in ("idle=poll", "idle=halt"):
            return Observation(f"/{_CMDLINE}", word, True)
    raise Unobservable(f"/{folder}", _hidden(host))


def interrupts(host: HostFiles) -> Observation:
    """Look for interrupts that are handled on a measuring core, now or when next requested."""
    numbers = host.numbered(_IRQ)
    if not numbers:
        raise Unobservable(f"/{_IRQ}", "absent")
    measuring = set(host.cores)
    on_them = [number for number in numbers if measuring & set(_handled_on(host, number))]
    default = host.mask(f"{_IRQ}/default_smp_affinity")
    said = f"{len(on_them)} of {len(numbers)} on them"
    if on_them:
        said += f" ({', '.join(on_them[:_MOST_NAMED])}{', ...' * (len(on_them) > _MOST_NAMED)})"
    said += f"; new ones go to {listed(default)}"
    return Observation(
        f"/{_IRQ}/*/smp_affinity_list", said, not on_them and not measuring & set(default)
    )


def _handled_on(host: HostFiles, number: str) -> tuple[int, ...]:
    """Return the cores that get an interrupt the next time it comes.

    Some cannot be moved: the list of where they might go names every core, and the effective
    one tells. Others move when they come next, and those of an idle device never do: they are
    where they were asked to go, whatever the effective list says.
    """
    folder = f"{_IRQ}/{number}"
    asked = host.cores_in(f"{folder}/smp_affinity_list")
    if not host.names(folder, "effective_affinity_list"):
        return asked
    effective = host.cores_in(f"{folder}/effective_affinity_list")
    return effective if set(effective) <= set(asked) else asked


def threads(host: HostFiles) -> Observation:
    """Look for cores that share one physical core."""
    path = f"{_CPU}/smt/active"
    value = host.number(path)
    if value == 0 and host.guest:
        raise Unobservable(f"/{path}", f"0, but this is {_GUEST}")
    return Observation(f"/{path}", str(value), value == 0)


def huge_pages(host: HostFiles) -> Observation:
    """Look for transparent huge pages that nobody asked for."""
    text = host.text(_PAGES)
    found = re.search(r"\[(always|madvise|never)\]", text)
    if not found:
        raise malformed(_PAGES, text)
    return Observation(f"/{_PAGES}", found[1], found[1] != "always")


def swap(host: HostFiles) -> Observation:
    """Look for swap space."""
    lines = host.text(_SWAPS).splitlines()
    if not lines or not lines[0].startswith("Filename"):
        raise malformed(_SWAPS, "\n".join(lines))
    try:
        eager = f", swappiness {host.number('proc/sys/vm/swappiness')}"
    except Unobservable:
        eager = ""
    names = ", ".join(line.split()[0] for line in lines[1:] if line.strip())
    return Observation(f"/{_SWAPS}", names + eager if names else "no swap", not names)


def one_node(host: HostFiles) -> Observation:
    """Look for the NUMA nodes of the measuring cores."""
    names = host.names(_NODE, "node[0-9]*")
    if not names:
        raise Unobservable(f"/{_NODE}", "absent")
    cores = {name: set(host.cores_in(f"{_NODE}/{name}/cpulist")) for name in names}
    used = [name for name in names if cores[name] & set(host.cores)]
    if missing := set(host.cores) - set().union(*cores.values()):
        raise Unobservable(f"/{_NODE}/*/cpulist", f"no node has core {listed(missing)}")
    return Observation(f"/{_NODE}/*/cpulist", ", ".join(used), len(used) == 1)


def balancing(host: HostFiles) -> Observation:
    """Look for pages that move between nodes."""
    value = host.number(_BALANCING)
    return Observation(f"/{_BALANCING}", str(value), value == 0)


def locked_memory(host: HostFiles) -> Observation:
    """Read how much memory this process may lock. Capabilities do not count: the engine may
    have none."""
    text = host.text(_LIMITS)
    found = re.search(r"^Max locked memory +(unlimited|[0-9]+) ", text, re.MULTILINE)
    if not found:
        raise malformed(_LIMITS, text)
    unit = "" if found[1] == "unlimited" else " bytes"
    return Observation(f"/{_LIMITS}", f"{found[1]}{unit}", found[1] == "unlimited")


def work_queues(host: HostFiles) -> Observation:
    """Read where the kernel runs its unbound work."""
    cores = host.mask(_QUEUES)
    return Observation(f"/{_QUEUES}", f"on {listed(cores)}", not set(cores) & set(host.cores))


def _by_value(values: Mapping[int, str]) -> str:
    """Return "performance", or "2-3 powersave, 4 performance" where cores differ."""
    cores = defaultdict(list)
    for core, value in values.items():
        cores[value].append(core)
    if len(cores) == 1:
        return next(iter(cores))
    return ", ".join(f"{listed(held)} {value}" for value, held in cores.items())


def _hidden(host: HostFiles) -> str:
    return f"absent: {_GUEST}" if host.guest else "absent"


PROBES: tuple[Probe, ...] = (
    Probe("governor", "P1", "performance",
          "A core that was slowed down takes milliseconds to be fast again.", governor),
    Probe("turbo", "P1", "off",
          "With turbo the speed depends on heat and on what other cores do.", turbo),
    Probe("c-states", "P1", "none deeper than C1",
          "Waking from a deep idle state takes up to hundreds of microseconds.", idle_states),
    Probe("interrupts", "P1", "none on {cores}",
          "A device that interrupts a measuring core adds to what is measured.", interrupts),
    Probe("smt", "P1", "0",
          "Two threads of one core take turns at its units and caches.", threads),
    Probe("huge-pages", "P1", "never or madvise",
          "Memory that is compacted at a page fault stops its process.", huge_pages),
    Probe("swap", "P1", "no swap",
          "A page read back from disk takes milliseconds.", swap),
    Probe("numa-node", "P1", "one node for {cores}",
          "Memory of another node is slower to reach.", one_node),
    Probe("numa-balancing", "P1", "0",
          "Pages that move between nodes make processes fault and wait.", balancing),
    Probe("memlock", "P1", "unlimited",
          "Memory that cannot be locked can be taken away and has to be fetched.", locked_memory),
    Probe("work-queues", "P1", "off {cores}",
          "The kernel runs deferred work on the cores of this mask.", work_queues),
)  # fmt: skip
