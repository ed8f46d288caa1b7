"""Probes on made-up hosts: each put wrong by itself, taken away, and made nonsense."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hosts.trees import CPU, LIMITS, NODE, OWN, SWAPS, guest, plant, tuned
from tickproof.conformance.hosts.attestation import PROBES, attest
from tickproof.conformance.hosts.host_files import HostFiles
from tickproof.conformance.hosts.model import MOVING, Attestation, HostError, Status

KIT, ENGINE = (2, 3), (4, 5, 6, 7)
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
NET = "proc/sys/net/core"
#: (probe, path, text that breaks it), each on an otherwise tuned host.
WRONG = [
    ("cpu-quota", f"{OWN}/cpu.max", "50000 100000"),
    ("cpu-quota", "sys/fs/cgroup/bench.slice/cpu.max", "700000 100000"),
    ("cpu-pressure", "proc/pressure/cpu", "some avg10=5.01 avg60=0.00 avg300=0.00 total=9"),
    ("affinity", "proc/self/status", "CapEff:\t00\nCpus_allowed_list:\t0-6\n"),
    ("cpuset-partition", f"{OWN}/cpuset.cpus.partition", "root"),
    ("cpuset-partition", f"{OWN}/cpuset.cpus.partition", "isolated invalid (Parent is not)"),
    ("isolated-cores", f"{CPU}/isolated", "2-6"),
    ("isolated-cores", f"{CPU}/isolated", ""),
    ("nohz-full", f"{CPU}/nohz_full", "3-7"),
    ("nohz-full", f"{CPU}/nohz_full", "(null)"),
    ("real-time-policy", "proc/self/limits", LIMITS.format(memlock="unlimited", rtprio="0")),
    ("real-time-throttling", "proc/sys/kernel/sched_rt_runtime_us", "950000"),
    ("clock-source", CLOCK, "hpet"),
    ("governor", f"{CPU}/cpu5/cpufreq/scaling_governor", "powersave"),
    ("turbo", f"{CPU}/intel_pstate/no_turbo", "0"),
    ("c-states", f"{CPU}/cpu7/cpuidle/state3/disable", "0"),
    ("interrupts", "proc/irq/120/smp_affinity_list", "4"),
    ("interrupts", "proc/irq/default_smp_affinity", "ff"),
    ("smt", f"{CPU}/smt/active", "1"),
    ("huge-pages", "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
    ("swap", "proc/swaps", f"{SWAPS}/dev/sda2\tpartition\t1048572\t0\t-2\n"),
    ("numa-balancing", "proc/sys/kernel/numa_balancing", "1"),
    ("memlock", "proc/self/limits", LIMITS.format(memlock="65536", rtprio="99")),
    ("work-queues", "sys/devices/virtual/workqueue/cpumask", "07"),
    ("net-receive-buffer", f"{NET}/rmem_max", "212992"),
    ("net-send-buffer", f"{NET}/wmem_max", "212992"),
    ("net-backlog", f"{NET}/netdev_max_backlog", "1000"),
    ("net-busy-poll", f"{NET}/busy_poll", "0"),
]
#: (probe, a file without which it can say nothing).
NEEDED = [
    ("cpu-quota", f"{OWN}/cpu.max"),
    ("cpu-pressure", "proc/pressure/cpu"),
    ("isolated-cores", f"{CPU}/isolated"),
    ("nohz-full", f"{CPU}/nohz_full"),
    ("real-time-throttling", "proc/sys/kernel/sched_rt_runtime_us"),
    ("clock-source", CLOCK),
    ("governor", f"{CPU}/cpu5/cpufreq/scaling_governor"),
    ("turbo", f"{CPU}/intel_pstate/no_turbo"),
    ("c-states", f"{CPU}/cpu7/cpuidle/state3/disable"),
    ("interrupts", "proc/irq/default_smp_affinity"),
    ("interrupts", "proc/irq/24/smp_affinity_list"),
    ("smt", f"{CPU}/smt/active"),
    ("huge-pages", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("swap", "proc/swaps"),
    ("numa-node", f"{NODE}/node0/cpulist"),
    ("numa-balancing", "proc/sys/kernel/numa_balancing"),
    ("work-queues", "sys/devices/virtual/workqueue/cpumask"),
    ("steal", "proc/stat"),
    ("microcode", "proc/cpuinfo"),
    ("kernel", "proc/sys/kernel/osrelease"),
    ("net-receive-buffer", f"{NET}/rmem_max"),
    ("net-send-buffer", f"{NET}/wmem_max"),
    ("net-backlog", f"{NET}/netdev_max_backlog"),
    ("net-busy-poll", f"{NET}/busy_poll"),
]


def read(root: Path, level: str = "P2") -> Attestation:
    return attest(level, kit_cores=KIT, engine_cores=ENGINE, root=root)


def statuses(attested: Attestation) -> dict[str, Status]:
    return {reading.probe: reading.status for reading in attested.readings}


def values(attested: Attestation) -> dict[str, str]:
    return {reading.probe: reading.value for reading in attested.readings}


@pytest.fixture
def host(tmp_path) -> Path:
    return plant(tmp_path / "host", tuned())


def test_tuned_host_is_ok(host):
    attested = read(host)
    assert attested.problems() == []
    assert [r.probe for r in attested.readings] == [probe.name for probe in PROBES]
    assert len(PROBES) == 27
    assert all(
        r.path.startswith("/") and r.value and r.wanted and r.why.endswith(".")
        for r in attested.readings
    )


@pytest.mark.parametrize(("probe", "path", "text"), WRONG)
def test_one_wrong_setting_is_one_not_ok(host, probe, path, text):
    before = read(host)
    plant(host, {path: text})
    after = read(host)
    assert {n: s for n, s in statuses(after).items() if s is not Status.OK} == {
        probe: Status.NOT_OK
    }
    assert before.changed(after) == [probe] * (probe not in MOVING)


def test_cores_of_two_nodes_are_not_ok(host):
    plant(host, {f"{NODE}/node0/cpulist": "0-3", f"{NODE}/node1/cpulist": "4-7"})
    assert [(r.probe, r.value) for r in read(host).problems()] == [("numa-node", "node0, node1")]


@pytest.mark.parametrize(("probe", "path"), NEEDED)
def test_absent_file_is_unobservable(host, probe, path):
    (host / path).unlink()
    found = statuses(read(host))
    assert found[probe] is Status.UNOBSERVABLE
    assert all(status is not Status.NOT_OK for status in found.values())


# Any text is a release, and a text without a line of microcode has none.
@pytest.mark.parametrize(
    ("probe", "path"), [pair for pair in NEEDED if pair[0] not in ("microcode", "kernel")]
)
def test_malformed_file_is_unobservable_with_its_text(host, probe, path):
    plant(host, {path: "what?\x1b[31m"})
    attested = read(host)
    assert statuses(attested)[probe] is Status.UNOBSERVABLE
    assert "what?" in values(attested)[probe]
    assert "\x1b" not in values(attested)[probe]


def test_unreadable_file_is_unobservable(host):
    # Nobody, not even root, reads the memory of a process at address 0.
    (host / "proc/swaps").unlink()
    (host / "proc/swaps").symlink_to("/proc/self/mem")
    assert values(read(host))["swap"] == "input/output error"


def test_folder_in_place_of_a_file_is_unobservable(host):
    (host / "proc/swaps").unlink()
    (host / "proc/swaps").mkdir()
    assert values(read(host))["swap"] == "is a directory"


def test_nothing_at_all_is_unobservable(tmp_path):
    assert set(statuses(attest("P2", root=tmp_path)).values()) == {Status.UNOBSERVABLE}
    assert set(statuses(read(tmp_path)).values()) == {Status.UNOBSERVABLE}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(sorted(tuned())),
    content=st.binary(max_size=60) | st.from_regex(r"[0-9,\- a-z\[\]]*", fullmatch=True),
)
def test_no_content_breaks_a_probe(host, path, content):
    data = content if isinstance(content, bytes) else content.encode()
    original = (host / path).read_bytes()
    (host / path).write_bytes(data)
    try:
        attested = read(host)
    finally:
        (host / path).write_bytes(original)
    assert len(attested.readings) == len(PROBES)
    assert all("\n" not in reading.value for reading in attested.readings)


def test_virtual_machine_shows_little(tmp_path):
    found = statuses(attest("P2", root=plant(tmp_path, guest())))
    hidden = {
        "nohz-full",
        "governor",
        "turbo",
        "c-states",
        "smt",
        "numa-node",
        "numa-balancing",
        "steal",
        "microcode",
        "net-receive-buffer",
        "net-send-buffer",
        "net-backlog",
        "net-busy-poll",
    }
    fine = {"cpu-quota", "cpu-pressure", "affinity", "kernel"}
    assert {p for p, s in found.items() if s is Status.UNOBSERVABLE} == hidden
    assert {p for p, s in found.items() if s is Status.OK} == fine


def test_tuned_settings_of_a_guest_say_nothing_of_its_host(host):
    cpuinfo = tuned()["proc/cpuinfo"].replace("vme tsc", "vme tsc hypervisor")
    plant(host, {"proc/cpuinfo": cpuinfo})
    attested = read(host)
    assert [r.probe for r in attested.problems()] == ["smt", "steal"]
    assert {r.status for r in attested.problems()} == {Status.UNOBSERVABLE}


@pytest.mark.parametrize(
    ("vendor", "product", "virtual"),
    [
        ("QEMU", "Virtual Machine", True),
        ("Amazon EC2", "c7g.large", True),
        ("Amazon EC2", "c7g.metal", False),
        ("Dell Inc.", "PowerEdge R660", False),
    ],
)
def test_firmware_tells_a_guest_where_no_flag_does(host, vendor, product, virtual):
    plant(
        host,
        {
            "proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\nmicrocode\t: 0x1\n",
            "sys/class/dmi/id/sys_vendor": f"{vendor}\n",
            "sys/class/dmi/id/product_name": f"{product}\n",
        },
    )
    assert [r.probe for r in read(host).problems()] == ["smt", "steal"] * virtual


def test_quota_above_a_container_cannot_be_seen(host):
    # A cgroup namespace: its root looks like any other cgroup, and has a type.
    plant(
        host,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.type": "domain\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/cpuset.cpus.partition": "isolated\n",
        },
    )
    assert [(r.probe, r.status) for r in read(host).problems()] == [
        ("cpu-quota", Status.UNOBSERVABLE)
    ]
    plant(host, {"sys/fs/cgroup/cpu.max": "150000 100000\n"})
    assert statuses(read(host))["cpu-quota"] is Status.NOT_OK


def test_mount_of_a_part_of_the_cgroups(host):
    part = "31 23 0:28 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    plant(host, {"proc/self/mountinfo": part, "proc/self/cgroup": "0::/docker/abc/bench.slice\n"})
    assert statuses(read(host))["cpu-quota"] is Status.OK
    plant(host, {"proc/self/cgroup": "0::/docker/abcdef\n"})
    assert statuses(read(host))["cpu-quota"] is Status.UNOBSERVABLE
    plant(host, {"proc/self/cgroup": "0::/../other\n"})
    assert statuses(read(host))["cpu-quota"] is Status.UNOBSERVABLE


def test_cgroup_without_the_controller_has_no_quota(host):
    (host / OWN / "cpu.max").unlink()
    plant(host, {f"{OWN}/cgroup.controllers": "memory pids\n"})
    assert read(host).problems() == []


def test_partition_of_a_cgroup_above_holds(host):
    plant(host, {f"{OWN}/cpuset.cpus.partition": "member\n"})
    assert read(host).problems() == []
    plant(host, {"sys/fs/cgroup/bench.slice/cpuset.cpus.partition": "member\n"})
    assert [(r.probe, r.value) for r in read(host).problems()] == [("cpuset-partition", "member")]


def test_quota_and_cpuset_of_version_1(tmp_path):
    root = plant(
        tmp_path,
        guest()
        | {
            "proc/self/cgroup": "3:cpuset:/a/b\n1:cpu,cpuacct:/a/b\n0::/\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpuset/a/cpuset.cpu_exclusive": "1\n",
            "sys/fs/cgroup/cpuset/a/b/cpuset.cpu_exclusive": "0\n",
        },
    )
    found = statuses(attest("P0", root=root))
    assert (found["cpu-quota"], found["cpuset-partition"]) == (Status.OK, Status.OK)
    plant(
        root,
        {
            "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "20000\n",
            "sys/fs/cgroup/cpuset/a/cpuset.cpu_exclusive": "0\n",
        },
    )
    found = {r.probe: r for r in attest("P0", root=root).readings}
    assert found["cpu-quota"].status is Status.NOT_OK
    assert found["cpu-quota"].path == "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us"
    assert found["cpuset-partition"].status is Status.NOT_OK


def test_interrupts_that_nobody_told_where_are_taken_by_where_they_may_go(host):
    (host / "proc/irq/24/effective_affinity_list").unlink()
    assert read(host).problems() == []
    plant(host, {"proc/irq/24/smp_affinity_list": "0-7\n"})
    assert values(read(host))["interrupts"].startswith("1 of 3 on them (24)")


def test_interrupt_that_cannot_be_moved_counts_by_where_it_is(host):
    plant(host, {"proc/irq/8/smp_affinity_list": "0-7\n"})
    assert read(host).problems() == []


def test_an_interrupt_moves_when_it_comes_next(host):
    """The keyboard of a server never does: its effective list is that of the start for ever."""
    plant(host, {"proc/irq/24/effective_affinity_list": "5\n"})
    assert read(host).problems() == []
    plant(host, {"proc/irq/24/smp_affinity_list": "0-7\n"})
    assert values(read(host))["interrupts"].startswith("1 of 3 on them (24)")


def test_a_partition_need_not_hold_other_cores(host):
    plant(host, {"proc/self/status": "CapEff:\t00\nCpus_allowed_list:\t2-7\n"})
    found = {r.probe: r for r in attest("P0", root=host).readings}
    assert (found["affinity"].status, found["affinity"].wanted) == (Status.OK, "hold 2-7")


def test_deep_states_are_harmless_while_a_process_forbids_them(host):
    opened = {f"{CPU}/cpu{core}/cpuidle/state3/disable": "0" for core in range(8)}
    plant(host, opened)
    assert values(read(host))["c-states"] == "C6"
    plant(host, {"dev/cpu_dma_latency": (20).to_bytes(4, "little")})
    assert statuses(read(host))["c-states"] is Status.OK
    (host / "dev/cpu_dma_latency").unlink()
    assert statuses(read(host))["c-states"] is Status.NOT_OK


def test_kernel_that_polls_shows_no_states(host):
    for core in range(8):
        shutil.rmtree(host / CPU / f"cpu{core}/cpuidle")
    assert statuses(read(host))["c-states"] is Status.UNOBSERVABLE
    plant(host, {"proc/cmdline": "root=/dev/sda1 idle=poll\n"})
    assert statuses(read(host))["c-states"] is Status.OK


def test_real_time_policy_by_capability(host):
    status = "CapEff:\t0000000000800000\nCpus_allowed_list:\t0-7\n"
    limits = LIMITS.format(memlock="unlimited", rtprio="0")
    plant(host, {"proc/self/limits": limits, "proc/self/status": status})
    assert read(host).problems() == []


def test_steal_over_a_short_look(host, monkeypatch):
    plant(host, {"proc/stat": "cpu  100 0 50 9000 5 0 7 40 0 0\n"})
    assert values(read(host))["steal"] == "the counters stood still"
    raw, looks, stolen = HostFiles.raw, itertools.count(1), 0

    def ticking(files: HostFiles, path: str) -> bytes:
        """Let a tick pass with each look."""
        look = next(looks)
        ticks = f"cpu  100 0 50 {9000 + look} 5 0 7 {40 + look * stolen} 0 0\n"
        return ticks.encode() if path == "proc/stat" else raw(files, path)

    monkeypatch.setattr(HostFiles, "raw", ticking)
    assert statuses(read(host))["steal"] is Status.OK
    stolen = 1
    before = read(host)
    assert statuses(before)["steal"] is Status.NOT_OK
    assert before.changed(read(host)) == []


def test_levels_are_cumulative(host):
    plant(host, {CLOCK: "hpet", f"{CPU}/smt/active": "1", f"{NET}/busy_poll": "0"})
    attested = read(host)
    assert [r.probe for r in attested.problems("P0")] == ["clock-source"]
    assert [r.probe for r in attested.problems("P1")] == ["clock-source", "smt"]
    assert [r.probe for r in attested.problems("P2")] == ["clock-source", "smt", "net-busy-poll"]
    assert attested.problems() == attested.problems("P2")
    lower = read(host, "P0")
    assert {r.level for r in lower.readings} == {"P0"}
    with pytest.raises(HostError, match="P1: read up to P0 only"):
        lower.problems("P1")


def test_no_level_asks_nothing_and_shows_all(host):
    plant(host, {CLOCK: "hpet"})
    attested = read(host, "none")
    assert len(attested.readings) == len(PROBES)
    assert (attested.problems(), [r.probe for r in attested.problems("P1")]) == (
        [],
        ["clock-source"],
    )
    plant(host, {CLOCK: "tsc"})
    assert attested.changed(read(host, "none")) == []


def test_unknown_level_is_an_error(host):
    with pytest.raises(HostError, match="expected one of none, P0, P1, P2; got P3"):
        attest("P3", root=host)


def test_json_gives_the_same_attestation(host):
    plant(host, {CLOCK: "hpet"})
    attested = read(host)
    assert Attestation.from_json(json.loads(json.dumps(attested.to_json()))) == attested
    for broken in ({}, {"level": "P9", "readings": []}, attested.to_json() | {"readings": [{}]}):
        with pytest.raises(HostError, match="host attestation"):
            Attestation.from_json(broken)


def test_probe_that_vanished_has_changed(host):
    before = read(host)
    data = before.to_json()
    data["readings"] = [r for r in data["readings"] if r["probe"] != "swap"]
    assert before.changed(Attestation.from_json(data)) == ["swap"]


def test_this_host_can_be_attested_twice_the_same():
    before = attest("P2", kit_cores=(0,))
    after = attest("P2", kit_cores=(0,))
    assert len(before.readings) == len(PROBES)
    # Another user may move an interrupt meanwhile; nothing else here moves by itself.
    assert set(before.changed(after)) <= {"interrupts"}


def test_looking_leaves_policy_and_affinity_as_they_were():
    before = os.sched_getscheduler(0), os.sched_getaffinity(0)
    attest("P2")
    assert (os.sched_getscheduler(0), os.sched_getaffinity(0)) == before
