"""The page in a real browser: it renders, folds, fits a phone, and everyone can read it."""

from __future__ import annotations

import pytest

from tickproof.conformance.html_report import page
from tickproof.conformance.session import recorded_report

SERIOUS = ("serious", "critical")


@pytest.fixture(scope="session")
def failing(mutant_run, tmp_path_factory):
    """The page of a run that a mutant failed."""
    folder = mutant_run("offset-not-state", "count-engine-death", "EO-ENGINE-DEATH")
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page.html(recorded_report.of_run(folder), folder), "utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 375])
def test_it_can_be_read_by_everyone(page_of, failing, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    size = {"width": width, "height": 800}
    with page_of(failing, color_scheme=scheme, viewport=size, bypass_csp=True) as opened:
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
