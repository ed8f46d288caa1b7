"""The page in a real browser: it renders, folds, fits a phone, and everyone can read it."""

from __future__ import annotations

import pytest

from tests.ladder.test_ladder import page as made_ladder
from tests.long import few
from tests.selftest.made_selftests import wrong as wrong_selftest
from tickproof.conformance.engines import spec
from tickproof.conformance.explore import page as search_page
from tickproof.conformance.explore.page import Failure, SearchReport
from tickproof.conformance.faults.space.offers import offers
from tickproof.conformance.faults.space.sessions import coverage
from tickproof.conformance.report import page
from tickproof.conformance.report.document import FORMAT, this_host, this_kit
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest import page as selftest_page
from tickproof.conformance.session import recorded_report
from tickproof.conformance.session.run_command import space_part
from tickproof.conformance.verdicts import Verdict

SERIOUS = ("serious", "critical")


@pytest.fixture(scope="session")
def failing(failed_run, tmp_path_factory):
    """The page of a run that a mutant failed."""
    return written(page.html(recorded_report.of_run(failed_run), failed_run), tmp_path_factory)


@pytest.fixture(scope="session")
def selftest(tmp_path_factory):
    """The page of a selftest in which something is wrong."""
    return written(selftest_page.html(wrong_selftest()), tmp_path_factory)


@pytest.fixture(scope="session")
def search(failed_run, tmp_path_factory):
    """The page of a search that found the failed run."""
    results = recorded_report.of_run(failed_run).requirements
    (failure,) = (one for one in results if one.id == "EO-ENGINE-DEATH")
    claimed = offers(spec.load(fixtures() / "engines" / "miniature" / "engine.toml"))
    report = SearchReport(
        format=FORMAT,
        kit=this_kit(),
        host=this_host(),
        engine="miniature 1",
        command="tickproof explore",
        seed=1,
        verdicts={Verdict.PASS: 3, Verdict.FAIL: 1},
        faults_fired=5,
        faults_missed=1,
        fault_space=space_part(coverage(claimed, "full", ())),
        failure=Failure(
            kind="lost",
            confidence="3 of 3",
            first="first",
            smallest="smallest",
            shape="shrunk",
            shrink_seconds=1,
            others={"lost": 2},
            saved="saved",
            result=failure,
        ),
    )
    return written(search_page.html(report, failed_run), tmp_path_factory)


@pytest.fixture(scope="session")
def ladder(tmp_path_factory):
    """The page of a ladder of costs."""
    return written(made_ladder(), tmp_path_factory)


def written(html, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html, "utf-8")
    return path


@pytest.mark.parametrize("name", ["failing", *few(["selftest", "search", "ladder"], 0)])
@pytest.mark.parametrize("scheme", few(["dark", "light"]))
@pytest.mark.parametrize("width", [1200, 375])
def test_it_can_be_read_by_everyone(page_of, request, name, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    size = {"width": width, "height": 800}
    with page_of(
        request.getfixturevalue(name), color_scheme=scheme, viewport=size, bypass_csp=True
    ) as opened:
        opened.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        found = axe.Axe().run(opened).response["violations"]
        assert [(one["id"], one["help"]) for one in found if one["impact"] in SERIOUS] == []
        assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_the_check_for_everyone_can_fail(page_of, failing):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    with page_of(failing, bypass_csp=True) as opened:
        opened.evaluate(
            "document.body.append(Object.assign(document.createElement('img'), {id: 'x'}))"
        )
        found = axe.Axe().run(opened).response["violations"]
        assert "image-alt" in [one["id"] for one in found if one["impact"] in SERIOUS]


def test_a_failure_is_open_with_its_story_and_its_curves(page_of, failing):
    with page_of(failing) as opened:
        entry = opened.locator("#EO-ENGINE-DEATH")
        assert entry.locator(".headline").is_visible()
        assert entry.locator(".story li").first.is_visible()
        assert entry.locator("svg.timeline").first.bounding_box()["height"] > 100
        assert "kill of engine" in entry.locator("svg.timeline").first.text_content()


def test_an_entry_folds_and_opens_with_the_keyboard(page_of, failing):
    with page_of(failing) as opened:
        entry = opened.locator("details.entry.pass").first
        assert not entry.locator(".body").is_visible()
        entry.locator("summary").first.focus()
        opened.keyboard.press("Enter")
        assert entry.locator(".body").is_visible()


def test_it_is_printed_in_the_colours_of_paper(page_of, failing):
    with page_of(failing) as opened:
        opened.emulate_media(media="print")
        colour = opened.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"


def test_what_is_folded_is_open_on_paper_and_no_line_is_cut_off(page_of, failing):
    with page_of(failing) as opened:
        folded = opened.locator("#EO-ENGINE-DEATH details:not([open]) pre").first
        assert folded.count() and not folded.is_visible()
        opened.emulate_media(media="print")
        assert folded.is_visible()
        assert folded.evaluate("pre => pre.scrollWidth <= pre.clientWidth")
        assert not opened.locator("details.entry.pass .body").first.is_visible()
