"""The results file: continued after an interruption, refused for another engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.selftest.mutation import equivalents, markdown
from tickproof.conformance.selftest.mutation.equivalents import Equivalent, Equivalents
from tickproof.conformance.selftest.mutation.results import Fate, Head, Result, Results
from tickproof.conformance.selftest.mutation.source import Mutation
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_KIT_ERROR, EXIT_NOT_JUDGED

HEAD = Head(engine="mine", sources="00", seed=1, only=[])


def mutation(line: int, old: str = "x = 1", new: str = "x = 2") -> Mutation:
    return Mutation("a.py", "NumberReplacer", line, line, old, new)


def result(of: Mutation, fate: Fate, scenario: str = "") -> Result:
    return Result(
        id=of.id,
        file=of.file,
        line=of.line,
        old=of.old,
        new=of.new,
        fate=fate,
        played=1,
        seconds=1.0,
        scenario=scenario,
        requirement="ST-TOTALS" if scenario else "",
    )


def test_results_are_continued_after_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mine" / "mutants.jsonl"
    first = Results(path, HEAD)
    first.note_control(12)
    first.add(result(mutation(1), Fate.KILLED, "count"))
    first.add(result(mutation(2), Fate.SURVIVED))
    path.write_text(path.read_text() + '{"id": "a.p')
    again = Results(path, HEAD)
    assert again.control_passed
    assert [one.fate for one in again] == [Fate.KILLED, Fate.SURVIVED]
    assert again.kills("a.py") == {"count": 1} and not again.kills("b.py")
    again.add(result(mutation(2), Fate.KILLED, "count"))
    assert [one.fate for one in Results(path, HEAD)] == [Fate.KILLED, Fate.KILLED]


@pytest.mark.parametrize("other", [{"seed": 2}, {"sources": "01"}, {"only": ["ST-TOTALS"]}])
def test_results_of_something_else_are_not_continued(tmp_path: Path, other: dict) -> None:
    Results(tmp_path / "mutants.jsonl", HEAD)
    with pytest.raises(InvalidFile, match="choose another --out"):
        Results(tmp_path / "mutants.jsonl", HEAD.model_copy(update=other))


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mutants.jsonl"
    Results(path, HEAD)
    path.write_text(path.read_text() + '{"id": 3}\n')
    with pytest.raises(InvalidFile, match="line 2"):
        Results(path, HEAD)


def listed(*becomes: str) -> Equivalents:
    entry = Equivalent(file="a.py", line="x = 1", becomes=list(becomes), reason="x is spare")
    return Equivalents(equivalent=[entry])


def test_the_list_of_equivalents_has_to_be_true(tmp_path: Path) -> None:
    found, known = Results(tmp_path / "mutants.jsonl", HEAD), listed("x = 2", "x = 3")
    twice = [mutation(1), mutation(7)]
    assert list(equivalents.stale(known, twice, found)) == [
        "a.py: 'x = 1' to 'x = 3': no such mutant"
    ]
    found.add(result(mutation(1), Fate.KILLED, "count"))
    found.add(result(mutation(7), Fate.SURVIVED))
    assert list(equivalents.stale(listed("x = 2"), twice, found)) == []
    found.add(result(mutation(7), Fate.KILLED, "count"))
    (said,) = equivalents.stale(listed("x = 2"), twice, found)
    assert "killed by ST-TOTALS" in said


def test_an_entry_without_an_edit_is_about_the_whole_line(tmp_path: Path) -> None:
    found = Results(tmp_path / "mutants.jsonl", HEAD)
    whole = Equivalent(file="a.py", line="x = 1", reason="no run reaches it")
    known = Equivalents(equivalent=[whole])
    of_it, other = [mutation(1), mutation(2, "x = 1", "x = 9")], mutation(3, "y = 1", "y = 0")
    assert [known.reason(one) for one in (*of_it, other)] == [whole.reason, whole.reason, None]
    assert list(equivalents.stale(known, [other], found)) == ["a.py: 'x = 1': no such mutant"]
    for one, fate in zip(of_it, (Fate.KILLED, Fate.SURVIVED), strict=True):
        found.add(result(one, fate, "count" if fate is Fate.KILLED else ""))
    assert list(equivalents.stale(known, [*of_it, other], found)) == []
    found.add(result(of_it[1], Fate.KILLED, "count"))
    (said,) = equivalents.stale(known, [*of_it, other], found)
    assert said.startswith("a.py: 'x = 1': killed by ST-TOTALS")


def test_the_score_leaves_out_what_is_equivalent(tmp_path: Path) -> None:
    found = Results(tmp_path / "mutants.jsonl", HEAD)
    mutants = [mutation(line) for line in range(3)] + [mutation(3, "y = 1", "y = 0"), mutation(4)]
    assert markdown.summary(mutants, found, Equivalents()).exit_status == EXIT_NOT_JUDGED
    for one, fate in zip(
        mutants, (Fate.KILLED, Fate.KILLED, Fate.UNKNOWN, Fate.SURVIVED), strict=False
    ):
        found.add(result(one, fate, "count" if fate is Fate.KILLED else ""))
    known = listed("x = 2")
    said = markdown.summary(mutants, found, known)
    assert (said.killed, said.judged, said.mutants, round(said.score, 1)) == (2, 4, 5, 66.7)
    assert [one.id for one in said.survivors] == [mutants[3].id]
    assert [reason for _, reason in said.explained] == ["x is spare"]
    assert said.exit_status == EXIT_FAIL
    text = markdown.write(said, tmp_path).read_text()
    assert "```diff\n-y = 1\n+y = 0\n```" in text and "x is spare" in text
    found.add(result(mutants[3], Fate.BROKEN, "count"))
    assert markdown.summary(mutants, found, known).exit_status == EXIT_KIT_ERROR
