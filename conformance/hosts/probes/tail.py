"""Level P1: what makes a tail of microseconds to milliseconds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from tickproof.conformance.hosts.host_files import Look, Unseen, listed, malformed
from tickproof.conformance.hosts.probes.probe import Probe, Seen

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


def governor(look: Look) -> Seen:
    """Read the frequency governor of each measuring core."""
    paths = {core: f"{_CPU}/cpu{core}/cpufreq/scaling_governor" for core in look.cores}
    found = {core: look.text(path) for core, path in paths.items()}
    for core, name in found.items():
        if not re.fullmatch(r"[a-z_]+", name):
            raise malformed(paths[core], name)
    first = f"/{paths[look.cores[0]]}"
    return Seen(first, _by_value(found), set(found.values()) == {"performance"})


def turbo(look: Look) -> Seen:
    """Look for frequencies above the nominal one, by either driver."""
    for path, wanted in _TURBO:
        folder, _, name = path.rpartition("/")
        if look.names(folder, name):
            value = look.number(path)
            if value not in (0, 1):
                raise malformed(path, str(value))
            return Seen(f"/{path}", f"{name} {value}", value == wanted)
    raise Unseen(f"/{_TURBO[0][0]}", _hidden(look))


def idle_states(look: Look) -> Seen:
    """Look for idle states deeper than C1 that a measuring core may enter."""
    usable: dict[int, str] = {}
    folder = f"{_CPU}/cpu{look.cores[0]}/cpuidle"
    for core in look.cores:
        if not look.names(f"{_CPU}/cpu{core}/cpuidle", "state[0-9]*"):
            return _without_states(look, f"{_CPU}/cpu{core}/cpuidle")
        usable[core] = " ".join(deep_states(look, core).values())
    if any("haltpoll" in names for names in usable.values()):
        raise Unseen(f"/{folder}", f"haltpoll, {_GUEST}")
    if any(usable.values()):
        return Seen(f"/{folder}", _by_value({c: n or "none" for c, n in usable.items()}), False)
    return Seen(f"/{folder}", "none deeper than C1", True)


def deep_states(look: Look, core: int) -> dict[str, str]:
    """Return folder -> name of each idle state deeper than C1 that a core may enter."""
    limit_us = _latency_limit_us(look)
    found = {}
    for state in look.names(f"{_CPU}/cpu{core}/cpuidle", "state[0-9]*"):
        path = f"{_CPU}/cpu{core}/cpuidle/{state}"
        name = look.text(f"{path}/name")
        disabled, latency_us = look.number(f"{path}/disable"), look.number(f"{path}/latency")
        if not _SHALLOW.fullmatch(name) and disabled != 1 and latency_us <= limit_us:
            found[state] = name
    return found


def _latency_limit_us(look: Look) -> int:
    """Return the longest wake-up that any process allows, in us; no limit if unreadable."""
    try:
        data = look.raw(_DMA)
    except Unseen:
        return 1 << 31
    return int.from_bytes(data, "little", signed=True) if len(data) == 4 else 1 << 31


def _without_states(look: Look, folder: str) -> Seen:
    """Return what the command line says of a kernel that shows no idle states."""
    words = look.text(_CMDLINE).split()
    for word in words:
        if word in ("idle=poll", "idle=halt"):
            return Seen(f"/{_CMDLINE}", word, True)
    raise Unseen(f"/{folder}", _hidden(look))


def interrupts(look: Look) -> Seen:
    """Look for interrupts that are handled on a measuring core, now or when next requested."""
    numbers = look.numbered(_IRQ)
    if not numbers:
        raise Unseen(f"/{_IRQ}", "absent")
    measuring = set(look.cores)
    on_them = [number for number in numbers if measuring & set(_handled_on(look, number))]
    default = look.mask(f"{_IRQ}/default_smp_affinity")
    said = f"{len(on_them)} of {len(numbers)} on them"
    if on_them:
        said += f" ({', '.join(on_them[:_MOST_NAMED])}{', ...' * (len(on_them) > _MOST_NAMED)})"
    said += f"; new ones go to {listed(default)}"
    return Seen(f"/{_IRQ}/*/smp_affinity_list", said, not on_them and not measuring & set(default))


def _handled_on(look: Look, number: str) -> tuple[int, ...]:
    """Return the cores of one interrupt: where the kernel tells, those that really get it.

    Some interrupts cannot be moved; the list of where they might go names every core.
    """
    folder = f"{_IRQ}/{number}"
    asked = look.cores_in(f"{folder}/smp_affinity_list")
    if look.names(folder, "effective_affinity_list"):
        return look.cores_in(f"{folder}/effective_affinity_list")
    return asked


def threads(look: Look) -> Seen:
    """Look for two cores that are one."""
    path = f"{_CPU}/smt/active"
    value = look.number(path)
    if value == 0 and look.guest:
        raise Unseen(f"/{path}", f"0, but this is {_GUEST}")
    return Seen(f"/{path}", str(value), value == 0)


def huge_pages(look: Look) -> Seen:
    """Look for transparent huge pages that nobody asked for."""
    text = look.text(_PAGES)
    found = re.search(r"\[(always|madvise|never)\]", text)
    if not found:
        raise malformed(_PAGES, text)
    return Seen(f"/{_PAGES}", found[1], found[1] != "always")


def swap(look: Look) -> Seen:
    """Look for swap space."""
    lines = look.text(_SWAPS).splitlines()
    if not lines or not lines[0].startswith("Filename"):
        raise malformed(_SWAPS, "\n".join(lines))
    try:
        eager = f", swappiness {look.number('proc/sys/vm/swappiness')}"
    except Unseen:
        eager = ""
    names = ", ".join(line.split()[0] for line in lines[1:] if line.strip())
    return Seen(f"/{_SWAPS}", names + eager if names else "no swap", not names)


def one_node(look: Look) -> Seen:
    """Look for the NUMA nodes of the measuring cores."""
    names = look.names(_NODE, "node[0-9]*")
    if not names:
        raise Unseen(f"/{_NODE}", "absent")
    cores = {name: set(look.cores_in(f"{_NODE}/{name}/cpulist")) for name in names}
    used = [name for name in names if cores[name] & set(look.cores)]
    if missing := set(look.cores) - set().union(*cores.values()):
        raise Unseen(f"/{_NODE}/*/cpulist", f"no node has core {listed(missing)}")
    return Seen(f"/{_NODE}/*/cpulist", ", ".join(used), len(used) == 1)


def balancing(look: Look) -> Seen:
    """Look for pages that move between nodes."""
    value = look.number(_BALANCING)
    return Seen(f"/{_BALANCING}", str(value), value == 0)


def locked_memory(look: Look) -> Seen:
    """Read how much memory this process may lock. No look at capabilities: the engine may
    have none."""
    text = look.text(_LIMITS)
    found = re.search(r"^Max locked memory +(unlimited|[0-9]+) ", text, re.MULTILINE)
    if not found:
        raise malformed(_LIMITS, text)
    unit = "" if found[1] == "unlimited" else " bytes"
    return Seen(f"/{_LIMITS}", f"{found[1]}{unit}", found[1] == "unlimited")


def work_queues(look: Look) -> Seen:
    """Look where the kernel runs its unbound work."""
    cores = look.mask(_QUEUES)
    return Seen(f"/{_QUEUES}", f"on {listed(cores)}", not set(cores) & set(look.cores))


def _by_value(values: Mapping[int, str]) -> str:
    """Return "performance", or "2-3 powersave, 4 performance" where cores differ."""
    cores = defaultdict(list)
    for core, value in values.items():
        cores[value].append(core)
    if len(cores) == 1:
        return next(iter(cores))
    return ", ".join(f"{listed(held)} {value}" for value, held in cores.items())


def _hidden(look: Look) -> str:
    return f"absent: {_GUEST}" if look.guest else "absent"


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
