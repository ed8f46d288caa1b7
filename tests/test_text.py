"""Text from an engine: safe for a terminal, bounded, stack traces cut to their last frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.text import command_line, middle_cut, shortened, shown

PYTHON = """\
worker 1:
Traceback (most recent call last):
  File "a.py", line 1, in main
    run(x)
    ~~~^^^
  File "b.py", line 2, in run
    raise ValueError(x)
ValueError: 5
bye"""
JAVA = """\
java.lang.IllegalStateException: no
\tat a.B.c(B.java:5)
\tat a.B.d(B.java:9)
\tat a.B.e(B.java:19)
\tat a.B.main(B.java:20)
Caused by: it"""


@given(st.text(st.characters()), st.integers(1, 60))
def test_it_is_printable_and_bounded(text, limit):
    got = shown(text, limit)
    assert got.isprintable()
    assert len(got) <= limit
    if text.isprintable() and len(text) <= limit:
        assert got == text


def test_it_shows_what_was_there():
    assert shown("\x1b[31mred\x1b[0m\n", 80) == r"\x1b[31mred\x1b[0m\n"
    assert shown("a\u202eb\ud800\x9b", 80) == r"a\u202eb\ud800\x9b"
    assert shown("äöü €", 80) == "äöü €"


def test_it_marks_the_cut_and_never_halves_an_escape():
    assert shown("abcdef", 6) == "abcdef"
    assert shown("abcdefg", 6) == "abcde…"
    assert shown("abc\x1b\x1b", 8) == "abc\\x1b…"
    assert shown("abc\x1b\x1b", 7) == "abc…"


def test_a_python_trace_keeps_three_lines():
    assert shortened(PYTHON.splitlines()) == [
        "worker 1:",
        "Traceback (most recent call last):",
        "  ... 2 lines of the trace left out",
        '  File "b.py", line 2, in run',
        "    raise ValueError(x)",
        "ValueError: 5",
        "bye",
    ]


@pytest.mark.parametrize("tab", ["\t", "\\t"])
def test_a_java_trace_is_one_too(tab):
    found = shortened(JAVA.replace("\t", tab).splitlines())
    assert found[1] == "  ... 2 lines of the trace left out"
    assert len(found) == 5


@pytest.mark.parametrize("lines", [[], ["one", "two"], ["", "a", "", "b"], ["a", " b", " c", " d"]])
def test_other_text_stays_as_it_is(lines):
    assert shortened(lines) == lines


def test_a_command_line_can_be_pasted() -> None:
    options = {"seed": 0, "hosts": None, "only": "", "anyway": True, "keep": False}
    line = command_line("run", "my engine.toml", **options, tier=[1, 2])
    assert line == "tickproof run 'my engine.toml' --seed 0 --anyway --tier 1 --tier 2"


@given(st.text(), st.integers(1, 40))
def test_a_text_cut_in_the_middle_keeps_both_ends(text, limit):
    cut = middle_cut(text, limit)
    assert len(cut) == min(len(text), limit)
    assert (
        any(
            text.startswith(cut[:at]) and text.endswith(cut[at + 1 :]) and cut[at] == "…"
            for at in range(limit)
        )
        if len(text) > limit
        else cut == text
    )


def test_a_path_cut_in_the_middle_keeps_its_file():
    path = "/srv/kit/fixtures/engines/miniature/engine.toml"
    assert middle_cut(path, 32) == "/srv/kit/fi…iniature/engine.toml"


@pytest.mark.parametrize(
    ("lines", "once"),
    [
        (["a", "b", "a"], ["a", "b", "a"]),
        (["a"] * 32, ["a", "  ... 32 times"]),
        (["a", "b"] * 3 + ["c"], ["a", "b", "  ... 3 times", "c"]),
        (["x", "E1", "E2", "E1", "E2"], ["x", "E1", "E2", "  ... 2 times"]),
        ([], []),
    ],
)
def test_what_comes_again_and_again_is_told_once(lines, once):
    assert shortened(lines) == once
