"""The page as text: what it has to hold, what it must not, and runs that are not there."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from tickproof.conformance.history import seal
from tickproof.conformance.report import json_report, page
from tickproof.conformance.verdicts import Verdict

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"


class Elements(HTMLParser):
    """All elements of a page with their attributes, and its text."""

    def __init__(self, html):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def test_every_requirement_has_one_entry(one_of_each, tmp_path, ids):
    found = Elements(page.html(one_of_each, tmp_path))
    entries = [one["id"] for kind in ("details", "p") for one in found.all(kind) if "id" in one]
    assert sorted(entries) == sorted(ids.values())
    assert len(entries) == len(set(entries))


def test_what_is_out_of_the_ordinary_comes_first_and_open(one_of_each, tmp_path, ids):
    entries = [
        one for one in Elements(page.html(one_of_each, tmp_path)).all("details") if "id" in one
    ]
    bad = [Verdict.KIT_ERROR, Verdict.FAIL, Verdict.GAP_FIXED, Verdict.UNKNOWN]
    assert [one["id"] for one in entries[:4]] == [ids[verdict] for verdict in bad]
    assert [one["id"] for one in entries if "open" in one] == [ids[verdict] for verdict in bad]


def test_a_page_without_anything_out_of_the_ordinary_has_no_part_for_it(
    make_report, outcome, tmp_path
):
    html = page.html(make_report(outcome(Verdict.PASS)), tmp_path)
    assert "Needs attention" not in html
    assert "Every promise that was judged held." in html


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([Verdict.FAIL, Verdict.PASS], "1 promise did not hold."),
        ([Verdict.FAIL, Verdict.GAP_FIXED], "1 promise did not hold and 1 known gap held"),
        ([Verdict.UNKNOWN, Verdict.PASS], "Nothing was seen to break, but 1 promise stayed open."),
        ([Verdict.KNOWN_GAP, Verdict.PASS], "held, but for gaps that its makers know."),
        ([Verdict.KIT_ERROR, Verdict.FAIL], "this says nothing of the engine."),
        ([Verdict.NOT_CLAIMED], "Nothing was judged."),
    ],
)  # fmt: skip
def test_the_verdict_stands_in_words(make_report, outcome, verdicts, said):
    assert said in page.sentence(make_report(*map(outcome, verdicts)))


def test_what_an_engine_says_is_text(make_report, outcome, hostile, tmp_path):
    texts = SCRIPT + hostile
    story = {name: [texts] for name in ("headline", "why", "lines", "brief", "picture")}
    evidence = {"stderr": [texts], texts: {"deep": [texts]}, "where": {"key": texts}}
    said = outcome(
        Verdict.FAIL,
        reason=texts,
        expected=texts,
        actual=texts,
        stimulus=texts,
        scenario=texts,
        reproduce=texts,
        run=texts,
        story=story,
        evidence=evidence,
    )
    report = make_report(said, outcome(Verdict.UNKNOWN, actual=texts), name=texts)

    html = page.html(report, tmp_path)

    found = Elements(html)
    assert not found.all("script")
    assert not found.all("img")
    assert not [name for _, attributes in found.found for name in attributes if name[:2] == "on"]
    assert SCRIPT in found.text
    assert "\\x1b[31mred" in found.text
    assert not {character for character in html if not character.isprintable()} - {"\n"}


def test_a_page_asks_for_nothing(one_of_each, tmp_path):
    found = Elements(page.html(one_of_each, tmp_path))
    links = [attributes.get(name) for _, attributes in found.found for name in ("href", "src")]
    assert {link[0] for link in links if link} <= {"#", "d"}  # within the page, and data:
    (policy,) = (one["content"] for one in found.all("meta") if "http-equiv" in one)
    assert policy.startswith("default-src 'none'")


def test_much_evidence_is_cut_and_says_so(make_report, outcome, tmp_path):
    many = {"values": list(range(5_000))}
    html = page.html(make_report(outcome(Verdict.FAIL, evidence=many)), tmp_path)
    assert len(html) < 60_000
    assert "more characters in report.json" in html


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("runs/gone", "HistoryError"),
        ("../elsewhere", "its run lies elsewhere"),
        ("/etc", "its run lies elsewhere"),
    ],
)
def test_a_run_that_cannot_be_read_costs_its_pictures_only(
    make_report, outcome, tmp_path, run, said
):
    html = page.html(make_report(outcome(Verdict.FAIL, run=run)), tmp_path)
    assert said in html
    assert "EO-WORKER-DEATH" in html


def test_a_run_is_drawn_once(make_report, outcome, recorded):
    folder = recorded.run("count-engine-death")
    run = folder.name
    both = [outcome(verdict, run=run) for verdict in (Verdict.PASS, Verdict.FAIL)]
    html = page.html(make_report(*both), folder.parent)
    assert html.count("over time") == 1
    assert html.count("Judged on the run of") == 1
    assert "kill of engine" in html


def test_the_roots_of_what_was_judged_are_shown(make_report, outcome, recorded):
    folder = recorded.run("count-engine-death")
    report = make_report(outcome(Verdict.FAIL, run=str(folder)))
    (result,) = report.requirements
    assert result.root == seal.root(folder) != report.root
    html = page.html(report, folder.parent)
    for digest in (result.root, report.root):
        assert f"<dt>root</dt><dd><code>{digest}</code></dd>" in html


def test_the_command_judges_the_same_again(make_report, outcome):
    report = make_report(outcome(Verdict.PASS))
    asked = json_report.Selection(tiers=[3], only=["EO-TAIL"], require=["PR-HELLO"], secret="ab")
    other = {"selection": asked, "profile": "full", "hosts": 3}
    assert page.command(report.model_copy(update=other)).endswith(
        "engine.toml --seed 42 --profile full --hosts 3 --tier 3 --only EO-TAIL --require PR-HELLO "
        "--secret ab"
    )


def test_a_page_says_on_how_many_hosts_and_what_more_would_show(make_report, outcome, tmp_path):
    report = make_report(outcome(Verdict.PASS))
    on_hosts = page.html(report.model_copy(update={"hosts": 3}), tmp_path)
    assert "1 of 1 judged on 3 hosts" in on_hosts
    assert "<dt>hosts</dt><dd>3</dd>" in on_hosts
    alone = page.html(report.model_copy(update={"not_asked": ["NE-MUTE"]}), tmp_path)
    assert "1 not asked: about several hosts, needs --hosts" in alone
    assert "<dt>hosts</dt>" not in alone


def test_what_is_not_claimed_is_folded_and_failures_are_listed_first(one_of_each, ids, tmp_path):
    html = page.html(one_of_each, tmp_path)
    head = html[: html.index("</header>")]
    for verdict in (Verdict.FAIL, Verdict.GAP_FIXED, Verdict.KIT_ERROR, Verdict.UNKNOWN):
        assert f'<a href="#{ids[verdict]}">' in head
    assert "<summary>What was not judged, and why</summary>" in head
    assert "1 requirement not claimed" in html
    assert html.count(f'id="{ids[Verdict.NOT_CLAIMED]}"') == 1


def test_a_failure_says_how_often_it_came_again(make_report, outcome, tmp_path):
    failed = outcome(Verdict.FAIL, evidence={"repeats": {"failed": 4, "of": 5}})
    html = page.html(make_report(failed), tmp_path)
    assert "<dt>replays</dt><dd>4 of 5 failed in the same requirement</dd>" in html
    assert "repeats" not in html


def test_the_command_names_the_engine_as_it_was_typed(make_report, outcome):
    report = make_report(outcome(Verdict.PASS))
    engine = report.engine.model_copy(update={"asked": "mutant:no-have"})
    made = page.command(report.model_copy(update={"engine": engine}))
    assert made.startswith("tickproof run mutant:no-have --seed 42")
