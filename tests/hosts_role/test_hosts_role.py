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

from conformance.hosts.attest import attest
from conformance.hosts.model import Status
from conformance.resources import fixtures

HOSTS = fixtures() / "hosts"
ROLE = HOSTS / "roles" / "tickproof_host"
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
STORE = "var/lib/tickproof/before.json"
CORES = {"tickproof_kit_cores": "2", "tickproof_engine_cores": [3]}
#: Probes of the kit that the role makes right on the made-up host.
PROBED = {
    "governor", "turbo", "c-states", "interrupts", "huge-pages", "swap", "numa-balancing",
    "work-queues", "real-time-throttling", "net-receive-buffer", "net-send-buffer",
    "net-backlog", "net-busy-poll",
}  # fmt: skip
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

LONG = pytest.mark.skipif(
    os.environ.get("TICKPROOF_TESTS") == "few", reason="half a minute of plays; not in CI"
)
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


def test_both_playbooks_are_sound_and_a_check_of_this_machine_changes_nothing(tmp_path):
    play(tmp_path, inventory(), "--syntax-check", HOSTS / "apply.yml", HOSTS / "undo.yml")
    real = {path: present(path) for path in REAL}
    hosts = inventory(localhost={"tickproof_rmem_max": 1 << 40})
    said = play(tmp_path, hosts, "--check", "--diff", HOSTS / "apply.yml")
    assert {path: present(path) for path in REAL} == real
    # It says what it would do.
    assert re.search(r"net-receive-buffer: /proc/sys/net/core/rmem_max: \d+ -> 1099511627776", said)
    assert changed(said)


@LONG
def test_apply_sets_all_of_it_once_and_undo_gives_it_back_byte_for_byte(tmp_path):
    tree = tmp_path / "plain host"
    build(tree)
    before = held(tree)
    hosts = inventory(plain=made_up(tree))
    said = play(tmp_path, hosts, HOSTS / "apply.yml", HOSTS / "apply.yml")
    after = held(tree)
    expected = {name: text.encode() for name, text in (BEFORE | AFTER).items()}
    assert {name: after.get(name) for name in expected} == expected
    assert set(after) - set(before) == {
        "sys/fs/cgroup/tickproof",
        *(name for name in AFTER if name not in before),
        *("var", "var/lib", "var/lib/tickproof", STORE),
    }
    assert (tree / STORE).stat().st_mode & 0o777 == 0o600
    # The second time there is nothing to do.
    first, second = said.split("PLAY [Tune")[1:]
    assert changed(first) and not changed(second)
    assert "Say what differs] ***" in second and "differs]\nok" not in second
    assert calls(tree) == ["tuned-adm profile cpu-partitioning", "update-grub ", "swapoff --all"]
    attested(tree)

    play(tmp_path, hosts, HOSTS / "undo.yml")
    left = held(tree)
    for folder in ("var", "var/lib", "var/lib/tickproof"):
        assert left.pop(folder, b"") is None
    assert left == before
    assert calls(tree) == [
        "swapon --priority=-2 /dev/sda 2", "update-grub ", "tuned-adm profile balanced",
    ]  # fmt: skip


def attested(tree: Path) -> None:
    """The kit's own probes must find right what the role has set."""
    # A kernel shows what it was told among the others.
    pages = tree / "sys/kernel/mm/transparent_hugepage/enabled"
    pages.write_text(f"always [{pages.read_text().strip()}] never\n")
    attestation = attest("P2", kit_cores=(2,), engine_cores=(3,), root=tree)
    status = {one.probe: one.status for one in attestation.readings}
    assert {probe for probe in PROBED if status[probe] is not Status.OK} == set()


@LONG
def test_where_systemd_runs_a_slice_is_made_and_tags_choose(tmp_path):
    tree = tmp_path / "systemd"
    build(tree, systemd=True)
    before = held(tree)
    said = play(
        tmp_path, inventory(systemd=made_up(tree)),
        "--tags", "cpuset-partition,interrupts,isolated-cores",
        HOSTS / "apply.yml", HOSTS / "undo.yml",
    )  # fmt: skip
    applied, undone = said.split("PLAY [Untune")
    assert "/sys/fs/cgroup/tickproof.slice/cpuset.cpus.partition: member -> isolated" in applied
    assert "/sys/fs/cgroup/cgroup.subtree_control" not in applied
    assert not re.search("governor: |swap: |memlock: ", said)
    arguments = "isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3"
    arguments += " processor.max_cstate=1 intel_idle.max_cstate=1"
    assert [line for line in calls(tree) if line != "grubby --info=DEFAULT"] == [
        f"grubby --update-kernel=ALL --args={arguments}",
        "systemctl start tickproof.slice",
        "systemctl set-property --runtime tickproof.slice AllowedCPUs=2-3",
        "systemctl try-restart irqbalance.service",
        "systemctl stop tickproof.slice",
        "systemctl revert tickproof.slice",
        "systemctl try-restart irqbalance.service",
        f"grubby --update-kernel=ALL --remove-args={arguments}",
        "grubby --update-kernel=ALL --args=isolcpus=3",
    ]
    assert changed(undone)
    assert {name: held(tree).get(name) for name in before} == before
    assert not (tree / STORE).exists()
