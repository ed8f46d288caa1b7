from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.report import json_report, junit
from tickproof.conformance.report.json_report import Interrupted
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

EXPECTED = {
    Verdict.PASS: None,
    Verdict.FAIL: ("failure", "fail"),
    Verdict.UNKNOWN: ("failure", "unknown"),
    Verdict.BLOCKED: ("skipped", "blocked"),
    Verdict.NOT_CLAIMED: ("skipped", "not-claimed"),
    Verdict.KNOWN_GAP: ("skipped", "known-gap"),
    Verdict.GAP_FIXED: ("failure", "gap-fixed"),
    Verdict.KIT_ERROR: ("error", "kit-error"),
}


def test_one_of_each_verdict(one_of_each, tmp_path, ids):
    root = ElementTree.parse(junit.write(one_of_each, tmp_path)).getroot()

    for verdict, id_ in ids.items():
        (case,) = [c for c in root.iter("testcase") if c.get("name").startswith(f"{id_} ")]
        found = [(child.tag, child.get("type")) for child in case]
        assert found == ([EXPECTED[verdict]] if EXPECTED[verdict] else [])


def test_totals_agree_with_the_cases(one_of_each):
    root = ElementTree.fromstring(junit.xml(one_of_each))

    for element in (root, root.find("testsuite")):
        totals = {name: element.get(name) for name in ("tests", "failures", "errors", "skipped")}
        assert totals == {"tests": "8", "failures": "3", "errors": "1", "skipped": "3"}


def test_a_failure_says_what_was_expected_and_how_to_reproduce_it(make_report, outcome):
    report = make_report(outcome(Verdict.FAIL, reason="wrong-total", reproduce="tickproof run x"))

    failure = ElementTree.fromstring(junit.xml(report)).find(".//failure")
    assert failure.get("message") == "wrong-total: expected a; got b"
    assert "reproduce: tickproof run x" in failure.text


def test_hostile_text_gives_well_formed_xml(make_report, tmp_path, outcome, hostile):
    report = make_report(outcome(Verdict.FAIL, actual=hostile), name=hostile)

    root = ElementTree.parse(junit.write(report, tmp_path)).getroot()
    message = root.find(".//failure").get("message")
    assert "\\u001b[31mred" in message
    assert "<&> ]]>" in message


@given(st.text(st.characters(codec=None, categories=None)))
def test_any_text_becomes_parseable(text):
    element = ElementTree.Element("x", a=junit.xml_safe(text))
    element.text = junit.xml_safe(text)

    back = ElementTree.fromstring(ElementTree.tostring(element, encoding="utf-8"))
    ends = str.maketrans("", "", "\r\n")  # a parser makes one line end of both
    assert (back.text or "").translate(ends) == element.text.translate(ends)


def test_an_early_end_is_one_error_and_what_is_left_is_skipped(make_report, outcome, ids):
    left = Outcome(ids[Verdict.UNKNOWN], Verdict.UNKNOWN, reason=Reason.INTERRUPTED)
    whole = make_report(outcome(Verdict.PASS), left)
    cut = Interrupted(by="ended by SIGTERM", exit_status=143, judged=1, of=2)
    ended = json_report.of_session(whole, "s", cut)
    suite = ElementTree.fromstring(junit.xml(ended)).find("testsuite")
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "3", "failures": "0", "errors": "1", "skipped": "1"}
    (error,) = suite.iter("error")
    assert error.get("message") == "ended by SIGTERM after 1 of 2 requirements"
