"""Trees of files as hosts show them: a tuned machine of bare metal, and a virtual machine."""

from __future__ import annotations

from pathlib import Path

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
CORES = range(8)
OWN = "sys/fs/cgroup/bench.slice/tickproof"

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         {memlock}            {memlock}            bytes
Max realtime priority     {rtprio}                   {rtprio}
"""
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def tuned() -> dict[str, str | bytes]:
    """Return path -> text of a machine of 8 cores, 2-7 isolated, on which all is OK."""
    files: dict[str, str | bytes] = {
        "proc/self/cgroup": "0::/bench.slice/tickproof\n",
        "proc/self/mountinfo": MOUNT,
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        "sys/fs/cgroup/cgroup.subtree_control": "cpu memory\n",
        "sys/fs/cgroup/bench.slice/cgroup.controllers": "cpuset cpu\n",
        "sys/fs/cgroup/bench.slice/cgroup.type": "domain\n",
        "sys/fs/cgroup/bench.slice/cpu.max": "max 100000\n",
        "sys/fs/cgroup/bench.slice/cpuset.cpus.partition": "isolated\n",
        f"{OWN}/cgroup.controllers": "cpuset cpu\n",
        f"{OWN}/cgroup.type": "domain\n",
        f"{OWN}/cpu.max": "max 100000\n",
        f"{OWN}/cpuset.cpus.partition": "isolated\n",
        "proc/pressure/cpu": "some avg10=0.12 avg60=0.40 avg300=0.10 total=1234\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        "proc/self/status": "Name:\tpython\nCapEff:\t0000000000000000\n"
        "Cpus_allowed:\tff\nCpus_allowed_list:\t0-7\n",
        "proc/self/limits": LIMITS.format(memlock="unlimited", rtprio="99"),
        f"{CPU}/online": "0-7\n",
        f"{CPU}/isolated": "2-7\n",
        f"{CPU}/nohz_full": "2-7\n",
        f"{CPU}/intel_pstate/no_turbo": "1\n",
        f"{CPU}/smt/active": "0\n",
        f"{CPU}/smt/control": "off\n",
        "proc/sys/kernel/sched_rt_runtime_us": "-1\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
        "dev/cpu_dma_latency": (2_000_000_000).to_bytes(4, "little"),
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=2-7 nohz_full=2-7\n",
        "proc/irq/default_smp_affinity": "03\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "proc/swaps": SWAPS,
        "proc/sys/vm/swappiness": "10\n",
        f"{NODE}/node0/cpulist": "0-7\n",
        "proc/sys/kernel/numa_balancing": "0\n",
        "sys/devices/virtual/workqueue/cpumask": "00000000,00000003\n",
        "proc/stat": "cpu  100 0 50 9000 5 0 7 0 0 0\ncpu0 100 0 50 9000 5 0 7 0 0 0\n",
        "proc/cpuinfo": "".join(
            f"processor\t: {core}\nmicrocode\t: 0x2b000590\nflags\t\t: fpu vme tsc\n\n"
            for core in CORES
        ),
        "proc/sys/kernel/osrelease": "6.8.0-rt\n",
        "proc/sys/kernel/version": "#1 SMP PREEMPT_RT\n",
        "proc/sys/net/core/rmem_max": "16777216\n",
        "proc/sys/net/core/wmem_max": "16777216\n",
        "proc/sys/net/core/netdev_max_backlog": "10000\n",
        "proc/sys/net/core/busy_poll": "50\n",
    }
    for irq in (8, 24, 120):
        files[f"proc/irq/{irq}/smp_affinity_list"] = "0-1\n"
        files[f"proc/irq/{irq}/effective_affinity_list"] = "0\n"
    for core in CORES:
        files[f"{CPU}/cpu{core}/cpufreq/scaling_governor"] = "performance\n"
        files[f"{CPU}/cpu{core}/topology/thread_siblings_list"] = f"{core}\n"
        for state, (name, latency, disable) in enumerate(
            [("POLL", 0, 0), ("C1", 2, 0), ("C1E", 10, 1), ("C6", 133, 1)]
        ):
            folder = f"{CPU}/cpu{core}/cpuidle/state{state}"
            files[f"{folder}/name"] = f"{name}\n"
            files[f"{folder}/latency"] = f"{latency}\n"
            files[f"{folder}/disable"] = f"{disable}\n"
    return files


def guest() -> dict[str, str | bytes]:
    """Return a small virtual machine, cgroups of version 1, nothing tuned."""
    files: dict[str, str | bytes] = {
        "proc/self/cgroup": "3:cpuset:/\n1:cpu,cpuacct:/\n0::/\n",
        "proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
        "sys/fs/cgroup/cpu/release_agent": "\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpuset/release_agent": "\n",
        "sys/fs/cgroup/cpuset/cpuset.cpu_exclusive": "1\n",
        "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
        "proc/self/status": "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-127\n",
        "proc/self/limits": LIMITS.format(memlock="8388608", rtprio="0"),
        f"{CPU}/online": "0-1\n",
        f"{CPU}/isolated": "\n",
        f"{CPU}/smt/active": "0\n",
        "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock\n",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock acpi_pm\n",
        "proc/irq/24/smp_affinity_list": "0-1\n",
        "proc/irq/default_smp_affinity": "3\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
        "proc/swaps": f"{SWAPS}/dev/vda2\tpartition\t1048572\t0\t-2\n",
        "sys/devices/virtual/workqueue/cpumask": "3\n",
        "proc/stat": "cpu  100 0 50 9000 5 0 7 0 0 0\n",
        "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu tsc hypervisor lahf_lm\n",
        "proc/sys/kernel/osrelease": "6.1.0\n",
        "proc/sys/kernel/version": "#1 SMP\n",
    }
    for core in range(2):
        folder = f"{CPU}/cpu{core}/cpuidle/state1"
        files[f"{folder}/name"] = "haltpoll idle\n"
        files[f"{folder}/latency"] = "1\n"
        files[f"{folder}/disable"] = "0\n"
    return files


def plant(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write the files below ``root``; return it."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
