"""What the Ansible role reckons, without a play: cores, rules, and the store of old values."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.hosts.attest import PROBES
from conformance.resources import fixtures

yaml = pytest.importorskip("yaml", reason="ansible-core is not installed: it brings yaml")
errors = pytest.importorskip("ansible.errors", reason="ansible-core is not installed: it has them")
FOLDER = fixtures() / "hosts" / "roles" / "tickproof_host" / "filter_plugins"
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def filters() -> dict[str, Callable]:
    found = {}
    for path in FOLDER.glob("*.py"):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= module.FilterModule().filters()
    return {name.removeprefix("tickproof_"): one for name, one in found.items()}


F = filters()
WHO = {"kit": [2], "engine": [3], "measuring": [2, 3], "housekeeping": [0, 1]}


@given(st.sets(st.integers(0, 300)))
def test_cores_go_through_lists_and_masks(numbers):
    text = F["core_list"](numbers)
    assert F["cores"](text) == sorted(numbers)
    assert F["cores"](text.split(",")) == sorted(numbers)
    mask = F["core_mask"](numbers)
    assert all(len(word) == 8 for word in mask.split(","))
    assert int(mask.replace(",", ""), 16) == sum(1 << number for number in numbers)


@pytest.mark.parametrize("said", ["x", "3-2", "-1", "1-", "99999", "1;2", "2-3 a", "1.5"])
def test_what_is_no_list_of_cores_is_an_error_that_names_it(said):
    with pytest.raises(errors.AnsibleFilterError, match="tickproof_kit_cores: '"):
        F["cores"](said, "tickproof_kit_cores")


def layout(kit="2", engine="3", housekeeping="", smt_off=False, online="0-3\n"):
    seen = {"/sys/devices/system/cpu/online": online}
    seen |= {SIBLINGS.format(core): f"{core % 2},{core % 2 + 2}\n" for core in range(4)}
    return F["layout"](seen, kit, engine, housekeeping, smt_off)


def test_cores_are_shared_out():
    assert layout() == WHO
    assert layout("1", "1")["housekeeping"] == [0, 2, 3]
    assert layout("", "")["measuring"] == []
    # The second threads of the pairs 0,2 and 1,3 go away.
    assert layout("1", "", "", smt_off=True)["housekeeping"] == [0]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kit": "9"}, "tickproof_kit_cores: core 9 is not online; this host has 0-3"),
        ({"engine": "4-5"}, "tickproof_engine_cores: core 4-5 is not online"),
        ({"housekeeping": "1-2"}, "core 2 is also a core of kit or engine"),
        ({"kit": "2-3", "engine": "3"}, "the same cores, or none in common"),
        ({"kit": "0-1", "engine": "2-3"}, "leave one for housekeeping"),
        ({"smt_off": True}, "core 2-3 is a second hardware thread"),
        ({"online": ""}, "this host has none that can be read"),
    ],
)
def test_cores_that_cannot_be_shared_out_are_named(said, why):
    with pytest.raises(errors.AnsibleFilterError, match=why):
        layout(**said)


def wanted(rule: str, text: str | None, value: object = "", **more) -> str | None:
    setting = {"name": "a", "files": ["/f*"], "rule": rule, "value": value} | more
    found = F["due"]({"/file": text}, [setting], WHO)
    return found["a"]["/file"]["value"] if found else None


@pytest.mark.parametrize(
    ("rule", "text", "value", "expected"),
    [
        ("is", "performance\n", "performance", None),
        ("is", "always [madvise] never\n", "madvise", None),
        ("is", "[always] madvise never\n", "madvise", "madvise"),
        ("is", "isolated invalid (cpu list empty)\n", "isolated", "isolated"),
        ("is", "950000\n", -1, "-1"),
        ("least", "4096\n", 4096, None),
        ("least", "4095\n", 4096, "4096"),
        ("least", "?\n", 4096, "4096"),
        ("holds", "cpu cpuset io\n", "cpuset", None),
        ("holds", "cpu io\n", "cpuset", "+cpuset"),
        ("off_list", "0-1\n", "", None),
        ("off_list", "1-2\n", "", "0-1"),
        ("off_list", "\n", "", None),
        ("off_list", "all of them\n", "", None),
        ("off_mask", "3\n", "", None),
        ("off_mask", "ffffffff,ffffffff\n", "", "00000003"),
        ("off_mask", "?\n", "", None),
        ("line", "A=1\nB=2\n", "A=1", None),
        ("line", "A=0\n#A=1\nA=2\nB=2", "A=1", "A=1\n#A=1\nB=2"),
        ("line", "# A=1\n", "A=1", "# A=1\nA=1"),
        ("smt", "notsupported\n", "off", None),
        ("smt", "forceoff\n", "off", None),
        ("smt", "on\n", "off", "off"),
        ("no_swaps", "Filename Type\n", "", None),
        ("no_swaps", "Filename Type\n/dev/sda2 partition 1 0 -2\n", "", "none"),
        ("arguments", "quiet isolcpus=domain,managed_irq,1-3\n", "isolcpus=2-3", None),
        ("arguments", "quiet isolcpus=2\n", "isolcpus=2-3", "isolcpus=2-3"),
        ("arguments", "quiet isolcpus=\n", "isolcpus=2-3", "isolcpus=2-3"),
    ],
)
def test_a_rule_says_whether_a_file_is_right_and_what_to_write(rule, text, value, expected):
    assert wanted(rule, text, value) == expected


def test_a_file_that_is_absent_is_made_only_where_it_shall_be():
    assert wanted("is", None, "1") is None
    assert wanted("is", None, "1", create=True) == "1"
    assert wanted("is", None, "1", create=True, needs=["/gone"]) is None
    assert wanted("is", "0\n", "1", when=False) is None
    assert wanted("is", "0\n", "1", when="False") is None


def test_only_states_deeper_than_c1_are_due():
    names = ["POLL", "C1", "C1_ACPI", "C1E", "C6", "haltpoll idle"]
    seen = {}
    for number, name in enumerate(names):
        seen |= {f"/s{number}/name": name + "\n", f"/s{number}/disable": "0\n"}
    setting = {"name": "c", "files": ["/s*/disable"], "rule": "is", "value": "1"}
    found = F["due"](seen, [setting | {"deep_only": True}], WHO)["c"]
    assert [names[int(path[2])] for path in found] == ["C1E", "C6"]


def store(boot="boot-1", **before) -> str:
    return json.dumps({"boot": boot, "before": before})


def seen(text: str | None, boot="boot-1") -> dict:
    return {"/before.json": text, "/proc/sys/kernel/random/boot_id": boot + "\n"}


def test_the_oldest_value_is_kept():
    held = F["state"](seen(store(governor={"/sys/a": "powersave\n"})), "/before.json")
    changes = {
        "governor": {
            "/sys/a": {"before": "schedutil\n", "value": "performance"},
            "/sys/b": {"before": "powersave\n", "value": "performance"},
        },
        "memlock": {"/etc/c": {"before": None, "value": "x"}},
    }
    held = F["remember"](held, changes)
    assert held["before"] == {
        "governor": {"/sys/a": "powersave\n", "/sys/b": "powersave\n"}, "memlock": {"/etc/c": None},
    }  # fmt: skip


def test_after_a_restart_only_what_outlived_it_is_given_back():
    text = store(
        governor={"/sys/a": "powersave\n"}, swap={"/proc/swaps": "x", "/proc/sys/b": "1"},
        memlock={"/etc/c": None}, arguments={"/proc/cmdline": "quiet\n"},
    )  # fmt: skip
    same = F["state"](seen(text), "/before.json")
    assert list(same["before"]) == ["governor", "swap", "memlock", "arguments"]
    later = F["state"](seen(text, boot="boot-2"), "/before.json")
    assert later["before"] == {
        "memlock": {"/etc/c": None},
        "arguments": {"/proc/cmdline": "quiet\n"},
    }
    assert later["boot"] == "boot-2"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"boot": "x"}', '{"boot": "", "before": {"a": 1}}']
)
def test_a_store_that_is_damaged_is_never_begun_anew(text):
    with pytest.raises(errors.AnsibleFilterError, match=r"/before.json: not a store of this role"):
        F["state"](seen(text), "/before.json")


def test_a_store_that_cannot_be_read_is_never_begun_anew():
    looked = F["read"](["/before.json\t!", "/gone\t-", "/not-text\t/w==", "/empty\t"])
    assert looked == {"/gone": None, "/empty": ""}
    with pytest.raises(errors.AnsibleFilterError, match=r"/before.json: cannot be read"):
        F["state"](looked, "/before.json")


def decoded(text: str) -> list[tuple[str, str | None]]:
    rows = [line.split("\t") for line in text.splitlines()]
    return [(path, None if held == "-" else F["read"]([f"x\t{held}"])["x"]) for path, held in rows]


def test_a_kernel_is_given_back_the_word_it_takes_and_files_as_they_were():
    pages, group = "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup"
    before = {
        "huge-pages": {pages: "[always] madvise never\n"},
        "cpuset-partition": {
            f"{group}/cgroup.subtree_control": "cpu io\n",
            f"{group}/tickproof/cpuset.cpus.partition": "isolated invalid (why)\n",
        },
        "tuned": {"/etc/tuned/active_profile": "balanced\n", "/etc/tuned/v.conf": "a=[1]"},
        "memlock": {"/etc/c": None},
    }
    assert decoded(F["back"](before, False)) == [
        ("/etc/c", None),
        ("/etc/tuned/v.conf", "a=[1]"),
        (f"{group}/tickproof/cpuset.cpus.partition", "isolated\n"),
        (f"{group}/cgroup.subtree_control", "-cpuset\n"),
        (pages, "always\n"),
    ]
    assert decoded(F["back"](before, True))[-1] == (pages, "[always] madvise never\n")


def test_what_was_not_given_back_stays_in_the_store():
    before = {
        "turbo": {"/sys/turbo": "0\n"},
        "interrupts": {"/proc/irq/1/smp_affinity_list": "0-3\n", "/proc/irq/2/gone": "0-3\n"},
        "swap": {"/proc/swaps": "x"},
        "memlock": {"/etc/c": None, "/etc/d": None},
        "numa-balancing": {"/proc/sys/kernel/numa_balancing": "1\n"},
    }
    given = {name: paths for name, paths in before.items() if name != "numa-balancing"}
    now = {"/sys/turbo": "1\n", "/proc/irq/1/smp_affinity_list": "0-3\n", "/etc/c": "x"}
    left = F["without"]({"boot": "b", "before": before}, given, now)
    assert left == {
        "boot": "b",
        "before": {
            "turbo": {"/sys/turbo": "0\n"},
            "memlock": {"/etc/c": None},
            "numa-balancing": {"/proc/sys/kernel/numa_balancing": "1\n"},
        },
    }


def test_swap_that_is_on_already_is_not_turned_on():
    before = "Filename Type Size Used Priority\n/a\\040b file 9 0 5\n/c partition 9 0 -2\n"
    assert F["swaps"](before, "Filename\n/c partition 9 0 -2\n") == [
        {"path": "/a b", "priority": 5}
    ]


def test_grubby_takes_away_what_is_new_and_gives_back_what_was_replaced():
    now = "root=/dev/sda quiet isolcpus=2-3 nohz_full=2-3 processor.max_cstate=1"
    wish = ["processor.max_cstate=1"]
    assert F["grubby_back"]("quiet isolcpus=3 processor.max_cstate=1", now, wish) == [
        ["--remove-args=isolcpus=2-3 nohz_full=2-3"],
        ["--args=isolcpus=3 processor.max_cstate=1"],
    ]
    assert F["grubby_back"]("quiet", "quiet", wish) == []


def test_tags_choose_settings():
    settings = [{"name": "swap", "tags": ["sysctl"]}, {"name": "turbo"}]
    chosen = {
        ("all",): ["swap", "turbo"], ("sysctl",): ["swap"], ("turbo", "x"): ["turbo"],
        ("always",): [],
    }  # fmt: skip
    for run, names in chosen.items():
        assert [one["name"] for one in F["selected"](settings, list(run), [])] == names
    assert [one["name"] for one in F["selected"](settings, ["all"], ["sysctl"])] == ["turbo"]


def test_settings_are_named_like_the_probes_and_their_tasks_have_their_tags():
    role = FOLDER.parent
    said = yaml.safe_load((role / "vars" / "main.yml").read_text())
    settings = said["tickproof_first"] + said["tickproof_then"]
    names = {one["name"] for one in settings}
    assert names - {probe.name for probe in PROBES} == {"tuned", "kernel-command-line"}
    tags = names | {tag for one in settings for tag in one.get("tags", [])}
    tasks = yaml.safe_load((role / "tasks" / "main.yml").read_text())
    used = [task["tags"] if isinstance(task["tags"], list) else [task["tags"]] for task in tasks]
    assert {tag for some in used for tag in some} == tags | {"always"}
