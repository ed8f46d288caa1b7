"""Remedies for one probe by hand: the command, and the one that undoes it.

Every undo command restores the value of now. A function here returns steps, or raises
Cannot with the reason why nothing can be done on this host.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.hosts.cgroups import chain
from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, listed
from tickproof.conformance.hosts.model import Reading, Status
from tickproof.conformance.hosts.probes import comparability
from tickproof.conformance.hosts.probes.tail import deep_states
from tickproof.conformance.hosts.visible_cores import nodes

ROOT, REBOOT, METAL, NOTHING = "root", "reboot", "bare metal", "nothing"
CPU = "sys/devices/system/cpu"
_CLOCKS = "sys/devices/system/clocksource/clocksource0"
_TOO_FEW = "kit and engine need every core of this host: none is left for anything else"
HYPERVISOR = "a virtual machine: set on the hypervisor, or use bare metal"


class Cannot(TickproofError):
    """Nothing can be done about a probe on this host; the text says why."""


@dataclass(frozen=True)
class Step:
    """probes: those it puts right. needs: of root, reboot, bare metal; or nothing.

    apply, undo: command lines for a shell; undo () where nothing stays behind.
    """

    probes: tuple[str, ...]
    what: str
    why: str
    apply: tuple[str, ...]
    undo: tuple[str, ...] = ()
    needs: tuple[str, ...] = (ROOT,)


@dataclass(frozen=True)
class Context:
    """The host, the reading to put right, the measuring cores, and those for all else."""

    host: HostFiles
    reading: Reading
    measuring: tuple[int, ...]
    others: tuple[int, ...]

    def step(self, what: str, apply: list[str], undo: list[str], *needs: str) -> Step:
        """Return a step for the reading's probe. needs: none means root."""
        probe = (self.reading.probe,)
        return Step(probe, what, self.reading.why, tuple(apply), tuple(undo), needs or (ROOT,))

    def need_others(self) -> None:
        """Raise Cannot where no core is left besides the measuring ones."""
        if not self.others:
            raise Cannot(_TOO_FEW)


def write(value: str, path: str) -> str:
    """Return the command that writes a value to a file of the kernel."""
    quoted = f'"{value}"' if " " in value else value
    return f"echo {quoted} | sudo tee /{path.lstrip('/')}"


def mask(cores: tuple[int, ...]) -> str:
    """Return cores as a mask such as f or 1,00000000: groups of 32 bits."""
    digits = f"{sum(1 << core for core in cores):x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8) if len(digits) > 8 else digits
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))


def _sysctl(name: str, value: int) -> Callable[[Context], Step]:
    def step(at: Context) -> Step:
        old = at.host.number("proc/sys/" + name.replace(".", "/"))
        return at.step(
            f"set {name}", [f"sudo sysctl -w {name}={value}"], [f"sudo sysctl -w {name}={old}"]
        )

    return step


def _file(
    what: str, value: str | Callable[[Context], str], path: str = "", *needs: str
) -> Callable[[Context], Step]:
    """Return what writes a value to a file, and back what it holds; path "": of the reading."""

    def step(at: Context) -> Step:
        file = path or at.reading.path.lstrip("/")
        new = value if isinstance(value, str) else value(at)
        return at.step(what, [write(new, file)], [write(at.host.text(file), file)], *needs)

    return step


def _no_quota(at: Context) -> str:
    return "max" if at.reading.path.endswith("cpu.max") else "-1"


def _pressure(at: Context) -> Step:
    look_at = "ps -eo pcpu,psr,pid,comm --sort=-pcpu | head"
    return at.step("end what else uses the cores, and look again", [look_at], [], NOTHING)


def _partition(at: Context) -> Step:
    at.need_others()
    groups = chain(at.host, "cpuset")
    if not groups.whole:
        raise Cannot("the root of the cpusets is out of sight: start the container in one")
    top, own = f"/{groups.folders[-1]}", f"/{groups.folders[0]}"
    new = f"{top}/tickproof"
    cores, nodes = listed(at.measuring), _nodes_of(at)
    home = "cgroup.procs" if groups.version == 2 else "tasks"
    enter, leave = f"echo $$ | sudo tee {new}/{home}", f"echo $$ | sudo tee {own}/{home}"
    setting = [
        f"sudo mkdir {new}",
        write(cores, f"{new}/cpuset.cpus"),
        write(nodes, f"{new}/cpuset.mems"),
    ]
    if groups.version == 1:
        setting += [write("1", f"{new}/cpuset.cpu_exclusive"), enter]
        return at.step(
            "give the cores a cpuset of their own, and enter it with this shell",
            setting,
            [leave, f"sudo rmdir {new}"],
        )
    if "cpuset" not in at.host.text(f"{groups.folders[-1]}/cgroup.controllers").split():
        raise Cannot("this kernel offers no cpuset here: cgroup.controllers has none")
    undo = [leave, f"sudo rmdir {new}"]
    if "cpuset" not in at.host.text(f"{groups.folders[-1]}/cgroup.subtree_control").split():
        setting.insert(0, write("+cpuset", f"{top}/cgroup.subtree_control"))
        undo.append(write("-cpuset", f"{top}/cgroup.subtree_control"))
    setting += [write("isolated", f"{new}/cpuset.cpus.partition"), enter]
    return at.step("make an isolated cpuset, and enter it with this shell", setting, undo)


