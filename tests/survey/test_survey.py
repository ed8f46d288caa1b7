"""`tickproof survey`: what several seeds add up to, and the pages that it writes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from tests.long import LONG
from tests.modest_engine import toml
from tickproof.conformance.cli.main import cli
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.performance.bench import EngineResult
from tickproof.conformance.performance.bench_document import LatencyRound
from tickproof.conformance.performance.series import Series
from tickproof.conformance.performance.survey import collection, load, promises, site, words
from tickproof.conformance.performance.survey.result import State, Survey
from tickproof.conformance.performance.survey.source_lines import code_lines
from tickproof.conformance.report.json_report import result as report_result
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import confirmation, run_command
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

    #: Folders that some session was not to see.
    hidden = ()

    def __init__(self, answers):
        self.answers = answers

    def __call__(self, engine, request, on_event):
        type(self).hidden = {one.name for one in request.hidden}
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
    """Return a function: survey engines whose answers are given; its status and survey.

    control: the folder of the control of each. script: name of one that needs no kit, in each.
    """
    controls = {"repaired": dict.fromkeys((5, 6, 7), Verdict.PASS) | {7: Verdict.FAIL}}

    def survey(answers, promised="", control="", script=""):
        for name in (*answers, *controls):
            folder = tmp_path / name
            folder.mkdir()
            text = toml(f"{name}|*")
            if control and name in answers:
                text += f'[control]\nengine = "../{control}"\ndiffers = "it is |<b>whole"\n'
            (folder / "engine.toml").write_text(text)
            (folder / "app.py").write_text("one\n\ntwo\n")
            (folder / "README.md").symlink_to(folder / "engine.toml")
            if script:
                (folder / "reproduce").mkdir()
                (folder / "reproduce" / script).write_text("lost = 1\n")
            if promised:
                (folder / "promises.toml").write_text(promised)
        monkeypatch.setattr(run_command, "run_session", FakeSession(answers | controls))
        monkeypatch.chdir(tmp_path)
        engines = [f"{name}/engine.toml" for name in answers]
        asked = "--measure 0 --seeds 3 --seed 5 --only SL-PASSTHROUGH,EO-TAIL --out out"
        words = ["survey", *engines, *asked.split()]
        done = CliRunner().invoke(cli, words, standalone_mode=False)
        if not isinstance(done.return_value, int):
            return done, None
        return done.return_value, Survey.read(tmp_path / "out" / "survey.json")

    return survey


def test_a_failure_is_confirmed_if_it_came_with_each_seed(surveyed, tmp_path, monkeypatch):
    def once(outcomes, _spec, _runs, times, _say):
        return [replace(one, evidence={"repeats": {"failed": 1, "of": times}}) for one in outcomes]

    monkeypatch.setattr(confirmation, "confirmed", once)
    status, found = surveyed(
        {
            "always": dict.fromkeys((5, 6, 7), Verdict.FAIL),
            "once": {5: Verdict.PASS, 6: Verdict.FAIL, 7: Verdict.PASS},
            "never": dict.fromkeys((5, 6, 7), Verdict.PASS),
        }
    )
    assert status == found.exit_status == 1
    always, sometimes, never = found.engines
    assert [(f.failed_in, f.of, f.confirmed, f.seed) for f in always.failures] == [
        (3, 3, True, 5),
        (3, 3, True, 5),
    ]
    assert {(f.failed_in, f.confirmed, f.seed) for f in sometimes.failures} == {(1, False, 6)}
    assert (never.held, never.judged, never.failures) == (2, 2, [])
    assert (always.held, always.judged, always.code_lines) == (0, 2, 2)
    # A run of which no pack can be made costs no table.
    assert [f.pack for f in always.failures] == ["", ""]
    assert always.failures[0].run.startswith("seed5/always")
    said = "with 1 of 3 seeds: not confirmed; 1 of 10 replays failed again"
    assert [words.how_often(f) for f in sometimes.failures] == [said] * 2
    assert (tmp_path / "out/site/survey.json").read_text() == found.text() + "\n"


def test_a_page_says_how_replays_failed_and_what_the_failure_needs(surveyed, tmp_path, monkeypatch):
    again = {
        "failed": 3,
        "of": 10,
        "reasons": {"lost": 2, "gap|<b>": 1},
        "headlines": ["it lost|<b>", "", "a gap"],
        "variants": [
            {
                "changed": "without kill 1",
                "verdicts": {"pass": 1, "fail": 1},
                "reasons": {"lost": 1},
            },
            {"changed": "kill 1 <b>", "verdicts": {"pass": 2}, "reasons": {}},
        ],
    }
    monkeypatch.setattr(
        confirmation,
        "confirmed",
        lambda found, *_: [replace(one, evidence={"repeats": again}) for one in found],
    )
    _, found = surveyed({"mine": dict.fromkeys((5, 6, 7), Verdict.FAIL)}, script="EO-TAIL.py")
    (row,) = found.engines
    assert row.code_lines == 2  # the script is none of the engine's
    scripts = {one.id: one.script for one in row.failures}
    assert scripts["SL-PASSTHROUGH"] == "" and scripts["EO-TAIL"] in row.sources
    pages = tmp_path / "out/site"
    assert (pages / scripts["EO-TAIL"]).read_text() == "lost = 1"
    (name,) = site.page_names(found)
    page = (pages / f"{name}.html").read_text()
    assert page.count("without the kit</dt>") == 1 and f'href="{scripts["EO-TAIL"]}"' in page
    assert "2 by lost, 1 by gap|&lt;b&gt;" in page
    assert "without kill 1: 1 pass, 1 fail (by lost); kill 1 &lt;b&gt;: 2 pass" in page
    assert "<li>it lost|&lt;b&gt;</li>" in page and "<li>no story</li>" in page
    text = (pages / f"{name}-EO-TAIL.md").read_text()
    assert "\n- without kill 1: 1 pass, 1 fail (by lost)\n" in text and "<b>" not in text
    assert "EO-TAIL.py shows it without the kit." in text
    assert "without the kit" not in (pages / f"{name}-SL-PASSTHROUGH.md").read_text()


def test_what_an_engine_says_is_no_markup(surveyed, tmp_path):
    surveyed({"mine": dict.fromkeys((5, 6, 7), Verdict.FAIL)})
    pages = tmp_path / "out/site"
    for name in ("index.html", "mine--.html", "mine--.svg", "mine---EO-TAIL.md"):
        text = (pages / name).read_text()
        assert "<b>" not in text
        assert (
            "mine\\|\\*" if name.endswith(".md") else "mine|*" if name.endswith("l") else ""
        ) in text
    assert "&lt;b&gt;`x`" in (pages / "mine--.html").read_text()


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
    assert "1 seed each" in (tmp_path / "out/site/index.html").read_text()


#: What pages load that lies beside them.
STYLED = ("style.css", "search.js")
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
    pages = tmp_path / "out/site"
    assert "of the family" in (pages / "mine--.html").read_text()
    text = (pages / "mine---SL-PASSTHROUGH.md").read_text()
    assert "> of this one\n\n(its manual)\n" in text


def test_a_failure_shows_what_came_of_the_control_with_the_same_seeds(surveyed, tmp_path):
    answers = {5: Verdict.PASS, 6: Verdict.FAIL, 7: Verdict.FAIL}
    status, found = surveyed({"mine": answers}, control="repaired")
    assert status == 1
    (row,) = found.engines
    assert [one.control.model_dump() for one in row.failures] == [
        {"engine": "repaired|* 1", "differs": "it is |<b>whole", "passed": 1, "of": 2}
    ] * 2
    page = (tmp_path / "out/site/mine--.html").read_text()
    said = "With the 2 seeds that failed, it passed with 1"
    assert f"repaired|* 1, the same engine but for this: it is |&lt;b&gt;whole. {said}" in page
    tracker = (tmp_path / "out/site/mine---EO-TAIL.md").read_text()
    assert said in tracker and "<b>" not in tracker
    copies = [
        one for one in row.sources if one.endswith(("mine/app.py.txt", "repaired/app.py.txt"))
    ]
    assert len(copies) == 2 and all(one in page for one in copies)
    assert not any("README" in one for one in row.sources)  # it is a link
    assert (tmp_path / "out/site" / copies[0]).read_text() == "one\n\ntwo"
    assert not (tmp_path / "out/seed5-control").exists()
    # Their runs have the input of other sessions, as packs of failures do.
    seeds = ("seed5", "seed6", "seed7")
    assert FakeSession.hidden >= {"site", *seeds, *(f"{one}-control" for one in seeds)}


def test_a_control_that_is_not_there_is_an_error_before_anything_starts(surveyed, tmp_path):
    done, found = surveyed({"mine": {}}, control="gone")
    assert found is None
    assert str(done.exception).startswith(f"{tmp_path}/mine/engine.toml: [control] engine: ")
    assert "gone: there is no such file" in str(done.exception)
    assert not list((tmp_path / "out").glob("seed*"))


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


def test_figures_of_a_load_are_medians(tmp_path):
    (tmp_path / "engine.toml").write_text(toml("mine"))
    rows = [LatencyRound(seed=1, answers=9, p50=p50, p99=3 * p50, max=1.0) for p50 in (1, 2, 6)]
    failed = Series("passthrough", status="failed", why="a total is wrong")
    found = EngineResult(
        spec.load(tmp_path), [failed], [Series("latency", rounds=rows, figure="p50")], []
    )
    figures = load._measured(found)
    assert (figures.rate, figures.p50_s, figures.p99_s) == (None, 2.0, 6.0)
    assert figures.why == "a total is wrong"


def test_code_is_what_people_wrote(tmp_path):
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.go").write_bytes(b"a\n \n\xff\n")
    (tmp_path / "node_modules" / "x.js").write_text("x\n")
    (tmp_path / "README.md").write_text("x\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "src" / "app.go")
    assert code_lines(tmp_path) == 2


def test_engines_of_one_name_have_pages_of_their_own(surveyed):
    answers = dict.fromkeys((5, 6, 7), Verdict.PASS)
    _, found = surveyed({"a": answers, "b": answers})
    rows = [
        one.model_copy(update={"engine": one.engine.model_copy(update={"name": name})})
        for one, name in zip([*found.engines] * 2, ("../x", "..-x", "index", ""), strict=True)
    ]
    names = site.page_names(found.model_copy(update={"engines": rows}))
    assert names == ["---x", "---x-2", "index-3", "-4"]


def test_a_badge_says_how_many_promises_held(surveyed):
    _, found = surveyed(
        {
            "good": dict.fromkeys((5, 6, 7), Verdict.PASS),
            "bad": dict.fromkeys((5, 6, 7), Verdict.FAIL),
            "none": dict.fromkeys((5, 6, 7), Verdict.NOT_CLAIMED),
        }
    )
    good, bad, none = map(site.badge, found.engines)
    assert "tickproof: 2 of 2 held" in good and "#14692f" in good
    assert "tickproof: 0 of 2 held" in bad and "#b3151c" in bad
    assert "tickproof: 0 of 0 held" in none and "#7a5200" in none
    # What nobody was judged on is no row.
    assert [(row[0], row[2]) for row in site.matrix(found)] == [
        (id_, [State.HELD, State.FAILED, State.NOT_CLAIMED])
        for id_ in ("SL-PASSTHROUGH", "EO-TAIL")
    ]


def linked(page):
    """Return the files that a page links to, without addresses of elsewhere."""
    found = re.findall(r'href="(?!data:)([^"#]+)', page.read_text("utf-8"))
    return {page.parent / one for one in found}


def test_the_search_shows_what_holds_every_word_and_keeps_it_in_the_address(
    surveyed, page_of, tmp_path
):
    verdicts = {5: Verdict.PASS, 6: Verdict.FAIL, 7: Verdict.PASS}
    surveyed({"one": verdicts, "other": dict.fromkeys((5, 6, 7), Verdict.PASS)})
    with page_of(tmp_path / "out/site/index.html", STYLED) as opened:
        rows = opened.locator("tr[data-searched]")
        assert rows.count() == 6  # two engines, two failures, two requirements
        opened.locator("#search").fill("eo-tail ONE")
        assert opened.locator("tr[data-searched]:visible").count() == 1
        assert opened.locator("#found").text_content() == "1 found"
        assert opened.url.endswith("#?eo-tail%20ONE")
        opened.goto(opened.url)
        opened.reload()
        assert opened.locator("tr[data-searched]:visible").count() == 1
        opened.locator("#search").fill("")
        assert opened.locator("tr[data-searched]:visible").count() == 6


@LONG
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("page", ["index.html", "mine--.html"])
def test_the_pages_can_be_read_by_everyone(surveyed, page_of, tmp_path, page, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    surveyed({"mine": dict.fromkeys((5, 6, 7), Verdict.FAIL)}, PROMISED)
    narrow = {"width": 375, "height": 800}
    path = tmp_path / "out" / "site" / page
    beside = STYLED if page == "index.html" else STYLED[:1]
    with page_of(path, beside, color_scheme=scheme, viewport=narrow, bypass_csp=True) as opened:
        assert opened.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        # axe would read the style once more, which a page of a file may not.
        found = axe.Axe().run(opened, options={"preload": False}).response["violations"]
        assert [one["help"] for one in found if one["impact"] in ("serious", "critical")] == []
        assert opened.evaluate("document.documentElement.scrollWidth") <= 375


@LONG
def test_the_defect_of_quix_streams_is_found_and_its_repair_passes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "survey quix --only KA-OPEN-TRANSACTION --seeds 1 --confirm 0 --measure 0 --out out"
    done = CliRunner().invoke(cli, words.split(), standalone_mode=False)
    assert done.return_value == 1
    (row,) = Survey.read(tmp_path / "out" / "survey.json").engines
    (failure,) = row.failures
    assert failure.control is not None
    assert (failure.control.engine, failure.control.passed) == ("quix-repaired 3.28.1", 1)
    assert "committed behind it" in " ".join(failure.story)


@LONG
def test_real_engines_leave_a_table_and_packs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["minimal", "mutant:offset-not-state", "--seeds", "2", "--seed", "7"]
    ids = "SL-PASSTHROUGH,EO-ENGINE-DEATH"
    done = CliRunner().invoke(
        cli,
        ["survey", *words, "--only", ids, "--confirm", "2", "--out", "out"],
        standalone_mode=False,
    )
    assert done.return_value == 1
    plain, broken = json.loads((tmp_path / "out/survey.json").read_text())["engines"]
    assert (plain["deaths"], plain["recovery"]["samples"]) == (0, 0)
    assert broken["deaths"] >= 2
    assert broken["recovery"]["samples"] >= 2
    assert all(one["measured"]["rate"] > 0 for one in (plain, broken))
    assert all(0 < one["measured"]["p50_s"] <= one["measured"]["p99_s"] for one in (plain, broken))
    (failure,) = broken["failures"]
    assert failure["confirmed"] and failure["replays"] == {"failed": 2, "of": 2}
    pages = tmp_path / "out" / "site"
    links = {one for page in pages.glob("*.html") for one in linked(page)}
    assert len(links) > 6 and all(one.is_file() for one in links)
    text = (pages / "miniature-offset-not-state-EO-ENGINE-DEATH.md").read_text("utf-8")
    assert "2 of 2 replays failed again" in text and "$ tickproof replay" in text
    pack = str(pages / failure["pack"])
    checked = CliRunner().invoke(cli, ["check", pack], standalone_mode=False)
    assert checked.return_value == 1
