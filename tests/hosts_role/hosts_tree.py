"""A made-up host below a folder: /sys, /proc, /etc and the programs that the role calls."""

from __future__ import annotations

from pathlib import Path

SWAPS = "Filename\t\t\tType\t\tSize\tUsed\tPriority\n"
#: What a host of 4 cores holds before. Every file that the role may change is here.
BEFORE = {
    "sys/devices/system/cpu/online": "0-3\n",
    "sys/devices/system/cpu/smt/control": "on\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "sys/fs/cgroup/cgroup.subtree_control": "cpu memory\n",
    "sys/devices/virtual/workqueue/cpumask": "f\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "proc/swaps": SWAPS + "/dev/sda\\0402 partition\t1024\t0\t-2\n",
    "proc/cmdline": "quiet isolcpus=3\n",
    "proc/irq/default_smp_affinity": "f\n",
    "proc/irq/1/smp_affinity_list": "0-3\n",
    "proc/irq/2/smp_affinity_list": "1\n",
    "proc/irq/30/smp_affinity_list": "3\n",
    "proc/sys/kernel/random/boot_id": "boot-1\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/net/core/rmem_max": "212992\n",
    "proc/sys/net/core/wmem_max": "999999999\n",
    "proc/sys/net/core/netdev_max_backlog": "1000\n",
    "proc/sys/net/core/busy_poll": "0\n",
    "etc/default/irqbalance": "# By hand.\n#IRQBALANCE_BANNED_CPULIST=\nIRQBALANCE_ARGS=\n",
    "etc/security/limits.d/10-other.conf": "root - nofile 1024\n",
    "etc/tuned/cpu-partitioning-variables.conf": "isolated_cores=7\n# no end of line",
    "etc/tuned/active_profile": "balanced\n",
    "usr/lib/tuned/cpu-partitioning/tuned.conf": "[main]\n",
    "etc/default/grub.d/50-other.cfg": "# other\n",
}
for _core in range(4):
    _cpu = f"sys/devices/system/cpu/cpu{_core}"
    BEFORE[f"{_cpu}/topology/thread_siblings_list"] = f"{_core}\n"
    BEFORE[f"{_cpu}/cpufreq/scaling_governor"] = "powersave\n"
    for _state, _name in enumerate(("POLL", "C1", "C6")):
        BEFORE[f"{_cpu}/cpuidle/state{_state}/name"] = f"{_name}\n"
        BEFORE[f"{_cpu}/cpuidle/state{_state}/disable"] = "0\n"
        BEFORE[f"{_cpu}/cpuidle/state{_state}/latency"] = f"{_state * 60}\n"

#: What is in them afterwards, with kit 2, engine 3: the other files stay as they were.
AFTER = {
    "sys/devices/system/cpu/smt/control": "off\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/fs/cgroup/cgroup.subtree_control": "+cpuset\n",
    "sys/fs/cgroup/tickproof/cpuset.cpus": "2-3\n",
    "sys/fs/cgroup/tickproof/cpuset.cpus.partition": "isolated\n",
    "sys/devices/virtual/workqueue/cpumask": "00000003\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "madvise\n",
    "proc/swaps": SWAPS,
    "proc/irq/default_smp_affinity": "00000003\n",
    "proc/irq/1/smp_affinity_list": "0-1\n",
    "proc/irq/30/smp_affinity_list": "0-1\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    "proc/sys/kernel/sched_rt_runtime_us": "-1\n",
    "proc/sys/vm/swappiness": "0\n",
    "proc/sys/net/core/rmem_max": "16777216\n",
    "proc/sys/net/core/netdev_max_backlog": "10000\n",
    "proc/sys/net/core/busy_poll": "50\n",
    "etc/default/irqbalance": (
        "# By hand.\n#IRQBALANCE_BANNED_CPULIST=\nIRQBALANCE_ARGS=\nIRQBALANCE_BANNED_CPULIST=2-3\n"
    ),
    "etc/security/limits.d/90-tickproof.conf": (
        "# Written by the Ansible role tickproof_host.\n"
        "trader - memlock unlimited\ntrader - rtprio 99\n"
    ),
    "etc/tuned/cpu-partitioning-variables.conf": "isolated_cores=2-3\n# no end of line\n",
    "etc/tuned/active_profile": "cpu-partitioning\n",
    "etc/default/grub.d/90-tickproof.cfg": (
        'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3'
        ' processor.max_cstate=1 intel_idle.max_cstate=1"\n'
    ),
}
for _core in range(4):
    AFTER[f"sys/devices/system/cpu/cpu{_core}/cpufreq/scaling_governor"] = "performance\n"
    AFTER[f"sys/devices/system/cpu/cpu{_core}/cpuidle/state2/disable"] = "1\n"

#: Programs: each writes its name and arguments into calls, and does what it would do.
PROGRAMS = {
    "usr/sbin/swapoff": f"printf '{SWAPS}' > proc/swaps",
    "usr/sbin/swapon": "cp swaps proc/swaps",
    "usr/sbin/tuned-adm": 'echo "$2" > etc/tuned/active_profile',
    "usr/sbin/update-grub": ":",
    "usr/bin/systemctl": ":",
}


#: A host where systemd runs, with grubby and without tuned.
SYSTEMD = {
    "sys/fs/cgroup/tickproof.slice/cpuset.cpus": "\n",
    "sys/fs/cgroup/tickproof.slice/cpuset.cpus.partition": "member\n",
    "next": "isolcpus=3\n",
}
GRUBBY = """case "$*" in
*--info*) echo "args=\\"$(cat next)\\"" ;;
*--args=*) echo "${2#--args=}" > next ;;
*--remove*) echo > next ;;
esac"""


def build(root: Path, *, systemd: bool = False) -> None:
    """Write the made-up host: one with GRUB and tuned, or one with systemd and grubby."""
    programs = PROGRAMS | ({"usr/sbin/grubby": GRUBBY} if systemd else {})
    left_out = ("usr/sbin/tuned-adm", "usr/sbin/update-grub") if systemd else ()
    files = BEFORE | (SYSTEMD if systemd else {}) | {"swaps": BEFORE["proc/swaps"], "calls": ""}
    for name, text in files.items():
        write(root / name, text)
    for name, deed in programs.items():
        if name not in left_out:
            said = f'echo "{Path(name).name} $*" >> calls'
            write(root / name, f'#!/bin/sh\ncd "{root}"\n{said}\n{deed}\n')
            (root / name).chmod(0o755)
    if systemd:
        (root / "run/systemd/system").mkdir(parents=True)


def write(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def held(root: Path) -> dict[str, bytes | None]:
    """Return path -> bytes of all files below, None for folders, without the record of calls."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
        if path.name != "calls"
    }


def calls(root: Path) -> list[str]:
    """Return which programs were called since the last look, with their arguments."""
    said = (root / "calls").read_text().splitlines()
    (root / "calls").write_text("")
    return said