def _nodes_of(at: Context) -> str:
    """Return the NUMA nodes of the measuring cores as a list; 0 where none can be seen."""
    held = [
        int(name.removeprefix("node"))
        for name, cores in nodes(at.host).items()
        if set(cores) & set(at.measuring)
    ]
    return listed(held or [0])


def _affinity(at: Context) -> Step:
    needed = listed(at.host.named or at.host.online)
    return at.step(
        "let this shell use the cores, where its cpuset allows them",
        [f"taskset -cp {needed} $$"],
        [f"taskset -cp {at.reading.value} $$"],
        NOTHING,
    )


def _clock(at: Context) -> str:
    if "tsc" not in at.host.text(f"{_CLOCKS}/available_clocksource").split():
        where = HYPERVISOR if at.host.guest else "the kernel found it unstable, see its log"
        raise Cannot(f"the clock tsc is not offered: {where}")
    return "tsc"


def _limits(at: Context) -> Step:
    """For this shell and what it starts; the role of fixtures/hosts makes it last."""
    name, row = {
        "memlock": ("memlock", "locked memory"),
        "real-time-policy": ("rtprio", "realtime priority"),
    }[at.reading.probe]
    text = at.host.text("proc/self/limits")
    found = re.search(rf"^Max {row} +(\S+) +(\S+)", text, re.MULTILINE)
    if not found:
        raise Cannot("the present limit cannot be read")
    most = "unlimited" if name == "memlock" else "99"
    old = f"{found[1]}:{found[2]}"
    return at.step(
        f"raise the limit of {row} for this shell",
        [f"sudo prlimit --pid $$ --{name}={most}:{most}"],
        [f"sudo prlimit --pid $$ --{name}={old}"],
    )


def _governor(at: Context) -> Step:
    file = "cpufreq/scaling_governor"
    old = {core: at.host.text(f"{CPU}/cpu{core}/{file}") for core in at.host.cores}
    old = {core: name for core, name in old.items() if name != "performance"}
    path = f"{CPU}/cpu$core/{file}"
    return at.step(
        "set the governor",
        [each_core(tuple(old), "performance", path)],
        [each_core(cores, name, path) for name, cores in grouped(old).items()],
        ROOT,
        METAL,
    )


def _no_turbo(at: Context) -> str:
    return "1" if at.host.text(at.reading.path.lstrip("/")) == "0" else "0"


def _idle(at: Context) -> Step:
    states = {core: " ".join(deep_states(at.host, core)) for core in at.host.cores}
    commands: dict[str, list[str]] = {"1": [], "0": []}
    for held, cores in grouped(states).items():
        for value, lines in commands.items():
            lines += [
                each_core(cores, value, f"{CPU}/cpu$core/cpuidle/{state}/disable")
                for state in held.split()
            ]
    return at.step("disable the deep idle states", commands["1"], commands["0"], ROOT, METAL)


def _interrupts(at: Context) -> Step:
    at.need_others()
    old: dict[str, str] = {}
    for number in at.host.numbered("proc/irq"):
        cores = at.host.cores_in(f"proc/irq/{number}/smp_affinity_list")
        if set(cores) & set(at.measuring):
            old[number] = listed(cores)
    default = "proc/irq/default_smp_affinity"
    path = "/proc/irq/$irq/smp_affinity_list"
    apply = [write(mask(at.others), default)]
    undo = [write(at.host.text(default), default)]
    balanced = bool(at.host.names("usr/sbin", "irqbalance"))
    if balanced:
        apply.insert(0, "sudo systemctl stop irqbalance")
    if old:
        apply.append(f"for irq in {' '.join(old)}; do {write(listed(at.others), path)}; done")
    undo += [
        f"for irq in {' '.join(numbers)}; do {write(cores, path)}; done"
        for cores, numbers in grouped(old).items()
    ]
    if balanced:
        undo.append("sudo systemctl start irqbalance")
    what = "send interrupts elsewhere (one that refuses belongs to its driver: managed_irq)"
    return at.step(what, apply, undo)


def _only_asked(at: Context) -> Step:
    path = at.reading.path
    return at.step(
        "give huge pages only to those that ask",
        [write("madvise", path)],
        [write(at.reading.value, path)],
    )


