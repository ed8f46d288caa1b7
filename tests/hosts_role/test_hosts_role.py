"""The Ansible role of fixtures/hosts, played on made-up hosts: apply, apply again, undo."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hosts_tree import AFTER, BEFORE, build, calls, held

from conformance.resources import fixtures

HOSTS = fixtures() / "hosts"
ROLE = HOSTS / "roles" / "tickproof_host"
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
STORE = "var/lib/tickproof/before.json"
CORES = {"tickproof_kit_cores": "2", "tickproof_engine_cores": [3]}
#: Files of this machine that the role would change if it were not told to look only.
REAL = [
    *Path("/proc/sys/net/core").glob("*mem_max"),
    *Path("/sys/devices/system/cpu").glob("cpu*/cpuidle/state*/disable"),
    *(
        Path(name)
        for name in (
            "/proc/sys/vm/swappiness",
            "/proc/sys/kernel/sched_rt_runtime_us",
            "/proc/sys/kernel/numa_balancing",
            "/proc/sys/net/core/netdev_max_backlog",
            "/proc/sys/net/core/busy_poll",
            "/proc/irq/default_smp_affinity",
            "/proc/swaps",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/devices/virtual/workqueue/cpumask",
            "/etc/security/limits.d/90-tickproof.conf",
            "/var/lib/tickproof",
            "/var/lib/tickproof/before.json",
            "/sys/fs/cgroup/tickproof",
        )
    ),
]

pytestmark = pytest.mark.skipif(
    not PLAYBOOK.exists(), reason="ansible-playbook is not installed: it plays the role"
)


def play(folder: Path, inventory: dict, *said: str) -> str:
    """Run ansible-playbook in a folder and return what it prints; it must end with 0."""
    hosts = folder / "hosts.json"
    hosts.write_text(json.dumps(inventory))
    (folder / "ansible.cfg").write_text("")
    done = subprocess.run(
        [PLAYBOOK, "-i", hosts, *said], cwd=folder, env=environment(folder), text=True,
        capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return kept | {
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "ansible" / "tmp"),
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }


def inventory(**hosts: dict) -> dict:
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_become": False,
    }
    return {"tickproof": {"hosts": {name: common | own for name, own in hosts.items()}}}


def made_up(root: Path) -> dict:
    return CORES | {
        "tickproof_root": str(root),
        "tickproof_user": "trader",
        "tickproof_smt_off": True,
        "tickproof_reboot_allowed": True,
    }


def present(path: Path) -> bytes | bool:
    try:
        return path.read_bytes()
    except OSError:
        return path.exists()


def changed(said: str) -> list[str]:
    return re.findall(r"^changed: .*$", said, re.MULTILINE)


@pytest.fixture
def trees(tmp_path) -> tuple[Path, Path]:
    """Return a host with GRUB and tuned, and one with systemd and grubby."""
    plain, systemd = tmp_path / "plain host", tmp_path / "systemd"
    build(plain)
    build(systemd, systemd=True)
    return plain, systemd


def test_both_playbooks_are_sound_and_a_check_changes_nothing(tmp_path, trees):
    play(tmp_path, inventory(), "--syntax-check", HOSTS / "apply.yml", HOSTS / "undo.yml")
    plain, _ = trees
    before, real = held(plain), {path: present(path) for path in REAL}
    said = play(
        tmp_path, inventory(localhost={}, plain=made_up(plain)), "--check", "--diff",
        HOSTS / "apply.yml", HOSTS / "undo.yml",
    )  # fmt: skip
    assert held(plain) == before
    assert calls(plain) == []
    assert {path: present(path) for path in REAL} == real
    # It says what it would do, and not what a made-up host has no need of.
    assert "governor: /sys/devices/system/cpu/cpu3/cpufreq/scaling_governor:" in said
    assert "powersave -> performance" in said
    assert "wmem_max: 999999999" not in said


def test_apply_sets_all_of_it_once_and_undo_gives_it_back_byte_for_byte(tmp_path, trees):
    plain, systemd = trees
    before = {tree: held(tree) for tree in trees}
    hosts = inventory(plain=made_up(plain), systemd=made_up(systemd))
    first = play(tmp_path, hosts, HOSTS / "apply.yml")
    expected = {name: text.encode() for name, text in (BEFORE | AFTER).items()}
    after = held(plain)
    assert {name: after.get(name) for name in expected} == expected
    assert set(after) - set(before[plain]) == {
        "sys/fs/cgroup/tickproof",
        *(name for name in AFTER if name not in before[plain]),
        *("var", "var/lib", "var/lib/tickproof", STORE),
    }
    assert calls(plain) == ["tuned-adm profile cpu-partitioning", "update-grub ", "swapoff --all"]
    assert calls(systemd) == [
        "grubby --info=DEFAULT",
        "grubby --update-kernel=ALL --args=isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3"
        " processor.max_cstate=1 intel_idle.max_cstate=1",
        "systemctl start tickproof.slice",
        "systemctl set-property --runtime tickproof.slice AllowedCPUs=2-3",
        "systemctl try-restart irqbalance.service",
        "swapoff --all",
    ]
    slice_ = systemd / "sys/fs/cgroup/tickproof.slice"
    assert (slice_ / "cpuset.cpus.partition").read_text() == "isolated\n"
    assert "could not be set" not in first.replace("TASK [tickproof_host : Say what could", "")

    applied = {tree: held(tree) for tree in trees}
    second = play(tmp_path, hosts, HOSTS / "apply.yml")
    assert changed(second) == []
    assert {tree: held(tree) for tree in trees} == applied
    assert calls(plain) == []

    calls(systemd)
    undone = play(tmp_path, hosts, HOSTS / "undo.yml", HOSTS / "undo.yml")
    for tree in trees:
        left = held(tree)
        for folder in ("var", "var/lib", "var/lib/tickproof"):
            assert left.pop(folder, b"") is None
        assert left == before[tree]
    # The second undo has nothing to give back.
    assert changed(undone) and not changed(undone.rpartition("PLAY [Untune")[2])
    assert calls(plain) == [
        "swapon --priority=-2 /dev/sda 2", "update-grub ", "tuned-adm profile balanced",
    ]  # fmt: skip
    assert [line for line in calls(systemd) if "--info" not in line] == [
        "systemctl stop tickproof.slice",
        "systemctl revert tickproof.slice",
        "swapon --priority=-2 /dev/sda 2",
        "systemctl try-restart irqbalance.service",
        "grubby --update-kernel=ALL --remove-args=isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3"
        " processor.max_cstate=1 intel_idle.max_cstate=1",
        "grubby --update-kernel=ALL --args=isolcpus=3",
    ]
