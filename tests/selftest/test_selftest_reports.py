"""What follows from trials: problems, exit status, the matrix on a terminal and in Markdown."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.console import Console

from tests.selftest.made_selftests import cell, mutant, selftest, sound, trial, wrong
from tickproof.conformance.report.markdown import escaped
from tickproof.conformance.selftest import markdown, matrix, model, page, terminal
from tickproof.conformance.selftest.model import Kill, SelfTest
from tickproof.conformance.verdicts import (
    EXIT_FAIL,
    EXIT_KIT_ERROR,
    EXIT_NOT_JUDGED,
    EXIT_OK,
    EXIT_UNKNOWN,
    Verdict,
)

NASTY = "a|b <script>alert(1)</script> *bold* `code` [x](javascript:y) \x1b[31m\n# head"


@pytest.mark.parametrize(
    ("broken", "wrong", "unknown", "expected"),
    [(True, True, True, EXIT_KIT_ERROR), (False, True, True, EXIT_FAIL),
     (False, False, True, EXIT_UNKNOWN), (False, False, False, EXIT_OK)],
)  # fmt: skip
def test_the_worst_problem_is_the_exit_status(broken, wrong, unknown, expected) -> None:
    trials = [trial("s", cell(Verdict.PASS))]
    assert model.conclusion_of(broken, wrong, unknown, trials).status == expected


@pytest.mark.parametrize(
    "trials", [[], [trial("s")], [trial("s", cell(Verdict.NOT_CLAIMED))]], ids=len
)
def test_a_selftest_that_judged_nothing_is_not_green(trials) -> None:
    assert model.conclusion_of(False, False, False, trials).status == EXIT_NOT_JUDGED
    assert model.conclusion_of(False, True, False, trials).status == EXIT_FAIL


@pytest.mark.parametrize(
    ("change", "said"),
    [({"killed": 1}, "mutants, killed"), ({"survivors": []}, "survivors"),
     ({"exit_status": 0}, "exit_status")],
)  # fmt: skip
def test_a_report_that_does_not_follow_is_refused(change: dict, said: str) -> None:
    made = selftest([mutant("m", killed=False)], [trial("m", cell(Verdict.PASS))])
    with pytest.raises(ValidationError, match=said):
        SelfTest.model_validate(made.model_dump() | change)


@pytest.mark.parametrize(
    ("verdict", "requirement", "accused", "unknown"),
    [(Verdict.PASS, "SL-DOUBLE", 0, 0), (Verdict.FAIL, "SL-DOUBLE", 1, 0),
     (Verdict.GAP_FIXED, "SL-DOUBLE", 1, 0), (Verdict.KNOWN_GAP, "SL-DOUBLE", 1, 0),
     (Verdict.UNKNOWN, "SL-DOUBLE", 0, 1), (Verdict.NOT_CLAIMED, "SL-DOUBLE", 1, 0),
     (Verdict.NOT_CLAIMED, "EO-PAUSE", 0, 0), (Verdict.KIT_ERROR, "SL-DOUBLE", 0, 0)],
)  # fmt: skip
def test_what_is_held_against_a_sound_engine(verdict, requirement, accused, unknown) -> None:
    found = model.accusations(sound("s"), trial("s", cell(verdict, requirement)))
    assert (len(found[0]), len(found[1])) == (accused, unknown)


def test_what_a_variant_leaves_undecided_stays_unknown_alone() -> None:
    subject = sound("s").model_copy(update={"undecided": ["BP-*"]})
    for verdict in Verdict:
        of_it = trial("s", cell(verdict, "BP-SLOW-LINKS"))
        accused, unknown = model.accusations(subject, of_it)
        assert not unknown
        assert accused == model.accusations(sound("s"), of_it)[0]
    assert model.accusations(subject, trial("s", cell(Verdict.UNKNOWN, "DL-REFUSED")))[1]


def test_a_row_tells_who_named_it_and_who_did_not() -> None:
    subjects = [mutant("named", killed=True), mutant("blind", killed=False), sound("s")]
    other = Kill(requirement="ST-WRAPS", killed=True, verdict=Verdict.FAIL, reason="r", said="")
    subjects.append(mutant("other", killed=True).model_copy(update={"kills": [other]}))
    cells = {"named": Verdict.FAIL, "blind": Verdict.PASS, "other": Verdict.FAIL, "s": Verdict.PASS}
    trials = [trial(id_, cell(verdict)) for id_, verdict in cells.items()]
    trials.append(trial("named", cell(Verdict.UNKNOWN, "ST-WRAPS")))
    first, second = matrix.rows(selftest(subjects, trials))
    assert (first.requirement, first.named, first.others) == ("SL-DOUBLE", ["named"], ["other"])
    assert (first.passed, first.unknown, first.sound) == (["blind"], [], 1)
    assert (second.requirement, second.unknown) == ("ST-WRAPS", ["named"])


def test_every_problem_is_said() -> None:
    made = wrong()
    cases = {what: lines for what, lines in matrix.problems(made)}
    assert cases == {
        "the kit itself broke": ["b"],
        "a sound engine was failed, or claims too little": ["a"],
        "a mutant survived": ["m: SL-DOUBLE says pass : nothing was wrong"],
        "a requirement has no mutant": ["SL-DOUBLE"],
        "unknown on a sound engine": ["u"],
    }
    for text in (markdown.render(made), printed(made), page.html(made)):
        for what, (line,) in cases.items():
            assert what.lower() in text.lower()
            assert line.split(":")[0] in text


def printed(made: SelfTest, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    terminal.summary(console, made, Path("out"))
    return console.file.getvalue()


def test_markdown_and_html_escape_what_an_engine_says() -> None:
    made = selftest(
        [mutant("m", killed=True, said=NASTY), sound("s", what=NASTY)],
        [trial("m", cell(Verdict.FAIL, said=NASTY, reason="lost"))],
        accused=[NASTY],
    )
    text = markdown.render(made)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "<script>" not in page.html(made)
    assert "\x1b" not in page.html(made)
    assert "[x\\]" in text.replace("\\[", "[")
    assert "[x]" not in text
    assert "\n# head" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            columns = line.replace("\\|", "").count("|")
            assert columns in (6, 7, 8), line
    assert "\x1b" not in printed(made)


def test_an_escaped_text_shows_every_character() -> None:
    assert escaped("a|b*c", 20) == r"a\|b\*c"
    assert escaped("&amp;", 20) == "&amp;amp;"
    assert len(escaped("x" * 50, 10)) == 10


def test_the_matrix_fits_a_narrow_terminal() -> None:
    made = selftest(
        [mutant("m", killed=True, said="x")],
        [trial("m", cell(Verdict.FAIL, reason="lost", said="x"))],
    )
    text = printed(made, width=60)
    assert all(len(line) <= 60 for line in text.splitlines() if "selftest.json" not in line)
    assert "1 of 1 mutants killed, score 100 %" in text


def test_a_report_is_read_back_as_it_was(tmp_path: Path) -> None:
    made = selftest([mutant("m", killed=True)], [trial("m", cell(Verdict.FAIL))])
    path = made.write(tmp_path)
    assert SelfTest.model_validate_json(path.read_text("utf-8")) == made
    assert "1 of 1 mutants killed" in markdown.write(made, tmp_path).read_text("utf-8")
