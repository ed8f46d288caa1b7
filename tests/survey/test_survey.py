"""`tickproof survey`: what several seeds add up to, and the pages that it writes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.long import LONG
from tests.modest_engine import toml
from tickproof.conformance.cli.main import cli
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.performance.survey import collection, markdown, promises
from tickproof.conformance.performance.survey.result import State, Survey
from tickproof.conformance.performance.survey.source_lines import code_lines
from tickproof.conformance.report.json_report import result as report_result
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import run_command
from tickproof.conformance.verdicts import Outcome, Verdict

APPLIES_NOT = "does not apply: about the transport log; it speaks kafka"


def results(*found):
    """Return one result for each (verdict, actual)."""
    return [
        report_result(Outcome("SL-PASSTHROUGH", verdict, actual=actual), None)
        for verdict, actual in found
    ]


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ([(Verdict.PASS, ""), (Verdict.PASS, "")], State.HELD),
        ([(Verdict.PASS, ""), (Verdict.FAIL, "")], State.FAILED),
        ([(Verdict.FAIL, ""), (Verdict.UNKNOWN, "")], State.FAILED),
        ([(Verdict.PASS, ""), (Verdict.UNKNOWN, "")], State.UNDECIDED),
        ([(Verdict.PASS, ""), (Verdict.BLOCKED, "")], State.UNDECIDED),
        ([(Verdict.KIT_ERROR, ""), (Verdict.PASS, "")], State.UNDECIDED),
        ([(Verdict.PASS, "")], State.UNDECIDED),  # one of the sessions left no report
        ([(Verdict.KNOWN_GAP, ""), (Verdict.PASS, "")], State.KNOWN_GAP),
        ([(Verdict.NOT_CLAIMED, "claims state = none")] * 2, State.NOT_CLAIMED),
        ([(Verdict.NOT_CLAIMED, APPLIES_NOT)] * 2, State.NOT_APPLICABLE),
        ([(Verdict.NOT_CLAIMED, APPLIES_NOT), (Verdict.NOT_CLAIMED, "x")], State.NOT_CLAIMED),
    ],
)
def test_a_doubt_with_one_seed_is_a_doubt(found, state):
    assert collection.state_of(results(*found), seeds=2) is state


class FakeSession:
    """Stands for run_session: what an engine answers with each seed."""

    def __init__(self, answers):
        self.answers = answers

    def __call__(self, engine, request, on_event):
        verdict = self.answers[engine.parent.name][request.seed]
        if isinstance(verdict, BaseException):
            raise verdict
        return [
            Outcome(
                id_,
                verdict,
                reason="lost" if verdict is Verdict.FAIL else "",
                reproduce=f"tickproof run x --seed {request.seed}",
                actual="|<b>`x`",
                run=str(request.out / "runs" / "session" / "gone"),
            )
            for id_ in request.only
        ]


@pytest.fixture
def surveyed(tmp_path, monkeypatch):
    """Return a function: survey engines whose answers are given; its status and survey."""

    def survey(answers, promised=""):
        for name in answers:
            folder = tmp_path / name
            folder.mkdir()
            (folder / "engine.toml").write_text(toml(f"{name}|*"))
            (folder / "app.py").write_text("one\n\ntwo\n")
            if promised:
                (folder / "promises.toml").write_text(promised)
        monkeypatch.setattr(run_command, "run_session", FakeSession(answers))
        monkeypatch.chdir(tmp_path)
        engines = [f"{name}/engine.toml" for name in answers]
        words = [*engines, "--seeds", "3", "--seed", "5", "--only", "SL-PASSTHROUGH,EO-TAIL"]
        done = CliRunner().invoke(cli, ["survey", *words, "--out", "out"], standalone_mode=False)
        if not isinstance(done.return_value, int):
            return done, None
        return done.return_value, Survey.read(tmp_path / "out" / "survey.json")

    return survey


def test_a_failure_is_confirmed_if_it_came_with_each_seed(surveyed, tmp_path):
    status, found = surveyed(
        {
            "always": dict.fromkeys((5, 6, 7), Verdict.FAIL),
            "once": {5: Verdict.PASS, 6: Verdict.FAIL, 7: Verdict.PASS},
            "never": dict.fromkeys((5, 6, 7), Verdict.PASS),
        }
    )
    assert status == found.exit_status == 1
    always, once, never = found.engines
    assert [(f.failed_in, f.of, f.confirmed, f.seed) for f in always.failures] == [
        (3, 3, True, 5),
        (3, 3, True, 5),
    ]
    assert {(f.failed_in, f.confirmed, f.seed) for f in once.failures} == {(1, False, 6)}
    assert (never.held, never.judged, never.failures) == (2, 2, [])
    assert (always.held, always.judged, always.code_lines) == (0, 2, 2)
    # A run of which no pack can be made costs no table.
    assert [f.pack for f in always.failures] == ["", ""]
    assert always.failures[0].run.startswith("seed5/always")
    page = (tmp_path / "out/survey.md").read_text()
    assert "with 1 of 3 seeds: not confirmed" in page
    assert page == markdown.page(found)


def test_what_an_engine_says_is_no_markup(surveyed, tmp_path):
    surveyed({"mine": dict.fromkeys((5, 6, 7), Verdict.FAIL)})
    page = (tmp_path / "out/survey.md").read_text()
    assert "<b>" not in page
    assert "mine\\|\\*" in page
    rows = [line for line in page.splitlines() if line.startswith("| mine")]
    assert rows


def test_what_the_kit_broke_is_undecided_and_ends_in_its_status(surveyed):
    status, found = surveyed({"mine": {5: Verdict.PASS, 6: RuntimeError("no"), 7: Verdict.PASS}})
    assert status == 4
    (row,) = found.engines
    assert [one.state for one in row.requirements] == [State.UNDECIDED] * 2
    assert [one.verdict for one in row.sessions] == [Verdict.PASS, None, Verdict.PASS]


def test_a_survey_that_is_ended_keeps_the_seeds_before(surveyed, tmp_path):
    done, _ = surveyed({"mine": {5: Verdict.PASS, 6: KeyboardInterrupt()}})
    assert done.exception is not None
    left = Survey.read(tmp_path / "out" / "survey.json")
    assert left.seeds == [5]
    assert [one.state for one in left.engines[0].requirements] == [State.HELD] * 2
    assert (tmp_path / "out/survey.md").read_text() == markdown.page(left)


PROMISED = """
[[promise]]
requirements = ["EO"]
says = "of the family"
source = "https://example.org/a#b"

