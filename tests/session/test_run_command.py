from __future__ import annotations

import pytest

from tickproof.conformance.errors import RequestError
from tickproof.conformance.explain.outcomes import reported
from tickproof.conformance.session import run_command
from tickproof.conformance.session.request import Request
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Outcome, Verdict


@pytest.mark.parametrize(
    ("tiers", "only", "expected"),
    [((), ("PR-STOP", "PR-HELLO"), {"PR-STOP", "PR-HELLO"}), ((2,), ("MS-MERGED",), {"MS-MERGED"})],
)
def test_select_by_id(tiers, only, expected):
    assert set(run_command.select(Request(tiers=tiers, only=only))) == expected


def test_select_everything_by_default_and_tiers_by_number():
    known = registry.load()

    assert run_command.select(Request(profile="full", hosts=3)) == known
    on_one = {id_: one for id_, one in known.items() if not one.needs.hosts}
    assert run_command.select(Request(profile="full")) == on_one
    chosen = run_command.select(Request(profile="full", tiers=(1, 3)))
    assert {requirement.tier for requirement in chosen.values()} == {1, 3}
    assert len(chosen) == sum(requirement.tier in (1, 3) for requirement in known.values())


def test_a_traceback_that_cannot_be_kept_is_printed(tmp_path, capsys):
    from tickproof.conformance.report import style

    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    run_command.keep_traceback(ValueError("boom"), blocked, style.console())

    out = capsys.readouterr().out
    assert "ValueError: boom" in out
    assert "shown above" in out


def test_latency_is_no_part_of_the_quick_judgement():
    known = registry.load()
    latency = {id_ for id_, one in known.items() if one.tier == registry.LATENCY_TIER}
    assert latency
    assert latency.isdisjoint(run_command.select(Request()))
    assert known.keys() - latency == run_command.select(Request(hosts=3)).keys()
    assert latency < run_command.select(Request(profile="full")).keys()
    assert run_command.select(Request(tiers=(registry.LATENCY_TIER,))).keys() == latency
    assert set(run_command.select(Request(only=("LT-LIMITS",)))) == {"LT-LIMITS"}


def test_what_is_about_hosts_is_not_asked_without_them():
    about = {id_ for id_, one in registry.load().items() if one.needs.hosts}
    assert about and about.isdisjoint(run_command.select(Request(tiers=(4,))))
    assert about < run_command.select(Request(tiers=(4,), hosts=3)).keys()
    with pytest.raises(RequestError, match=r"--only: NE-MUTE is about .*: it needs --hosts"):
        run_command.select(Request(only=("NE-MUTE",)))


def test_what_has_to_be_judged_can_be():
    about = {id_ for id_, one in registry.load().items() if one.needs.hosts}
    assert about.isdisjoint(run_command.required(["t4"], 0))
    assert about < set(run_command.required(["t4"], 3))
    assert run_command.required(["NE-MUTE"], 3) == ("NE-MUTE",)
    with pytest.raises(RequestError, match=r"--require: NE-MUTE is about .*: it needs --hosts"):
        run_command.required(["NE-MUTE"], 0)


PARTITION = """
app = "count"
params = { emit = "every" }
input = { records = 1000, keys = 10 }
[[fault]]
do = "partition"
target = "host"
at = "fetched"
seconds = 1.0
"""


@pytest.mark.parametrize(
    ("more", "hosts", "said"),
    [
        ("", 0, r"schedule-one: \[\[fault\]\] 1: target host: it needs --hosts"),
        ('host = "host-9"', 3, r"host: expected log or host-1 to host-3 \(--hosts 3\), got host-9"),
        ('peer = "host-4"', 3, "peer: expected log or host-1 to host-3"),
    ],
)
def test_a_schedule_names_hosts_that_there_are(tmp_path, more, hosts, said):
    path = tmp_path / "one.toml"
    path.write_text(PARTITION + more)
    with pytest.raises(RequestError, match=said):
        run_command.check(Request(out=tmp_path, schedules=(path,), hosts=hosts), [], None)


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.KNOWN_GAP])
def test_a_failure_that_nobody_asked_for_is_reported(verdict):
    selected = run_command.select(Request(only=("DL-AFTER-STAGE",)))
    found = [Outcome("DL-AFTER-STAGE", Verdict.FAIL), Outcome("EO-SOME", verdict)]
    assert set(reported(selected, found)) == {"DL-AFTER-STAGE", "EO-SOME"}
    blocked = [Outcome("DL-AFTER-STAGE", Verdict.BLOCKED, blocked_by=["EO-SOME"])]
    assert set(reported(selected, blocked)) == {"DL-AFTER-STAGE", "EO-SOME"}


def test_a_pass_that_nobody_asked_for_is_left_to_the_report_to_refuse():
    selected = run_command.select(Request(only=("DL-AFTER-STAGE",)))
    found = [Outcome("DL-AFTER-STAGE", Verdict.PASS), Outcome("EO-SOME", Verdict.PASS)]
    assert set(reported(selected, found)) == {"DL-AFTER-STAGE"}
