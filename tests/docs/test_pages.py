"""The pages made from the code say what it says, and all of it."""

import re

import pytest

from docs.tools import pages as docs
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.requirement import Needs, Requirement

PROTOCOL = (docs.DOCS / "protocol.md").read_text("utf-8")
CLAUSES = docs.clauses(PROTOCOL)
AREAS = {
    "eut", "toml", "ctl", "proc", "log", "conn", "out", "app", "ms", "fair", "lat", "host", "kafka",
}  # fmt: skip


def requirement(identity="PR-ONE", clauses=("ctl-one",), **needs):
    return Requirement(
        id=identity,
        title="one | two",
        promise="It holds.",
        level="must",
        tier=0,
        clauses=clauses,
        needs=Needs(**needs),
    )


def test_clause_ids_have_a_known_area():
    assert {clause.partition("-")[0] for clause in CLAUSES} == AREAS
    assert len(CLAUSES) > 150


def test_no_rule_of_the_protocol_stands_outside_a_clause():
    prose = [line for line in PROTOCOL.splitlines() if line and not line.startswith("- [")]
    loose = [line for line in prose if " must " in line and not line.startswith("Words:")]
    allowed = "The answer must then be right for some order"
    assert [line for line in loose if allowed not in line] == []


def test_every_clause_is_checked_or_excused_and_never_both():
    named = {clause for one in registry.load().values() for clause in one.clauses}
    excused = registry.UNCHECKED.keys()
    assert named | excused == CLAUSES.keys()
    assert not named & excused


def test_every_requirement_has_its_section():
    page = docs.pages()["requirements.md"]
    headings = [line[4:] for line in page.splitlines() if line.startswith("### ")]
    assert sorted(headings) == sorted(registry.load())


def test_a_clause_id_used_twice_is_named_with_its_line():
    with pytest.raises(ValueError, match=r"protocol\.md:3: clause id ctl-one is used twice"):
        docs.clauses("- [ctl-one] a\n- [ctl-two] b\n- [ctl-one] c\n")


def test_a_clause_is_a_list_item_with_an_id_and_a_text():
    text = "- [ctl-one] First.\n[ctl-two] no item\n- [Link](x.md)\n- [one] no area\n"
    assert docs.clauses(text) == {"ctl-one": "First."}


@pytest.mark.parametrize(
    ("clauses", "unchecked", "message"),
    [
        ({"ctl-one": "x", "ctl-two": "y"}, {}, "ctl-two is neither checked nor excused"),
        ({"ctl-one": "x"}, {"ctl-one": "why"}, "ctl-one is both checked and excused"),
        ({"ctl-one": "x"}, {"ctl-gone": "why"}, "'ctl-gone'.*not in protocol.md"),
        ({}, {}, "PR-ONE: clause ctl-one is not in protocol.md"),
    ],
)
def test_a_hole_in_the_coverage_is_an_error(clauses, unchecked, message):
    with pytest.raises(ValueError, match=message):
        docs.coverage_page(clauses, {"PR-ONE": requirement()}, unchecked)


def test_coverage_rows_name_requirements_or_the_reason():
    page = docs.coverage_page(
        {"ctl-one": "a | b", "ctl-two": "c"}, {"PR-ONE": requirement()}, {"ctl-two": "advice"}
    )
    assert page.splitlines()[-2:] == [
        "| [`ctl-one`](protocol.md#ctl-one) | [PR-ONE](requirements.md#pr-one) |",
        "| [`ctl-two`](protocol.md#ctl-two) | none: advice |",
    ]


def test_claims_in_words():
    assert str(Needs()) == "every engine"
    needs = Needs(app=("count",), survives=("worker", "engine"), emit=("every", "some"))
    assert str(needs) == "app count; survives worker and engine; emit every or some"


def test_every_kind_of_event_has_its_row():
    page = docs.completed((docs.DOCS / "run-folder.md").read_text("utf-8"))
    table = page[page.index("\n## Events\n") :]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == sorted(EventKind)


def test_each_clause_has_an_anchor():
    found = re.findall(r'^- <a id="([^"]+)"></a>\[\1\] ', docs.completed(PROTOCOL), re.MULTILINE)
    assert found == list(CLAUSES)


def test_a_table_that_is_not_known_is_an_error():
    with pytest.raises(ValueError, match="expected one of events, reasons; got 'nothing'"):
        docs.completed("# Page\n<!-- made: nothing -->\n")
