"""Remedies by the host's own tools: boot loader, tuned-adm, pyperf; how to start."""

from __future__ import annotations

from tickproof.conformance.hosts.cores import Cores
from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, listed
from tickproof.conformance.hosts.remedies import CPU, METAL, NOTHING, REBOOT, ROOT, Cannot, Step
from tickproof.conformance.hosts.visible_cores import nodes

#: Probes that only the command line of the kernel puts right.
BOOT = ("isolated-cores", "nohz-full")
_GRUB = "/etc/default/grub"
_TUNED = {
    "cpu-partitioning": ("nohz-full", "governor", "c-states", "interrupts", "huge-pages",
                         "numa-balancing", "work-queues", "net-busy-poll"),
    "realtime": ("isolated-cores", "real-time-throttling", "governor", "c-states", "interrupts",
                 "huge-pages", "numa-balancing", "work-queues", "net-busy-poll"),
}  # fmt: skip
_PYPERF = ("governor", "turbo", "interrupts")


def boot(
    host: HostFiles, probes: set[str], measuring: tuple[int, ...], others: tuple[int, ...]
) -> Step:
    """Return the step that changes the kernel command line; raises Cannot.

    probes: those that are not OK, of BOOT.
    """
    if not others:
        raise Cannot("kit and engine need every core of this host: none is left to the system")
    if not host.names(CPU, "nohz_full") and probes == {"nohz-full"}:
        raise Cannot("this kernel was built without CONFIG_NO_HZ_FULL: another kernel")
    cores = listed(measuring)
    words = f"isolcpus=domain,managed_irq,{cores} nohz_full={cores} rcu_nocbs={cores} "
    words += f"irqaffinity={listed(others)}"
    if host.names("usr/sbin", "grubby"):
        apply = [f'sudo grubby --update-kernel=ALL --args="{words}"']
        undo = [f'sudo grubby --update-kernel=ALL --remove-args="{words}"']
    elif host.names("etc/default", "grub"):
        # A copy, not an edit back: the line that was there comes back byte for byte.
        apply = [
            f"sudo cp -a {_GRUB} {_GRUB}.before-tickproof",
            f"""sudo sed -i 's/^GRUB_CMDLINE_LINUX="/&{words} /' {_GRUB}""",
            "sudo update-grub",
        ]
        undo = [f"sudo mv {_GRUB}.before-tickproof {_GRUB}", "sudo update-grub"]
    else:
        apply = [f"# add where this kernel is started: {words}"]
        undo = [f"# the command line now: {_text(host, 'proc/cmdline') or 'cannot be read'}"]
    why = "The scheduler and the timer leave these cores alone, which no later command does."
    named = tuple(probe for probe in BOOT if probe in probes)
    return Step(named, "isolate the cores at boot", why, tuple(apply), tuple(undo), (ROOT, REBOOT))


def by_tool(
    host: HostFiles, problems: set[str], measuring: tuple[int, ...], others: tuple[int, ...]
) -> list[Step]:
    """Return the steps of tools that put several probes right at once.

    problems: names of the probes that are not OK and that something can be done about.
    """
    steps = []
    for profile, covers in _TUNED.items():
        if others and (probes := tuple(probe for probe in covers if probe in problems)):
            steps.append(_tuned(host, profile, probes, measuring))
    probes = tuple(probe for probe in _PYPERF if probe in problems)
    if others and probes:
        tune = f"sudo python3 -m pyperf system tune --affinity={listed(measuring)}"
        steps.append(
            Step(
                probes,
                "pyperf (pip install pyperf)",
                "One command for frequencies, turbo and interrupts; gone at the next boot.",
                (tune,),
                ("sudo python3 -m pyperf system reset",),
                (ROOT, METAL),
            )
        )
    return steps


def _tuned(
    host: HostFiles, profile: str, probes: tuple[str, ...], measuring: tuple[int, ...]
) -> Step:
    variables = f"/etc/tuned/{profile}-variables.conf"
    present = _text(host, "etc/tuned/active_profile")
    known = bool(host.names("etc/tuned", f"{profile}-variables.conf"))
    apply = [f"sudo cp -a {variables} {variables}.before-tickproof"] if known else []
    back = f"sudo mv {variables}.before-tickproof {variables}" if known else f"sudo rm {variables}"
    apply += [
        f"echo isolated_cores={listed(measuring)} | sudo tee {variables}",
        f"sudo tuned-adm profile {profile}",
    ]
    undo = [f"sudo tuned-adm profile {present}" if present else "sudo tuned-adm off", back]
    what = f"tuned, profile {profile}"
    if not host.names("usr/sbin", "tuned-adm"):
        what += " (not installed: packages tuned and tuned-profiles-*)"
    why = "One profile for many settings, which lasts over a reboot. Take one profile, not two."
    return Step(probes, what, why, tuple(apply), tuple(undo), (ROOT, REBOOT))


def start(host: HostFiles, cores: Cores) -> list[Step]:
    """Return how to start the kit on this host, and any other command beside it."""
    if cores.shared:
        return [
            Step(
                (),
                "start the kit as it is",
                "Kit and engine share all cores here.",
                ("tickproof latency ENGINE --profile PROFILE",),
                (),
                (NOTHING,),
            )
        ]
    every = listed((*cores.kit, *cores.engine, *cores.housekeeping))
    kit, engine = len(cores.kit), len(cores.engine)
    command = f"taskset -c {every} tickproof latency ENGINE --profile PROFILE.toml"
    if (node := _only_node(host, cores)) is not None:
        command = f"numactl --membind={node} {command}"
    first = cores.kit[0]
    return [
        Step(
            (),
            "start the kit",
            "It puts itself and the engine on their cores, where the "
            f"profile says [cores] kit = {kit}, engine = {engine}, priority = 50.",
            (command,),
            (),
            (NOTHING,),
        ),
        Step(
            (),
            "start something else pinned, with a policy",
            "All that it starts inherits both: never start the kit so, the engine would too.",
            (
                f"sudo chrt --fifo 50 taskset -c {first} CMD",
                f"tickproof host pin --cores {first} --policy fifo --priority 50 --lock -- CMD",
            ),
            (),
            (ROOT,),
        ),
    ]


def _only_node(host: HostFiles, cores: Cores) -> str | None:
    """Return the NUMA node of all cores of the run, None where there is but one or several."""
    held = nodes(host)
    wanted = set(cores.kit) | set(cores.engine)
    fitting = [name.removeprefix("node") for name, node in held.items() if wanted <= set(node)]
    return fitting[0] if fitting and len(held) > 1 else None


def _text(host: HostFiles, path: str) -> str:
    try:
        return host.text(path)
    except Unobservable:
        return ""
