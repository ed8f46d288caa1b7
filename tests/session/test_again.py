"""A run that the machine left open is played once more, alone, and the first one is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tickproof.conformance.history import seal
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import playing, tiers
from tickproof.conformance.session.request import Request
from tickproof.conformance.verdicts import Reason, Verdict

ENGINE = fixtures() / "engines" / "minimal" / "engine.toml"


def busy(folder: Path) -> None:
    """Say of a run that the machine was too busy for its limits."""
    run = json.loads((folder / "run.json").read_text("utf-8"))
    why = "no answer to drain, but the machine withheld 55.0 of 60.0 s"
    run["ended"] = {"how": "engine-failure", "code": "MACHINE_BUSY", "message": why, "stderr": []}
    write_json(folder / "run.json", run)
    seal.renew(folder, "run.json")


@pytest.mark.parametrize("times", [1, 2])
def test_a_run_that_the_machine_left_open(tmp_path: Path, monkeypatch, times: int) -> None:
    play, played, told = playing.play, [], []

    def first_busy(scenario, spec, folder, **options):
        play(scenario, spec, folder, **options)
        played.append(folder.name)
        if len(played) <= times:
            busy(folder)

    monkeypatch.setattr(playing, "play", first_busy)
    request = Request(out=tmp_path, only=("SL-PASSTHROUGH", "PR-FRAMES"))
    outcomes = tiers.run_session(ENGINE, request, told.append)
    assert played == ["passthrough"] * 2
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
        "passthrough",
        "passthrough.left-open",
    }
    expected = (Verdict.PASS, "") if times == 1 else (Verdict.UNKNOWN, Reason.MACHINE_BUSY)
    assert {(one.verdict, one.reason) for one in outcomes} == {expected}
    decided = [event["outcome"]["requirement"] for event in told if event["event"] == "decided"]
    assert sorted(decided) == ["PR-FRAMES", "SL-PASSTHROUGH"]