[[promise]]
requirements = ["SL-PASSTHROUGH"]
says = "of this one"
source = "its manual"
"""


def test_a_failure_quotes_the_sentence_that_it_breaks(surveyed, tmp_path):
    _, found = surveyed({"mine": dict.fromkeys((5, 6, 7), Verdict.FAIL)}, PROMISED)
    said = {one.id: one.breaks.says for one in found.engines[0].failures}
    assert said == {"SL-PASSTHROUGH": "of this one", "EO-TAIL": "of the family"}
    page = (tmp_path / "out/survey.md").read_text()
    assert "> of the family ([source](https://example.org/a#b))" in page
    assert "> of this one (its manual)" in page


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[promise]]\nrequirements = ["XX"]\nsays = "x"\nsource = "x"\n', "got XX"),
        ('[[promise]]\nrequirements = []\nsays = "x"\nsource = "x"\n', "list that is not empty"),
        ('[[promise]]\nrequirements = ["EO"]\nsays = "x"\n', "source: missing"),
    ],
)
def test_a_wrong_file_of_promises_is_an_error_before_anything_starts(surveyed, text, said):
    done, found = surveyed({"mine": {}}, text)
    assert found is None
    assert said in str(done.exception)
    assert "promises.toml" in str(done.exception)


def test_promises_of_the_kits_engines_load():
    paths = [engine.path for engine in spec.available(fixtures())]
    some = [promises.beside(path).promise for path in paths]
    assert any(some)
    with pytest.raises(InvalidFile):
        promises.load(paths[0], promises.Promises)


def test_code_is_what_people_wrote(tmp_path):
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.go").write_bytes(b"a\n \n\xff\n")
    (tmp_path / "node_modules" / "x.js").write_text("x\n")
    (tmp_path / "README.md").write_text("x\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "src" / "app.go")
    assert code_lines(tmp_path) == 2


@LONG
def test_real_engines_leave_a_table_and_packs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["minimal", "mutant:offset-not-state", "--seeds", "2", "--seed", "7"]
    ids = "SL-PASSTHROUGH,EO-ENGINE-DEATH"
    done = CliRunner().invoke(
        cli, ["survey", *words, "--only", ids, "--out", "out"], standalone_mode=False
    )
    assert done.return_value == 1
    plain, broken = json.loads((tmp_path / "out/survey.json").read_text())["engines"]
    assert (plain["deaths"], plain["recovery"]["samples"]) == (0, 0)
    assert broken["deaths"] >= 2
    assert broken["recovery"]["samples"] >= 2
    (failure,) = broken["failures"]
    assert failure["confirmed"]
    pack = str(tmp_path / "out" / failure["pack"])
    checked = CliRunner().invoke(cli, ["check", pack], standalone_mode=False)
    assert checked.return_value == 1
