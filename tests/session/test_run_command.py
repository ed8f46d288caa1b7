from __future__ import annotations

import pytest

from tickproof.conformance.requirements import registry
from tickproof.conformance.session import run_command
from tickproof.conformance.session.request import Request


@pytest.mark.parametrize(
    ("tiers", "only", "expected"),
    [
        ((), ("PR-STOP", "PR-HELLO"), {"PR-STOP", "PR-HELLO"}),
        ((2,), ("MS-MERGED",), {"MS-MERGED"}),
    ],
)
def test_select_by_id(tiers, only, expected):
    assert set(run_command.select(Request(tiers=tiers, only=only))) == expected


def test_select_everything_by_default_and_tiers_by_number():
    known = registry.load()

    assert run_command.select(Request(profile="full")) == known
    chosen = run_command.select(Request(profile="full", tiers=(1, 3)))
    assert {requirement.tier for requirement in chosen.values()} == {1, 3}
    assert len(chosen) == sum(requirement.tier in (1, 3) for requirement in known.values())


def test_a_traceback_that_cannot_be_kept_is_printed(tmp_path, capsys):
    from tickproof.conformance.reports import style

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
    assert known.keys() - latency == run_command.select(Request()).keys()
    assert latency < run_command.select(Request(profile="full")).keys()
    assert run_command.select(Request(tiers=(registry.LATENCY_TIER,))).keys() == latency
    assert set(run_command.select(Request(only=("LT-LIMITS",)))) == {"LT-LIMITS"}
