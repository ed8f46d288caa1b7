"""How often failures come again, and the command that shows one by the name that was typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.engines import spec
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import confirmation
from tickproof.conformance.session.replay import Replayed
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.scenario_player import ScenarioPlayer
from tickproof.conformance.verdicts import Outcome, Verdict

MINIATURE = fixtures() / "engines" / "miniature" / "engine.toml"


def test_each_failure_says_how_many_replays_of_its_run_failed_it(monkeypatch, tmp_path):
    played = []

    def replay(run, _spec, runs, *, times, reproduce, on_run):
        played.append((run.name, runs))
        if run.name == "gone":
            raise HistoryError("no input")
        now = []
        for number in range(1, times + 1):
            tail = Verdict.FAIL if number % 2 else Verdict.PASS
            story = {"headline": [f"run {number}"]}
            lost = Outcome("DL-NO-LOSS", Verdict.FAIL, reason="lost")
            now.append([Outcome("EO-TAIL", tail, reason=f"r{number}", story=story), lost])
            on_run(number, now[-1])
        return Replayed([], now)

    rows = [{"changed": "without kill 1", "verdicts": {"pass": 1}, "reasons": {}}]
    monkeypatch.setattr(confirmation, "replay", replay)
    monkeypatch.setattr(confirmation, "tried", lambda *_: rows)
    outcomes = [
        Outcome("EO-TAIL", Verdict.FAIL, run="s/a", evidence={"records": 1}),
        Outcome("DL-NO-LOSS", Verdict.FAIL, run="s/a"),
        Outcome("EO-PAUSE", Verdict.FAIL, run="s/gone"),
        Outcome("PR-HELLO", Verdict.PASS, run="s/b"),
    ]
    said: list[str] = []

    found = confirmation.confirmed(outcomes, spec.load(MINIATURE), tmp_path, 3, said.append)

    assert played == [("a", tmp_path / "a"), ("gone", tmp_path / "gone")]
    assert [one.evidence.get("repeats") for one in found] == [
        {
            "failed": 2,
            "of": 3,
            "reasons": {"r1": 1, "r3": 1},
            "headlines": ["run 1", "run 3"],
            "variants": rows,
        },
        {"failed": 3, "of": 3, "reasons": {"lost": 3}, "headlines": ["", "", ""], "variants": rows},
        None,
        None,
    ]
    assert found[0].evidence["records"] == 1
    assert said[2:] == ["a: replayed 3 of 3 times", "gone: not replayed: no input"]


@pytest.mark.parametrize("asked", ["mutant:offset-not-state", "miniature", "my engines/mine"])
def test_the_command_names_the_engine_as_it_was_typed(asked, tmp_path):
    request = Request(out=tmp_path, engine=asked, seed=7)
    player = ScenarioPlayer(spec.load(MINIATURE), request)

    made = player.reproduce("EO-TAIL", "count-tail")

    word = f"'{asked}'" if " " in asked else asked
    assert made == f"tickproof run {word} --only EO-TAIL --seed 7 --profile quick"


def test_without_a_name_the_command_names_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(MINIATURE.parent)
    player = ScenarioPlayer(spec.load(Path("engine.toml")), Request(out=tmp_path))

    assert player.reproduce("EO-TAIL", "").startswith("tickproof run engine.toml ")
