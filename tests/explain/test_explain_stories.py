"""Stories in reports, as text and JSON, from the command line; and never in the way."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.suites import tampering
from tickproof.conformance.cli import main
from tickproof.conformance.explain import stories, text, with_stories
from tickproof.conformance.history.folder import History
from tickproof.conformance.report import document, json_report, junit
from tickproof.conformance.session import judging
from tickproof.conformance.session.pack import writer
from tickproof.conformance.verdicts import Outcome, Verdict


@pytest.fixture
def failed(copy_of) -> Path:
    """A run of the sound engine whose last output was made wrong."""
    folder = copy_of("count-engine-death")
    tampering.alter()(folder)
    tampering.sealed(folder)
    return folder


def outcomes(folder: Path) -> list[Outcome]:
    return judging.recheck(folder)


def test_what_failed_has_a_story_and_what_passed_has_none(failed):
    found = {o.requirement: o for o in with_stories(outcomes(failed))}

    wrong = found["EO-ENGINE-DEATH"]
    assert wrong.verdict is Verdict.FAIL
    assert set(wrong.story) == {"headline", "why", "lines", "brief", "picture"}
    assert wrong.story["headline"][0] not in wrong.story["brief"]
    assert 1 < len(wrong.story["brief"]) <= 5
    assert max(map(len, wrong.story["picture"])) <= 76
    held = [o for o in found.values() if o.verdict is Verdict.PASS]
    assert held
    assert all(o.story == {} for o in held)


def test_an_unknown_has_one_sentence_and_no_picture(copy_of):
    folder = copy_of("count-engine-death")
    tampering.nothing_in_flight(folder)
    tampering.sealed(folder)
    unknown = [o for o in with_stories(outcomes(folder)) if o.verdict is Verdict.UNKNOWN]
    assert unknown
    for outcome in unknown:
        assert len(outcome.story["lines"]) == 1
        assert outcome.story["picture"] == []


def test_the_folder_is_left_as_it_was(failed):
    shutil.rmtree(failed / "input")
    before = sorted(path.name for path in failed.iterdir())
    assert any(outcome.story for outcome in with_stories(outcomes(failed)))
    assert sorted(path.name for path in failed.iterdir()) == before


def test_a_story_that_cannot_be_made_costs_no_verdict(failed, monkeypatch):
    def broken(*_):
        raise KeyError("something")

    before = outcomes(failed)
    monkeypatch.setattr(stories, "story", broken)
    after = with_stories(before)
    assert [o.verdict for o in after] == [o.verdict for o in before]
    story = next(o.story for o in after if o.requirement == "EO-ENGINE-DEATH")
    assert story["lines"] == ["No story: the kit could not make one (KeyError: 'something')"]


def test_a_run_that_is_gone_costs_no_verdict(tmp_path):
    outcome = Outcome("EO-TAIL", Verdict.FAIL, reason="lost", run=str(tmp_path / "gone"))
    (after,) = with_stories([outcome])
    assert replace(after, story={}) == outcome
    assert after.story["lines"][0].startswith("No story: ")


def test_text_has_one_picture_and_each_story(failed):
    history = History(failed)
    found = outcomes(failed)
    lines = text(history, found, width=100).splitlines()

    assert sum(line.startswith("events ") for line in lines) == 1
    for outcome in found:
        said = f"{outcome.requirement}: {outcome.verdict.value}" in lines
        assert said == (outcome.verdict in (Verdict.FAIL, Verdict.UNKNOWN))
    assert max(map(len, lines)) <= 100


def test_text_of_a_run_that_held_says_so(recorded):
    folder = recorded.run("passthrough")
    found = outcomes(folder)
    said = " ".join(text(History(folder), found).split())
    assert "Nothing to explain" in said
    for outcome in found:
        assert outcome.requirement in said


def test_reports_hold_the_story(failed, tmp_path):
    found = with_stories(outcomes(failed))
    results = [json_report.result(outcome, None) for outcome in found]
    wrong = next(r for r in results if r.id == "EO-ENGINE-DEATH")
    assert wrong.story.lines == next(o.story["lines"] for o in found if o.requirement == wrong.id)
    (case,) = [
        case
        for case in ElementTree.fromstring(junit.xml(_report(results))).iter("testcase")
        if case.get("name") == "EO-ENGINE-DEATH"
    ]
    whole = ElementTree.tostring(case, encoding="unicode")
    for line in (*wrong.story.lines, *wrong.story.picture):
        assert line in whole.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")


def _report(results):
    from datetime import UTC, datetime

    from tickproof.conformance.verdicts import status_of, worst

    verdicts = [result.verdict for result in results]
    at = datetime(2024, 8, 8, tzinfo=UTC)
    return json_report.Report(
        format=1,
        kit=document.Kit(version="1", git=None),
        engine=document.Engine(name="toy", version="1", language="none", toml="engine.toml"),
        host=document.Host(platform="", cpu="", cpus=1, memory_bytes=0, python=""),
        profile="quick",
        seed=1,
        selection=json_report.Selection(tiers=[], only=[]),
        started=at,
        ended=at,
        verdict=worst(verdicts),
        exit_status=status_of(verdicts),
        counts={verdict: verdicts.count(verdict) for verdict in set(verdicts)},
        requirements=results,
    )


# -- the command line ------------------------------------------------------------------------


@pytest.fixture
def tickproof(capsys):
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


def test_explain_tells_of_one_requirement(tickproof, failed):
    status, out, _ = tickproof("explain", failed, "--requirement", "eo-engine-death")
    assert status == 0
    assert "EO-ENGINE-DEATH: fail" in out
    assert "EO-ONE-CUT" not in out
    assert "first wrong output" in out


def test_explain_as_json(tickproof, failed):
    status, out, _ = tickproof("explain", failed, "--json")
    found = json.loads(out)
    assert status == 0
    assert found["scenario"] == "count-engine-death"
    keys = {"requirement", "verdict", "headline", "lines", "brief", "wrong_ns"}
    assert keys == found["stories"][0].keys()
    assert any(line.startswith("fetched") for line in found["picture"])


def test_explain_takes_a_pack(tickproof, failed, tmp_path):
    packed = tmp_path / "run.tickproof.zip"
    writer.pack(failed, packed)
    status, out, _ = tickproof("explain", packed)
    assert status == 0
    assert "EO-ENGINE-DEATH: fail" in out


def test_explain_refuses_what_it_does_not_know(tickproof, failed, tmp_path):
    status, _, err = tickproof("explain", failed, "--requirement", "EO-NOTHING")
    assert status == 2
    assert "expected one of" in err
    assert "EO-NOTHING" in err
    status, _, err = tickproof("explain", tmp_path)
    assert status == 2
    assert "holds no run.json" in err


def test_check_shows_the_story_and_the_picture_once(tickproof, failed):
    status, out, _ = tickproof("check", failed)
    assert status == 1
    assert sum(line.strip().startswith("events ") for line in out.splitlines()) == 1
    assert "story" in out
