from __future__ import annotations

import json

import pytest

from tickproof.conformance.checkers.findings import Finding, Findings
from tickproof.conformance.performance import kit
from tickproof.conformance.report import style

MESSAGES = 20_000


def test_a_whole_run_is_served_recorded_and_checked():
    run = kit.whole_run(MESSAGES)

    assert run["events"] == MESSAGES
    assert run["seconds"] > 0
    assert run["peak_bytes"] > 2**20


def test_a_checker_that_finds_fault_stops_the_bench(monkeypatch):
    found = Findings(checked=1)
    found.add(Finding("lost", {"order_id": 7}))
    monkeypatch.setattr(kit, "check_merged", lambda *_: found)

    with pytest.raises(RuntimeError, match="order_id"):
        kit.whole_run(MESSAGES)


def test_every_figure_is_measured_and_reported(monkeypatch, capsys):
    measure = kit.measure
    monkeypatch.setattr(kit, "ROUNDS", 1)
    monkeypatch.setattr(kit, "measure", lambda: measure(MESSAGES, MESSAGES))
    kit.report(style.console(), as_json=True)

    document = json.loads(capsys.readouterr().out)
    assert {f["unit"] for f in document["figures"]} == {
        "messages/s",
        "records/s",
        "outputs/s",
        "events/s",
        "MiB",
    }
    assert all(figure["value"] > 0 for figure in document["figures"])
    assert {"cpu", "cpus", "python"} <= document["machine"].keys()


def test_a_missed_target_shows():
    assert not kit.Figure("x", 1, "y", 2).met
    assert kit.Figure("x", 1, "y", 2, at_most=True).met
    assert not kit.Figure("x", 3, "y", 2, at_most=True).met
