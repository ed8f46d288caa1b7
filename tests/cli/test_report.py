"""``tickproof report``, and the page that each session leaves."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_a_session_leaves_its_page_and_report_makes_it_again(tickproof, engine, session):
    tickproof("run", engine(), "--only", "PR-HELLO", "--seed", 7)
    written = Path("tickproof-out/toy/report.html").read_text("utf-8")
    assert "PR-HELLO" in written

    code, out, _ = tickproof("report", "tickproof-out/toy")
    assert (code, out.strip()) == (0, "tickproof-out/toy/report.html")
    assert Path("tickproof-out/toy/report.html").read_text("utf-8") == written

    code, out, _ = tickproof("report", "tickproof-out/toy/report.json", "-o", "mine.html")
    assert (code, out.strip()) == (0, "mine.html")
    assert Path("mine.html").read_text("utf-8") == written


def test_a_page_that_cannot_be_made_costs_no_verdict(tickproof, engine, session, monkeypatch):
    monkeypatch.setattr("tickproof.conformance.report.page.html", lambda *_: 1 / 0)
    code, out, _ = tickproof("run", engine(), "--only", "PR-HELLO", "--seed", 7)
    assert code == 0
    assert "no report.html: ZeroDivisionError" in out
    assert Path("tickproof-out/toy/report.json").is_file()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty", None, "report.json: expected a report.json: No such file"),
        ("broken/report.json", "{", "expected a report.json: Invalid JSON"),
        ("other/report.json", "{}", "expected a report.json: format: Field required"),
        ("run/run.json", "{}", "run.json: format None"),
        ("file.zip", "none", "file.zip"),
    ],
)
def test_report_says_what_it_expected(tickproof, name, content, said):
    path = Path(name)
    (path.parent if content else path).mkdir(exist_ok=True)
    if content:
        path.write_text(content)
    what = path if path.suffix == ".zip" else path.parent if content else path
    code, _, error = tickproof("report", what)
    assert code == 2
    assert said in error
