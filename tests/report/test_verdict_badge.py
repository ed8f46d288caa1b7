"""The badge says how a session came out."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tickproof.conformance.report import verdict_badge
from tickproof.conformance.verdicts import Verdict


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN])
def test_it_says_the_verdict_and_how_much_was_judged(make_report, outcome, tmp_path, verdict):
    report = make_report(outcome(verdict))
    path = verdict_badge.write(report, tmp_path)
    root = ElementTree.fromstring(path.read_text("utf-8"))
    judged = 0 if verdict is Verdict.UNKNOWN else 1
    assert root.get("aria-label") == f"tickproof: {verdict.value}, {judged} judged"
    widths = [int(one.get("width")) for one in root if one.tag.endswith("rect")]
    assert sum(widths) == int(root.get("width"))


def test_colours_tell_the_verdicts_apart(make_report, outcome):
    different = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN, Verdict.KIT_ERROR
    colours = set()
    for verdict in different:
        root = ElementTree.fromstring(verdict_badge.svg(make_report(outcome(verdict))))
        _, right = (one for one in root if one.tag.endswith("rect"))
        colours.add(right.get("fill"))
    assert len(colours) == len(different)