def _swap(at: Context) -> Step:
    off, on = [], []
    for line in at.host.text("proc/swaps").splitlines()[1:]:
        name, *columns = line.split()  # type, size, used, priority
        off.append(f"sudo swapoff {name}")
        # A negative priority is one that the kernel chose.
        keeps = len(columns) > 3 and not columns[3].startswith("-")
        on.append(f"sudo swapon{f' -p {columns[3]}' if keeps else ''} {name}")
    return at.step("swap off", off, on)


def _node(at: Context) -> Step:
    held = nodes(at.host)
    node = max(held, key=lambda name: len(held[name])).removeprefix("node")
    command = f"numactl --cpunodebind={node} --membind={node} $SHELL"
    return at.step(
        f"ask for no more cores than node {node} has, and start the kit there",
        [command],
        ["exit"],
        NOTHING,
    )


def _others(at: Context) -> str:
    at.need_others()
    return mask(at.others)


def each_core(cores: tuple[int, ...], value: str, path: str) -> str:
    """Return a loop that writes one value for each core; the path holds $core."""
    return f"for core in {' '.join(map(str, cores))}; do {write(value, path)}; done"


def grouped(values: Mapping) -> dict[str, tuple]:
    """Return value -> the keys that have it, the empty value left out."""
    held = defaultdict(list)
    for key, value in values.items():
        if value:
            held[value].append(key)
    return {value: tuple(keys) for value, keys in held.items()}


#: Those of the kernel command line are in `tuning_tools`: one step for all.
STEPS: dict[str, Callable[[Context], Step]] = {
    "cpu-quota": _file("take the CPU quota away", _no_quota),
    "cpu-pressure": _pressure,
    "affinity": _affinity,
    "cpuset-partition": _partition,
    "real-time-policy": _limits,
    "real-time-throttling": _sysctl("kernel.sched_rt_runtime_us", -1),
    "clock-source": _file("tell time by the processor", _clock, f"{_CLOCKS}/current_clocksource"),
    "governor": _governor,
    "turbo": _file("switch turbo off", _no_turbo, "", ROOT, METAL),
    "c-states": _idle,
    "interrupts": _interrupts,
    "smt": _file("switch SMT off: half of the cores go", "off", f"{CPU}/smt/control", ROOT, METAL),
    "huge-pages": _only_asked,
    "swap": _swap,
    "numa-node": _node,
    "numa-balancing": _sysctl("kernel.numa_balancing", 0),
    "memlock": _limits,
    "work-queues": _file("keep kernel work off the cores", _others),
    "net-receive-buffer": _sysctl("net.core.rmem_max", comparability.LEAST_BUFFER),
    "net-send-buffer": _sysctl("net.core.wmem_max", comparability.LEAST_BUFFER),
    "net-backlog": _sysctl("net.core.netdev_max_backlog", comparability.LEAST_BACKLOG),
    "net-busy-poll": _sysctl("net.core.busy_poll", comparability.LEAST_POLL_US),
}


#: What to do about a reading that is UNOBSERVABLE; of a guest, the first are its hypervisor's.
_HARDWARE: dict[str, str] = {
    "governor": "no cpufreq driver: let the operating system set the frequency, in the firmware",
    "turbo": "turbo cannot be seen here: switch it off in the firmware",
    "c-states": "no idle states can be seen: limit them in the firmware, or idle=poll on the "
    "command line",
    "smt": "switch it off in the firmware",
}
_ELSEWHERE: dict[str, str] = {
    "cpu-quota": "limits above a container are set by whoever starts it: no CPU limit, and "
    "the cgroups of the host in sight (docker: --cgroupns=host)",
    "cpu-pressure": "this kernel does not report pressure: psi=1 on its command line, or "
    "CONFIG_PSI",
    "interrupts": "no interrupts can be seen here: look from outside the container",
}


def by_hand(at: Context) -> Step:
    """Return the step for a reading that is not OK; raises Cannot."""
    reading = at.reading
    what = f"{reading.path}: {reading.value}"
    if reading.probe == "steal":
        raise Cannot("give this machine cores of its own on the hypervisor, or use bare metal")
    if reading.probe not in STEPS:
        raise Cannot(f"nothing to set, it has to be readable: {what}")
    # A partition that cannot be seen can still be made.
    if reading.status is Status.UNOBSERVABLE and reading.probe != "cpuset-partition":
        if reading.probe in _HARDWARE:
            raise Cannot(HYPERVISOR if at.host.guest else _HARDWARE[reading.probe])
        raise Cannot(_ELSEWHERE.get(reading.probe, f"nothing to go back to: {what}"))
    try:
        return STEPS[reading.probe](at)
    except Unobservable as error:
        raise Cannot(f"nothing to go back to: {error}") from error
