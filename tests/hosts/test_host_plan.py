"""The plan: its commands, run on a made-up host, put it right; and undo gives it back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.hosts.trees import CPU, LIMITS, OWN, SWAPS, guest, plant, tuned
from tickproof.conformance.hosts.attestation import attest
from tickproof.conformance.hosts.model import HostError, Status
from tickproof.conformance.hosts.plan import Plan, plan
from tickproof.conformance.hosts.remedies import mask

CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
#: What a host of bare metal has before anybody tunes it, where a command can be run on files.
UNTUNED = {
    f"{OWN}/cpu.max": "50000 100000\n",
    CLOCK: "hpet\n",
    "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
    f"{CPU}/intel_pstate/no_turbo": "0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "sys/devices/virtual/workqueue/cpumask": "ff\n",
    "proc/irq/default_smp_affinity": "ff\n",
    "proc/irq/8/smp_affinity_list": "0-7\n",
    "proc/irq/120/smp_affinity_list": "5\n",
    "proc/sys/net/core/rmem_max": "212992\n",
    "proc/sys/net/core/wmem_max": "212992\n",
    "proc/sys/net/core/netdev_max_backlog": "1000\n",
    "proc/sys/net/core/busy_poll": "0\n",
    **{f"{CPU}/cpu{core}/cpufreq/scaling_governor": "powersave\n" for core in (2, 3, 5)},
    **{f"{CPU}/cpu{core}/cpuidle/state2/disable": "0\n" for core in (2, 6, 7)},
    **{f"{CPU}/cpu{core}/cpuidle/state3/disable": "0\n" for core in range(8)},
}
#: Stands in for sysctl: the same files, below the root.
SYSCTL = 'sysctl() { echo "${2#*=}" > "$ROOT/proc/sys/$(echo "${2%%=*}" | tr . /)"; }\n'


def run(lines: list[str], root: Path) -> None:
    """Run commands of a plan on a tree of files in place of this host."""
    script = SYSCTL + "\n".join(lines)
    script = script.replace("sudo ", "").replace("tee /", 'tee "$ROOT"/')
    assert "irqbalance" not in script
    environment = {"ROOT": str(root), "PATH": "/usr/bin:/bin"}
    subprocess.run(
        ["sh", "-eu"],
        input=script,
        text=True,
        check=True,
        timeout=60,
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def content(root: Path) -> dict[str, list[str]]:
    """Return path -> words of all files."""
    texts = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return {path: data.decode("latin-1").split() for path, data in texts.items()}


def problems(made: Plan) -> dict[str, Status]:
    return {reading.probe: reading.status for reading in made.attestation.problems()}


@pytest.fixture
def host(tmp_path) -> Path:
    root = plant(tmp_path / "host", tuned() | UNTUNED)
    for irq in (8, 24, 120):
        (root / f"proc/irq/{irq}/effective_affinity_list").unlink()
    return root


def test_commands_put_the_host_right_and_undo_gives_it_back(host):
    before = content(host)
    made = plan(root=host)
    wrong = set(problems(made))
    assert len(wrong) == 14
    assert {probe for step in made.by_hand for probe in step.probes} == wrong
    assert made.impossible == ()
    run([line for step in made.by_hand for line in step.apply], host)
    # A file holds what was written, where the kernel shows more: choices, and a period.
    pages, quota = "sys/kernel/mm/transparent_hugepage/enabled", f"{OWN}/cpu.max"
    assert [(host / path).read_text() for path in (pages, quota)] == ["madvise\n", "max\n"]
    plant(host, {pages: "always [madvise] never\n", quota: "max 100000\n"})
    assert plan(root=host).attestation.problems() == []
    run([line for step in reversed(made.by_hand) for line in step.undo], host)
    assert (host / pages).read_text() == "always\n"
    plant(host, {pages: UNTUNED[pages]})
    assert content(host) == before


def test_tuned_host_needs_nothing(tmp_path):
    made = plan(root=plant(tmp_path, tuned()))
    assert (made.by_hand, made.by_tool, made.impossible) == ((), (), ())
    assert (made.cores.kit, made.cores.engine) == ((2, 3), (4, 5, 6, 7))
    (start, other) = made.start
    assert start.apply == ("taskset -c 0-7 tickproof latency ENGINE --profile PROFILE.toml",)
    assert "kit = 2, engine = 4" in start.why
    assert "chrt --fifo 50" in other.apply[0]


def test_isolation_at_boot_is_one_step_with_what_the_loader_is(host):
    plant(host, {f"{CPU}/isolated": "", f"{CPU}/nohz_full": ""})
    (step,) = [s for s in plan(2, 4, root=host).by_hand if "nohz-full" in s.probes]
    assert step.probes == ("isolated-cores", "nohz-full")
    assert step.needs == ("root", "reboot")
    words = "isolcpus=domain,managed_irq,1-6 nohz_full=1-6 rcu_nocbs=1-6 irqaffinity=0,7"
    assert step.apply == (f"# add where this kernel is started: {words}",)
    assert "root=/dev/sda1" in step.undo[0]
    line = 'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="quiet splash"\n'
    plant(host, {"etc/default/grub": line})
    (step,) = [s for s in plan(2, 4, root=host).by_hand if "nohz-full" in s.probes]
    edit = step.apply[1].replace("sudo ", "").replace("/etc", str(host / "etc"))
    subprocess.run(["sh", "-c", edit], check=True, timeout=60)
    assert f'GRUB_CMDLINE_LINUX="{words} quiet splash"' in (host / "etc/default/grub").read_text()
    plant(host, {"usr/sbin/grubby": ""})
    (step,) = [s for s in plan(2, 4, root=host).by_hand if "nohz-full" in s.probes]
    assert step.undo == (f'sudo grubby --update-kernel=ALL --remove-args="{words}"',)


def test_cpuset_of_version_2_leaves_no_trace(host):
    plant(
        host,
        {
            f"{OWN}/cpuset.cpus.partition": "member\n",
            "sys/fs/cgroup/bench.slice/cpuset.cpus.partition": "member\n",
        },
    )
    (step,) = [s for s in plan(root=host).by_hand if s.probes == ("cpuset-partition",)]
    top = "/sys/fs/cgroup"
    assert step.apply == (
        f"echo +cpuset | sudo tee {top}/cgroup.subtree_control",
        f"sudo mkdir {top}/tickproof",
        f"echo 2-7 | sudo tee {top}/tickproof/cpuset.cpus",
        f"echo 0 | sudo tee {top}/tickproof/cpuset.mems",
        f"echo isolated | sudo tee {top}/tickproof/cpuset.cpus.partition",
        f"echo $$ | sudo tee {top}/tickproof/cgroup.procs",
    )
    assert step.undo == (
        f"echo $$ | sudo tee /{OWN}/cgroup.procs",
        f"sudo rmdir {top}/tickproof",
        f"echo -cpuset | sudo tee {top}/cgroup.subtree_control",
    )


def test_swap_smt_and_limits_come_back_as_they_were(host):
    plant(
        host,
        {
            "proc/swaps": f"{SWAPS}/dev/sda2\tpartition\t1\t0\t-2\n/swap\tfile\t1\t0\t5\n",
            f"{CPU}/smt/active": "1",
            f"{CPU}/smt/control": "on",
            "proc/self/limits": LIMITS.format(memlock="65536", rtprio="0"),
        },
    )
    steps = {step.probes[0]: step for step in plan(root=host).by_hand}
    assert steps["swap"].undo == ("sudo swapon /dev/sda2", "sudo swapon -p 5 /swap")
    assert steps["smt"].undo == (f"echo on | sudo tee /{CPU}/smt/control",)
    assert steps["memlock"].undo == ("sudo prlimit --pid $$ --memlock=65536:65536",)
    assert steps["real-time-policy"].apply == ("sudo prlimit --pid $$ --rtprio=99:99",)


def test_tools_cover_only_what_is_wrong_and_name_the_present_profile(host):
    plant(
        host,
        {
            "etc/tuned/active_profile": "throughput-performance\n",
            "usr/sbin/tuned-adm": "",
            "etc/tuned/realtime-variables.conf": "isolated_cores=9\n",
        },
    )
    partitioning, realtime, pyperf = plan(root=host).by_tool
    assert set(partitioning.probes) <= set(problems(plan(root=host)))
    assert "nohz-full" not in partitioning.probes
    back = "sudo tuned-adm profile throughput-performance"
    assert partitioning.undo == (back, "sudo rm /etc/tuned/cpu-partitioning-variables.conf")
    assert realtime.apply[0].startswith("sudo cp -a /etc/tuned/realtime-variables.conf ")
    assert realtime.undo[1].endswith(" /etc/tuned/realtime-variables.conf")
    assert pyperf.apply == ("sudo python3 -m pyperf system tune --affinity=2-7",)
    assert pyperf.undo == ("sudo python3 -m pyperf system reset",)


def test_irqbalance_is_stopped_and_started_again(host):
    plant(host, {"usr/sbin/irqbalance": ""})
    (step,) = [s for s in plan(root=host).by_hand if s.probes == ("interrupts",)]
    assert step.apply[0] == "sudo systemctl stop irqbalance"
    assert step.undo[-1] == "sudo systemctl start irqbalance"


def test_start_on_one_node_of_two(tmp_path):
    node = "sys/devices/system/node"
    root = plant(
        tmp_path, tuned() | {f"{node}/node0/cpulist": "0-1", f"{node}/node1/cpulist": "2-7"}
    )
    assert plan(root=root).start[0].apply[0].startswith("numactl --membind=1 taskset -c 0-7 ")
    plant(root, {f"{node}/node0/cpulist": "0-3", f"{node}/node1/cpulist": "4-7"})
    assert plan(2, 4, root=root).by_hand[0].probes == ("numa-node",)


def test_every_problem_has_a_step_or_a_reason(tmp_path):
    for number, files in enumerate((guest(), tuned() | UNTUNED, {f"{CPU}/online": "0-7"})):
        root = plant(
            tmp_path / str(number), files | {"proc/self/status": "Cpus_allowed_list:\t0-7\n"}
        )
        made = plan(root=root)
        stepped = {probe for step in made.by_hand for probe in step.probes}
        impossible = {one.probe for one in made.impossible}
        assert stepped | impossible == set(problems(made))
        assert not stepped & impossible
        assert all(one.reason for one in made.impossible)
        lines = [line for step in made.by_hand for line in (*step.apply, *step.undo)]
        assert not [line for line in lines if "absent" in line or "malformed" in line]


def test_nothing_is_planned_where_nothing_could_be_taken_back(host):
    files = {
        CLOCK: "what; now?",
        "sys/kernel/mm/transparent_hugepage/enabled": "always",
        "sys/devices/virtual/workqueue/cpumask": "$(reboot)",
    }
    made = plan(root=plant(host, files))
    reasons = {one.probe: one.reason for one in made.impossible}
    assert reasons.keys() == {"clock-source", "huge-pages", "work-queues"}
    assert "malformed: '$(reboot)'" in reasons["work-queues"]


def test_a_container_is_sent_to_its_host(host):
    plant(
        host,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.type": "domain\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/cpuset.cpus.partition": "member\n",
        },
    )
    reasons = {one.probe: one.reason for one in plan(root=host).impossible}
    assert reasons.keys() == {"cpu-quota", "cpuset-partition"}
    assert "container" in reasons["cpu-quota"] and "container" in reasons["cpuset-partition"]


def test_a_guest_is_sent_to_its_hypervisor(tmp_path):
    made = plan(root=plant(tmp_path, guest()))
    reasons = {one.probe: one.reason for one in made.impossible}
    for probe in ("governor", "turbo", "c-states", "smt", "steal", "clock-source"):
        assert "hypervisor" in reasons[probe]
    assert made.cores.shared
    assert "every core" in reasons["isolated-cores"]
    assert made.by_tool == ()


def test_more_cores_than_there_are(host):
    with pytest.raises(HostError, match="3 for the kit and 6 for the engine"):
        plan(3, 6, root=host)


@pytest.mark.parametrize(
    ("cores", "text"), [((0, 1), "3"), ((0, 31), "80000001"), ((0, 32), "00000001,00000001")]
)
def test_masks_are_written_in_groups_of_32_bits(cores, text):
    assert mask(cores) == text


def test_a_look_changes_nothing(host):
    before = content(host)
    plan(root=host)
    attest("P2", root=host)
    assert content(host) == before
    shutil.rmtree(host)
